import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/lib/clock.ts';
import { describeError } from '../../src/lib/errors.ts';
import { type Assets, resolveAssets } from './assets.ts';
import { freePort } from './free-port.ts';
import { type Access, writeKubeconfig } from './kubeconfig.ts';
import { logTail } from './log-tail.ts';
import { request } from './request.ts';
import { type SupervisedProcess, type Supervisor, startSupervisor } from './supervise.ts';

/** A line of the API server's token file. */
export interface User {
  readonly token: string;
  readonly name: string;
  readonly uid: string;
  readonly groups: readonly string[];
}

export interface ControlPlaneOptions {
  /** Default: `resolveAssets` with this process's environment, progress on stderr. */
  readonly assets?: Assets;
  /** Known to the API server beside the administrator. They may do nothing until RBAC says so. */
  readonly users?: readonly User[];
  /** Default false: etcd does not wait for the disk. True for a bench of durable writes. */
  readonly fsync?: boolean;
}

export interface ControlPlane extends Access {
  /** `token` above and this file are the administrator's (`system:masters`). */
  readonly kubeconfigPath: string;
  /** Everything the control plane writes, logs included, and whatever shall be removed with it. */
  readonly folder: string;
  readonly pids: { readonly etcd: number; readonly kubeApiserver: number };
  /** Resolves when one of the two has ended, with a text that says which and how. Never rejects. */
  readonly ended: Promise<string>;
  /** Ends both and removes the folder. Idempotent. */
  stop(): Promise<void>;
  /** Lets our own process end while the control plane runs; that is then stopped at once. */
  unref(): void;
}

const READY_MS = 60_000;
const REQUEST_MS = 5_000;
const POLL_MS = 100;
const ATTEMPTS = 3;

/**
 * etcd and kube-apiserver on loopback ports. They stop with `stop()` or with this process, however that ends.
 * @param signal bounds the start only.
 */
export async function startControlPlane(options: ControlPlaneOptions, signal: AbortSignal): Promise<ControlPlane> {
  const assets = options.assets ?? (await resolveAssets({ env: process.env, stream: process.stderr }, signal));
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startOnce(assets, options, signal);
    } catch (error) {
      if (attempt === ATTEMPTS || !(error instanceof PortTakenError)) throw error;
    }
  }
}

/** A port that was free when we looked has been taken since. */
class PortTakenError extends Error {
  override name = 'PortTakenError';
}

async function startOnce(assets: Assets, options: ControlPlaneOptions, signal: AbortSignal): Promise<ControlPlane> {
  const folder = await mkdtemp(join(tmpdir(), 'convoke-control-plane-'));
  const supervisor = startSupervisor(folder);
  try {
    return await startIn(folder, supervisor, assets, options, signal);
  } catch (error) {
    await supervisor.stop();
    throw error;
  }
}

async function startIn(
  folder: string,
  supervisor: Supervisor,
  assets: Assets,
  { users = [], fsync = false }: ControlPlaneOptions,
  signal: AbortSignal,
): Promise<ControlPlane> {
  const etcdUrl = `http://127.0.0.1:${await freePort()}`;
  const port = await freePort();
  const access: Access = {
    url: `https://127.0.0.1:${port}`,
    token: randomBytes(16).toString('hex'),
    caFile: join(folder, 'certs', 'apiserver.crt'),
  };
  const admin: User = { token: access.token, name: 'admin', uid: 'admin', groups: ['system:masters'] };
  await writeFile(join(folder, 'tokens.csv'), [admin, ...users].map(tokenLine).join(''), { mode: 0o600 });
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(join(folder, 'sa.key'), privateKey.export({ type: 'sec1', format: 'pem' }), { mode: 0o600 });

  const run = async (name: string, command: string, args: string[]): Promise<SupervisedProcess> => {
    const logFile = join(folder, `${name}.log`);
    const child = await supervisor.start({ command, args, logFile });
    const ended = child.ended.then(
      async (how) => `${name} ended with ${how}; the end of its log:\n${await logTail(logFile)}`,
    );
    return { pid: child.pid, ended };
  };
  const etcd = await run('etcd', assets.etcd, etcdArgs(folder, etcdUrl, fsync));
  const kubeApiserver = await run('kube-apiserver', assets.kubeApiserver, apiServerArgs(folder, etcdUrl, port));
  const ended = Promise.race([etcd.ended, kubeApiserver.ended]);

  await untilReady(access, ended, signal);
  const kubeconfigPath = join(folder, 'kubeconfig');
  await writeKubeconfig(kubeconfigPath, access);
  return {
    ...access,
    kubeconfigPath,
    folder,
    pids: { etcd: etcd.pid, kubeApiserver: kubeApiserver.pid },
    ended,
    stop: supervisor.stop,
    unref: supervisor.unref,
  };
}

function tokenLine({ token, name, uid, groups }: User): string {
  return `${token},${name},${uid},"${groups.join(',')}"\n`;
}

function etcdArgs(folder: string, url: string, fsync: boolean): string[] {
  const args = [
    `--data-dir=${join(folder, 'etcd')}`,
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    '--listen-peer-urls=http://127.0.0.1:0',
    '--log-level=error',
  ];
  return fsync ? args : [...args, '--unsafe-no-fsync'];
}

function apiServerArgs(folder: string, etcdUrl: string, port: number): string[] {
  const key = join(folder, 'sa.key');
  return [
    `--etcd-servers=${etcdUrl}`,
    `--cert-dir=${join(folder, 'certs')}`,
    `--secure-port=${port}`,
    '--bind-address=127.0.0.1',
    // Found from the default route otherwise, and a machine without a network has none.
    '--advertise-address=127.0.0.1',
    '--service-cluster-ip-range=10.0.0.0/24',
    '--authorization-mode=RBAC',
    `--token-auth-file=${join(folder, 'tokens.csv')}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${key}`,
    `--service-account-signing-key-file=${key}`,
    // Without its controller no namespace has the ServiceAccount that it would ask of every Pod.
    '--disable-admission-plugins=ServiceAccount',
    '--endpoint-reconciler-type=none',
  ];
}

async function untilReady(access: Access, ended: Promise<string>, signal: AbortSignal): Promise<void> {
  const polling = new AbortController();
  try {
    const early = await Promise.race([pollReady(access, AbortSignal.any([signal, polling.signal])), ended]);
    if (early === undefined) return;
    throw early.includes('address already in use') ? new PortTakenError(early) : new Error(early);
  } finally {
    polling.abort();
  }
}

/** Ready also means that the `default` namespace is there, which `/readyz` does not wait for. */
async function pollReady(access: Access, signal: AbortSignal): Promise<undefined> {
  const deadline = performance.now() + READY_MS;
  let last = 'nothing';
  while (performance.now() < deadline) {
    try {
      last = await notReady(access, AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]));
      if (last === '') return;
    } catch (error) {
      last = describeError(error);
    }
    await systemClock.sleep(POLL_MS, signal);
  }
  throw new Error(`the API server was not ready within ${READY_MS / 1_000} s; its last answer: ${last}`);
}

/** What is still missing; empty when ready. */
async function notReady(access: Access, signal: AbortSignal): Promise<string> {
  for (const path of ['/readyz', '/api/v1/namespaces/default']) {
    const { status, body } = await request(access, 'GET', path, { signal });
    if (status !== 200) return `${status} to GET ${path}: ${body.slice(0, 2_000)}`;
  }
  return '';
}
