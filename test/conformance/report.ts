import type { Expectation } from './expected.ts';
import type { Check } from './suite.ts';

export interface Row {
  readonly scenario: string;
  readonly outcome: 'pass' | 'fail' | 'skip' | 'not run';
  readonly passed: number;
  readonly total: number;
  /** Why it is expected not to pass in full. */
  readonly reason?: string;
  /** What is not as expected, a text each. */
  readonly surprises: readonly string[];
}

/** One row a scenario: those that are expected in their order, then those that nobody expected. */
export function judge(
  runs: ReadonlyMap<string, readonly Check[]>,
  expected: Readonly<Record<string, Expectation>>,
): Row[] {
  const unexpected = [...runs.keys()].filter((scenario) => expected[scenario] === undefined);
  return [...Object.keys(expected), ...unexpected].map((scenario) => {
    const checks = runs.get(scenario);
    const expectation = expected[scenario];
    const reason = expectation?.reason;
    const base = { scenario, ...(reason !== undefined && { reason }) };
    if (checks === undefined) return { ...base, outcome: 'not run', passed: 0, total: 0, surprises: ['did not run'] };
    const counted = checks.filter(({ status }) => status !== 'SKIPPED' && status !== 'INFO');
    const passed = counted.filter(({ status }) => status === 'SUCCESS').length;
    const failures = counted.filter(({ status }) => status !== 'SUCCESS');
    return {
      ...base,
      outcome: failures.length > 0 ? 'fail' : passed > 0 ? 'pass' : 'skip',
      passed,
      total: counted.length,
      surprises: surprisesOf(passed, failures, expectation),
    };
  });
}

function surprisesOf(passed: number, failures: readonly Check[], expectation: Expectation | undefined): string[] {
  if (expectation === undefined) return ['is not listed in expected.ts'];
  const surprises = failures
    .filter(({ id }) => !expectation.failed.includes(id))
    .map(({ id, status, errorMessage = 'no message' }) => `${id}: ${status}: ${errorMessage}`);
  const fixed = expectation.failed.filter((id) => !failures.some((failure) => failure.id === id));
  surprises.push(...fixed.map((id) => `${id}: was expected to fail and does not`));
  if (surprises.length === 0 && passed !== expectation.passed) {
    surprises.push(`${passed} checks succeed, where ${expectation.passed} were expected`);
  }
  return surprises;
}

/** For a terminal: the table, then what is not as expected, then one line that sums up. */
export function render(rows: readonly Row[]): string {
  const cells = rows.map(({ scenario, outcome, passed, total, reason = '', surprises }) => [
    scenario,
    `${passed}/${total}`,
    outcome,
    surprises.length === 0 ? 'yes' : 'NO',
    reason,
  ]);
  const table = columns([['SCENARIO', 'CHECKS', 'OUTCOME', 'EXPECTED', 'REASON'], ...cells]);
  const surprises = rows.flatMap((row) => row.surprises.map((text) => `✖ ${row.scenario}: ${text}`));
  const count = (outcome: Row['outcome']): number => rows.filter((row) => row.outcome === outcome).length;
  const sum = `${count('pass')} pass, ${count('fail')} fail, ${count('skip')} skipped, ${count('not run')} not run`;
  const verdict = surprises.length === 0 ? 'all as expected' : `${surprises.length} not as expected`;
  return [...table, '', ...surprises, `${sum}: ${verdict}`].join('\n');
}

function columns(lines: readonly (readonly string[])[]): string[] {
  const width = (index: number): number => Math.max(...lines.map((cells) => cells[index]?.length ?? 0));
  return lines.map((cells) =>
    cells
      .map((cell, index) => cell.padEnd(width(index)))
      .join('  ')
      .trimEnd(),
  );
}
