import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { TestCluster } from './cluster.ts';
import { kubectl } from './kubectl.ts';

const ROOT = new URL('../../', import.meta.url);
const START_MS = 60_000;

/** The operator as its users start it: a process of its own, free ports, logs on stderr. */
export interface OperatorProcess {
  /** Endpoint of its own namespace. */
  readonly url: string;
  readonly healthUrl: string;
  readonly pid: number;
  /** Every log record so far. */
  readonly logs: readonly Record<string, unknown>[];
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
  /** SIGKILL, as a node that loses power. */
  kill(): Promise<void>;
}

export interface OperatorProcessOptions {
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly flags?: readonly string[];
  readonly ready?: boolean;
}

export async function startOperatorProcess(options: OperatorProcessOptions): Promise<OperatorProcess> {
  const { kubeconfig, namespace, flags = [], ready = true } = options;
  const argv = ['--kubeconfig', kubeconfig, '--namespace', namespace, '--port=0', '--health-port=0', ...flags];
  const program = fileURLToPath(new URL('src/cli/main.ts', ROOT));
  const child = spawn(process.execPath, [program, 'operator', ...argv], {
    cwd: fileURLToPath(ROOT),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const logs: Record<string, unknown>[] = [];
  const waiting = new Map<string, (record: Record<string, unknown>) => void>();
  createInterface({ input: child.stderr }).on('line', (line) => {
    const record = parseRecord(line);
    logs.push(record);
    waiting.get(String(record.msg))?.(record);
  });
  const logged = (message: string): Promise<Record<string, unknown>> =>
    new Promise((resolve) => waiting.set(message, resolve));
  const listening = logged('listening');
  const isReady = logged('ready');
  const over = AbortSignal.timeout(START_MS);
  const gone = once(child, 'exit', { signal: over }).then(([code]) => {
    throw new Error(`the operator ended with ${code}: ${JSON.stringify(logs.slice(-5), undefined, 1)}`);
  });
  const up = Promise.race([Promise.all([listening, ready ? isReady : {}]), gone]);
  const [{ url, healthUrl }] = await up.catch((error: unknown) => {
    child.kill('SIGKILL'); // too slow to start: nothing of it is left
    throw error;
  });
  gone.catch(() => {});
  return {
    url: String(url),
    healthUrl: String(healthUrl),
    pid: child.pid ?? -1,
    logs,
    stop: () => end(child, 'SIGTERM'),
    kill: async () => {
      await end(child, 'SIGKILL');
    },
  };
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const exited = once(child, 'exit') as Promise<[number | null]>;
  child.kill(signal);
  return (await exited)[0];
}

function parseRecord(line: string): Record<string, unknown> {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return { msg: line };
  }
}

let token: Promise<string> | undefined;

/** A token with exactly the rights that deploy/base gives the operator: its ServiceAccount, its ClusterRole. */
export function narrowToken({ kubeconfigPath: admin }: TestCluster): Promise<string> {
  token ??= (async () => {
    const files = ['namespace.yaml', 'rbac.yaml'].map((name) => new URL(`deploy/base/${name}`, ROOT));
    const manifests = await Promise.all(files.map((file) => readFile(file, 'utf8')));
    await succeed(admin, ['apply', '--server-side', '--force-conflicts', '-f', '-'], manifests.join('\n---\n'));
    return (await succeed(admin, ['-n', 'convoke-system', 'create', 'token', 'convoke'])).trim();
  })();
  return token;
}

/** A kubeconfig with that token. */
export async function narrowKubeconfig(cluster: TestCluster): Promise<string> {
  return cluster.kubeconfigFor(await narrowToken(cluster));
}

/** kubectl that must succeed; resolves with its stdout. */
export async function succeed(kubeconfig: string, args: readonly string[], input = ''): Promise<string> {
  const { code, stdout, stderr } = await kubectl(kubeconfig, args, input);
  if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stderr}`);
  return stdout;
}
