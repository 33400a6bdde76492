import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { EXPECTED, type Expectation, SPEC_VERSION } from './expected.ts';
import { judge, render } from './report.ts';
import type { Check } from './suite.ts';

const expected: Record<string, Expectation> = {
  good: { passed: 2, failed: [] },
  bad: { passed: 1, failed: ['b'], reason: 'not yet' },
  mute: { passed: 0, failed: [], reason: 'the suite skips it' },
};

const check = (id: string, status: Check['status'], errorMessage?: string): Check => ({
  id,
  status,
  ...(errorMessage !== undefined && { errorMessage }),
});
const asExpected = {
  good: [check('a', 'SUCCESS'), check('a', 'SUCCESS'), check('i', 'INFO')],
  bad: [check('a', 'SUCCESS'), check('b', 'FAILURE'), check('b', 'WARNING')],
  mute: [check('a', 'SKIPPED')],
};

function judgeWith(changed: Record<string, Check[] | undefined>): ReturnType<typeof judge> {
  const runs = Object.entries({ ...asExpected, ...changed });
  return judge(new Map(runs.flatMap(([name, checks]) => (checks === undefined ? [] : [[name, checks]]))), expected);
}

function surprises(changed: Record<string, Check[] | undefined>): string[] {
  return judgeWith(changed).flatMap((row) => row.surprises.map((text) => `${row.scenario}: ${text}`));
}

describe('judge', () => {
  test('what is as expected is no surprise; information and skipped checks do not count', () => {
    assert.deepEqual(judgeWith({}), [
      { scenario: 'good', outcome: 'pass', passed: 2, total: 2, surprises: [] },
      { scenario: 'bad', outcome: 'fail', passed: 1, total: 3, reason: 'not yet', surprises: [] },
      { scenario: 'mute', outcome: 'skip', passed: 0, total: 0, reason: 'the suite skips it', surprises: [] },
    ]);
  });

  test('a check that fails or warns unexpectedly is told with its message', () => {
    assert.deepEqual(surprises({ good: [check('a', 'SUCCESS'), check('z', 'WARNING', 'no z')] }), [
      'good: z: WARNING: no z',
    ]);
  });

  test('a check that passes unexpectedly is told too', () => {
    assert.deepEqual(surprises({ bad: [check('a', 'SUCCESS'), check('b', 'SUCCESS')] }), [
      'bad: b: was expected to fail and does not',
    ]);
  });

  test('a check that is no longer made is noticed by the count', () => {
    assert.deepEqual(surprises({ good: [check('a', 'SUCCESS'), check('a', 'SKIPPED')] }), [
      'good: 1 checks succeed, where 2 were expected',
    ]);
  });

  test('a listed scenario that did not run, and one that is not listed', () => {
    assert.deepEqual(surprises({ good: undefined, novel: [check('a', 'SUCCESS')] }), [
      'good: did not run',
      'novel: is not listed in expected.ts',
    ]);
  });
});

test('the table aligns its columns, and ends with what is not as expected and a sum', () => {
  assert.equal(
    render(judgeWith({ good: [check('z', 'FAILURE')] })),
    `
SCENARIO  CHECKS  OUTCOME  EXPECTED  REASON
good      0/1     fail     NO
bad       1/3     fail     yes       not yet
mute      0/0     skip     yes       the suite skips it

✖ good: z: FAILURE: no message
0 pass, 2 fail, 1 skipped, 0 not run: 1 not as expected`.trimStart(),
  );
});

describe('expected.ts', () => {
  test('lists what the installed suite has for a server at this revision, scored or not', async () => {
    const name = `@modelcontextprotocol/conformance/requirements/${SPEC_VERSION}.yaml`;
    const { server, not_scored: others } = parse(await readFile(fileURLToPath(import.meta.resolve(name)), 'utf8')) as {
      server: string[];
      not_scored: { scenario: string; leg: string }[];
    };
    const ofServer = others.filter(({ leg }) => leg === 'server').map(({ scenario }) => scenario);
    assert.deepEqual(Object.keys(EXPECTED).sort(), [...server, ...ofServer].sort());
  });

  test('says why, wherever a scenario does not pass in full', () => {
    const silent = Object.entries(EXPECTED).filter(
      ([, { passed, failed, reason }]) => (passed === 0 || failed.length > 0) !== (reason !== undefined),
    );
    assert.deepEqual(silent, []);
  });
});
