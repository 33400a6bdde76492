import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

export interface KubectlResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const LIMIT_MS = 60_000;

/** Runs the real kubectl. A failure is a result, not an exception: assert `code`. @param input what it reads from stdin. */
export async function kubectl(kubeconfigPath: string, args: readonly string[], input = ''): Promise<KubectlResult> {
  const child = spawn('kubectl', ['--kubeconfig', kubeconfigPath, ...args], { signal: AbortSignal.timeout(LIMIT_MS) });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);
  return { code, stdout, stderr };
}
