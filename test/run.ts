import { randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { setTimeout as delay } from 'node:timers/promises';
import { interruptSignal } from '../deploy/local/interrupt-signal.ts';
import { describeError } from '../src/lib/errors.ts';
import { SHARED_CLUSTER, type SharedCluster } from './support/cluster.ts';
import { type MarkedProcess, processesWith } from './support/processes.ts';
import { startTestControlPlane } from './support/test-control-plane.ts';

/**
 * `npm test`. One control plane for all test files, a process for each; fails when a test fails, when none ran, when the
 * run takes too long and when a process is left.
 * Usage: `npx node test/run.ts [--no-cluster] [part of a path …]`
 */
const RUN_LIMIT_MS = 15 * 60_000;
const TEST_LIMIT_MS = 3 * 60_000;
const LEAVE_MS = 2_000;
/** What a supervisor takes at most to end its processes. */
const SUPERVISOR_LEAVE_MS = 15_000;
const RUN_MARKER = 'CONVOKE_TEST_RUN';
/** The checkout: npm starts scripts there. */
const ROOT = process.cwd();

const runId = randomUUID();
process.env[RUN_MARKER] = runId;

const stop = interruptSignal();

const faults: string[] = [];
try {
  const { files, needsCluster } = selectFiles(process.argv.slice(2));
  const runSelected = needsCluster ? runWithCluster : runFiles;
  faults.push(...(await runSelected(files, stop)));
} catch (error) {
  faults.push(describeError(error));
}
faults.push(...(await endLeftProcesses()));
for (const fault of faults) console.error(`✖ ${fault}`);
process.exitCode = faults.length === 0 ? 0 : 1;

function selectFiles(args: readonly string[]): { files: string[]; needsCluster: boolean } {
  const noCluster = args.includes('--no-cluster');
  const parts = args.filter((arg) => arg !== '--no-cluster');
  const unknown = parts.find((part) => part.startsWith('-'));
  if (unknown !== undefined) throw new Error(`unknown option ${unknown}; known: --no-cluster`);
  const isCluster = (file: string): boolean => file.endsWith('.cluster.test.ts');
  const files = globSync('test/**/*.test.ts', { cwd: ROOT })
    .filter((file) => !(noCluster && isCluster(file)))
    .filter((file) => parts.length === 0 || parts.some((part) => file.includes(part)))
    .sort();
  if (files.length === 0) throw new Error(`no test ran: no file test/**/*.test.ts of ${ROOT} matches`);
  return { files: files.map((file) => join(ROOT, file)), needsCluster: files.some(isCluster) };
}

async function runWithCluster(files: readonly string[], signal: AbortSignal): Promise<string[]> {
  const controlPlane = await startTestControlPlane(signal);
  try {
    const { url, token, caFile, kubeconfigPath, folder } = controlPlane;
    const shared: SharedCluster = { url, token, caFile, kubeconfigPath, folder };
    process.env[SHARED_CLUSTER] = JSON.stringify(shared);
    let hasEnded: string | undefined;
    void controlPlane.ended.then((how) => {
      hasEnded = how;
    });
    const faults = await runFiles(files, signal);
    return hasEnded === undefined ? faults : [...faults, `the control plane was gone before the end: ${hasEnded}`];
  } finally {
    await controlPlane.stop();
  }
}

/** @returns what went wrong; the failures themselves are shown by the reporter. */
async function runFiles(files: readonly string[], signal: AbortSignal): Promise<string[]> {
  const limit = AbortSignal.timeout(RUN_LIMIT_MS);
  const faults: string[] = [];
  const events = run({
    files,
    timeout: TEST_LIMIT_MS,
    // Half of a file's time is waiting; beside a control plane, which needs a processor of its own, fewer run at a time.
    concurrency: availableParallelism() + (process.env[SHARED_CLUSTER] === undefined ? 2 : 0),
    signal: AbortSignal.any([signal, limit]),
  });
  events.on('test:pass', ({ name, file }) => {
    // Node counts a file that declares no test as one that passed, named after the file.
    if (name === file) faults.push(`no test ran in ${relative(ROOT, file)}`);
  });
  events.on('test:summary', ({ file, success }) => {
    if (file === undefined && !success) faults.push('tests failed');
  });
  const report = events.compose(spec);
  report.pipe(process.stdout, { end: false });
  await finished(report);
  if (signal.aborted) return [describeError(signal.reason)];
  if (limit.aborted) return [`the run took longer than ${RUN_LIMIT_MS / 60_000} minutes and was stopped`];
  return faults;
}

/** What a test started and did not end is ended here, and is a fault of that test. */
async function endLeftProcesses(): Promise<string[]> {
  const started = performance.now();
  let left: MarkedProcess[];
  for (;;) {
    left = processesWith(RUN_MARKER, runId);
    if (left.length === 0) return [];
    const isSupervised = left.some(({ command }) => command.includes('deploy/local/supervisor.ts'));
    if (performance.now() - started > (isSupervised ? SUPERVISOR_LEAVE_MS : LEAVE_MS)) break;
    await delay(100);
  }
  for (const { pid } of left) process.kill(pid, 'SIGKILL');
  return left.map(({ pid, command }) => `a process was left and had to be killed: ${pid} ${command.slice(0, 200)}`);
}
