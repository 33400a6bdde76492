import { randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '../src/lib/errors.ts';
import { SHARED_CLUSTER, type SharedCluster } from './support/cluster.ts';
import { type MarkedProcess, processesWith } from './support/processes.ts';
import { startTestControlPlane } from './support/test-control-plane.ts';

/**
 * `npm test`. One control plane for all test files, a process for each; fails when a test fails, when none ran, when the
 * run takes too long and when a process is left.
 * Usage: `npx node test/run.ts [--no-cluster] [part of a path …]`
 */
const RUN_LIMIT_MS = 20 * 60_000;
const LEAVE_MS = 15_000;
const RUN_MARKER = 'CONVOKE_TEST_RUN';
const ROOT = join(import.meta.dirname, '..');

const { files, needsCluster } = selectFiles(process.argv.slice(2));
const runId = randomUUID();
process.env[RUN_MARKER] = runId;

const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(name, () => stop.abort(new Error(`stopped by ${name}`)));
}

const faults: string[] = [];
try {
  faults.push(...(needsCluster ? await runWithCluster(stop.signal) : await runFiles(stop.signal)));
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
  const all = globSync('test/**/*.test.ts', { cwd: ROOT }).sort();
  const isCluster = (file: string): boolean => file.endsWith('.cluster.test.ts');
  const files = all
    .filter((file) => !(noCluster && isCluster(file)))
    .filter((file) => parts.length === 0 || parts.some((part) => file.includes(part)));
  return { files, needsCluster: files.some(isCluster) };
}

async function runWithCluster(signal: AbortSignal): Promise<string[]> {
  const controlPlane = await startTestControlPlane(signal);
  try {
    const { url, token, caFile, kubeconfigPath, folder } = controlPlane;
    const shared: SharedCluster = { url, token, caFile, kubeconfigPath, folder };
    process.env[SHARED_CLUSTER] = JSON.stringify(shared);
    let hasEnded: string | undefined;
    void controlPlane.ended.then((how) => {
      hasEnded = how;
    });
    const faults = await runFiles(signal);
    return hasEnded === undefined ? faults : [...faults, `the control plane was gone before the end: ${hasEnded}`];
  } finally {
    await controlPlane.stop();
  }
}

/** @returns what went wrong beside the failures that the reporter shows. */
async function runFiles(signal: AbortSignal): Promise<string[]> {
  const limit = AbortSignal.timeout(RUN_LIMIT_MS);
  let counts = { tests: 0, passed: 0 };
  let success = false;
  const events = run({
    files: files.map((file) => join(ROOT, file)),
    concurrency: Math.max(2, availableParallelism() - 1),
    signal: AbortSignal.any([signal, limit]),
  });
  events.on('test:summary', (summary) => {
    if (summary.file !== undefined) return;
    counts = summary.counts;
    success = summary.success;
  });
  const report = events.compose(spec);
  report.pipe(process.stdout, { end: false });
  await finished(report);
  if (signal.aborted) return [describeError(signal.reason)];
  if (limit.aborted) return [`the run took longer than ${RUN_LIMIT_MS / 60_000} minutes and was stopped`];
  if (counts.passed === 0) return [`no test ran; files: ${files.length === 0 ? 'none matches' : files.join(', ')}`];
  return success ? [] : ['tests failed'];
}

/** What a test started and did not end is ended here, and is a fault of that test. */
async function endLeftProcesses(): Promise<string[]> {
  let left: MarkedProcess[] = [];
  for (const deadline = performance.now() + LEAVE_MS; performance.now() < deadline; await delay(100)) {
    left = processesWith(RUN_MARKER, runId);
    if (left.length === 0) return [];
  }
  for (const { pid } of left) process.kill(pid, 'SIGKILL');
  return left.map(({ pid, command }) => `a process was left and had to be killed: ${pid} ${command.slice(0, 200)}`);
}
