import { access, constants, mkdir, rename, rm, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { abortable } from '../../src/lib/abort.ts';
import { logTail } from './log-tail.ts';
import { type ProgressStream, startProgress } from './progress.ts';
import { startSupervisor } from './supervise.ts';

/** The API server's own version is set by the linker; without it, it would call itself v0.0.0. */
const VERSION = 'v1.37.2';
export const BUILD_FLAGS = ['-trimpath', '-ldflags', `-s -w -X k8s.io/component-base/version.gitVersion=${VERSION}`];

const TARGETS = [
  { name: 'kube-apiserver', path: 'k8s.io/kubernetes/cmd/kube-apiserver', usually: '8 minutes on 2 cores, once' },
  { name: 'etcd', path: 'go.etcd.io/etcd/server/v3', usually: '15 seconds' },
];

const SUCCESS = 'exit code 0';

export interface BuildOptions {
  /** Folder of go.mod and go.sum. */
  readonly module: string;
  /** Where the binaries are to be; it appears whole or not at all. */
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly stream: ProgressStream;
}

/** Builds kube-apiserver and etcd from Go modules. The caller holds the lock on `folder`. */
export async function buildAssets({ module, folder, env, stream }: BuildOptions, signal: AbortSignal): Promise<void> {
  const go = await findGo(env);
  const building = `${folder}.building`;
  const logFile = `${folder}.log`;
  await rm(building, { recursive: true, force: true });
  await rm(logFile, { force: true });
  await mkdir(building);
  stream.write(`Building a Kubernetes ${VERSION} control plane into ${folder} (log: ${logFile})\n`);
  const supervisor = startSupervisor(building);
  try {
    for (const { name, path, usually } of TARGETS) {
      const progress = startProgress(`  ${name} (usually ${usually})`, stream);
      let outcome = 'stopped';
      try {
        const compiler = await supervisor.start({
          command: go,
          args: ['build', ...BUILD_FLAGS, '-o', join(building, name), path],
          cwd: module,
          // `go` leaves its work folder behind when it is stopped; in `building` it goes with that.
          env: { ...env, CGO_ENABLED: '0', GOWORK: 'off', GOTMPDIR: building },
          logFile,
        });
        outcome = await abortable(compiler.ended, signal);
      } finally {
        progress.end(outcome === SUCCESS ? 'done' : outcome);
      }
      if (outcome !== SUCCESS) {
        throw new Error(`go build of ${name} ended with ${outcome}; the end of ${logFile}:\n${await logTail(logFile)}`);
      }
    }
    await rename(building, folder);
  } finally {
    await supervisor.stop();
  }
}

async function findGo(env: NodeJS.ProcessEnv): Promise<string> {
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    const path = join(folder, 'go');
    if (folder !== '' && (await isExecutable(path))) return path;
  }
  throw new Error(
    'no control plane is at hand, and none can be built because there is no `go` on the PATH. Either\n' +
      '  - install Go (https://go.dev/dl): kube-apiserver and etcd are then built once, or\n' +
      '  - set KUBEBUILDER_ASSETS to a folder that holds `etcd` and `kube-apiserver`\n' +
      '    (`setup-envtest use -p path` of controller-runtime downloads them), or\n' +
      '  - use a cluster that is there: `npm run demo -- --kubeconfig FILE`',
  );
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
