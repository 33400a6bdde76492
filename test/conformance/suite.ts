import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { SPEC_VERSION } from './expected.ts';

const CHECKS = z.array(
  z.object({
    id: z.string(),
    status: z.enum(['SUCCESS', 'FAILURE', 'WARNING', 'SKIPPED', 'INFO']),
    errorMessage: z.string().optional(),
  }),
);
/** One assertion of a scenario; a scenario may make several under one id. */
export type Check = z.infer<typeof CHECKS>[number];

const PROGRAM = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'));
const SUITE_MS = 5 * 60_000;
/** Twice the suite's own default: a machine that runs other tests beside it is slow. */
const SCENARIO_MS = 60_000;
/** `server-<scenario>-<ISO time with dashes>`, as the suite names the folder of a result. */
const RESULT = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/;

/**
 * Runs the official suite as it is installed. What fails is in the result; an exception says that there is none.
 * @param scenarios undefined: all that the suite has for a server at SPEC_VERSION, scored or not.
 * @returns the checks of each scenario that ran.
 */
export async function runSuite(
  url: string,
  scenarios: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<Map<string, Check[]>> {
  const folder = await mkdtemp(join(tmpdir(), 'convoke-conformance-'));
  try {
    // The suite leaves out the scenarios of an extension unless it is forced to run them.
    const selections = scenarios?.map((name) => ['--scenario', name, '--spec-version', SPEC_VERSION, '--force']) ?? [
      ['--requirements', SPEC_VERSION],
    ];
    const common = ['server', '--url', url, '--timeout', String(SCENARIO_MS), '-o', folder];
    for (const selection of selections) await start([...common, ...selection], signal);
    return await readResults(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The suite's exit code says that something failed, which the results say better; but it must have run to its end. */
async function start(args: readonly string[], signal: AbortSignal): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(SUITE_MS)]);
  const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ['ignore', 'pipe', 'pipe'], signal: limit });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);
  if (code !== 0 && code !== 1) {
    throw new Error(`conformance ${args.join(' ')} ended with ${code}: ${(stderr || stdout).slice(-2_000)}`);
  }
}

async function readResults(folder: string): Promise<Map<string, Check[]>> {
  const results = new Map<string, Check[]>();
  for (const name of await readdir(folder)) {
    const scenario = RESULT.exec(name)?.[1];
    if (scenario === undefined) throw new Error(`conformance wrote "${name}", where a folder of results was expected`);
    results.set(scenario, CHECKS.parse(JSON.parse(await readFile(join(folder, name, 'checks.json'), 'utf8'))));
  }
  return results;
}
