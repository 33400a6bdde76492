import { execFile } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startControlPlane } from '../local/control-plane.ts';
import { freePort } from '../local/free-port.ts';
import { logTail } from '../local/log-tail.ts';
import { applyManifests } from '../local/manifests.ts';
import { startSupervisor } from '../local/supervise.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const READY_MS = 60_000;
/** The port in examples/mcpservers.yaml. */
const KUBERNETES_SERVER = 'http://127.0.0.1:8090/mcp';

/** Everything that the demo stands on: a cluster, real upstream servers, and an operator that runs with its narrow rights. */
export interface Stage {
  readonly kubeconfigPath: string;
  readonly namespace: string;
  readonly endpoint: string;
  readonly operatorLog: string;
  /** Rejects when the operator ends before it is stopped. */
  readonly broken: Promise<never>;
  /** Runs kubectl in the demo's namespace; resolves with its stdout. */
  kubectl(args: readonly string[], input?: string): Promise<string>;
  stop(): Promise<void>;
}

/** @param kubeconfig of a cluster that is there; without it one is started. @param say prints one line of progress. */
export async function setUp(
  kubeconfig: string | undefined,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Stage> {
  const controlPlane = kubeconfig === undefined ? await startControlPlane({}, signal) : undefined;
  const admin = kubeconfig ?? controlPlane?.kubeconfigPath ?? '';
  const folder = await mkdtemp(join(tmpdir(), 'convoke-demo-'));
  const supervisor = startSupervisor(folder);
  const stop = async (): Promise<void> => {
    await supervisor.stop();
    await controlPlane?.stop();
  };
  try {
    const namespace = 'convoke-demo';
    const kubectl = (args: readonly string[], input?: string): Promise<string> =>
      runKubectl(admin, ['-n', namespace, ...args], input, signal);
    say(controlPlane ? `a Kubernetes API server runs at ${controlPlane.url}` : `using the cluster of ${kubeconfig}`);

    await applyManifests(admin, [join(ROOT, 'crds')], signal);
    const rights = ['namespace.yaml', 'rbac.yaml'].map((file) => join(ROOT, 'deploy/base', file));
    await applyManifests(admin, rights, signal);
    await kubectl(['apply', '-f', '-'], `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"${namespace}"}}`);
    // So that what the README shows works with the kubeconfig that the demo prints; one that is not ours stays as it is.
    if (controlPlane) {
      await runKubectl(admin, ['config', 'set-context', '--current', `--namespace=${namespace}`], undefined, signal);
    }
    say('the CRDs and the operator’s rights (deploy/base) are applied');

    const kubernetesPort = await portNear(8090);
    await supervisor.start({
      command: process.execPath,
      args: [
        join(ROOT, 'node_modules/kubernetes-mcp-server/bin/index.js'),
        ...['--port', String(kubernetesPort), '--bind-address', '127.0.0.1', '--toolsets', 'core,config'],
      ],
      env: { ...process.env, KUBECONFIG: admin },
      logFile: join(folder, 'kubernetes-mcp-server.log'),
    });
    say(
      `kubernetes-mcp-server (npm) listens on port ${kubernetesPort}; server-everything (npm) is started by the operator`,
    );

    const operatorLog = join(folder, 'operator.log');
    const port = await portNear(8080);
    const healthPort = await freePort();
    const operator = await supervisor.start({
      command: process.execPath,
      args: [
        join(ROOT, 'src/cli/main.ts'),
        'operator',
        ...['--kubeconfig', await narrowKubeconfig(admin, folder, signal)],
        ...['--namespace', namespace, '--watch=own', '--allow-stdio'],
        ...['--port', String(port), '--health-port', String(healthPort)],
      ],
      cwd: ROOT,
      logFile: operatorLog,
    });
    const broken = operator.ended.then(async (how) => {
      throw new Error(`the operator ended with ${how}:\n${await logTail(operatorLog)}`);
    });
    broken.catch(() => {}); // at the end it is stopped, and nobody waits for it
    await Promise.race([untilReady(`http://127.0.0.1:${healthPort}/readyz`, signal), broken]);
    const endpoint = `http://127.0.0.1:${port}/mcp`;
    say(`the operator serves MCP at ${endpoint}`);

    const servers = await readFile(join(ROOT, 'examples/mcpservers.yaml'), 'utf8');
    await kubectl(
      ['apply', '-f', '-'],
      servers.replace(KUBERNETES_SERVER, KUBERNETES_SERVER.replace('8090', String(kubernetesPort))),
    );
    return { kubeconfigPath: admin, namespace, endpoint, operatorLog, broken, kubectl, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The cluster as the operator's ServiceAccount sees it. */
async function narrowKubeconfig(admin: string, folder: string, signal: AbortSignal): Promise<string> {
  const kubectl = (args: string[]): Promise<string> => runKubectl(admin, args, undefined, signal);
  const token = await kubectl(['-n', 'convoke-system', 'create', 'token', 'convoke', '--duration=24h']);
  const config = JSON.parse(await kubectl(['config', 'view', '--raw', '--minify', '--flatten', '-o', 'json']));
  config.users[0].user = { token: token.trim() };
  const path = join(folder, 'operator.kubeconfig');
  await writeFile(path, JSON.stringify(config), { mode: 0o600 });
  return path;
}

async function runKubectl(
  kubeconfig: string,
  args: readonly string[],
  input: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const child = run('kubectl', ['--kubeconfig', kubeconfig, ...args], { cwd: ROOT, signal });
  child.child.stdin?.end(input ?? '');
  try {
    return (await child).stdout;
  } catch (error) {
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    throw new Error(`kubectl ${args.join(' ')}: ${stderr}`, { cause: error });
  }
}

async function untilReady(url: string, signal: AbortSignal): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(READY_MS)]);
  for (;;) {
    limit.throwIfAborted();
    const response = await fetch(url, { signal: limit }).catch(() => undefined);
    if (response?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The wanted port if it is free, else any. */
async function portNear(wanted: number): Promise<number> {
  const free = await new Promise<boolean>((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(wanted, '127.0.0.1', () => server.close(() => resolve(true)));
  });
  return free ? wanted : freePort();
}
