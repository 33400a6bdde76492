import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
const CRD = 'customresourcedefinition.apiextensions.k8s.io/';
const ESTABLISHED_S = 30;

/**
 * `kubectl apply --server-side` of files or folders (a folder with a kustomization.yaml is built first by the caller),
 * until the CRDs among them are Established.
 * @returns what was applied, as `kind.group/name`.
 */
export async function applyManifests(
  kubeconfig: string,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  const kubectl = async (args: string[]): Promise<string> => {
    const { stdout } = await run('kubectl', ['--kubeconfig', kubeconfig, ...args], { signal });
    return stdout;
  };
  const files = paths.flatMap((path) => ['-f', path]);
  try {
    const applied = (await kubectl(['apply', '--server-side', '-o', 'name', ...files])).trim().split('\n');
    const crds = applied.filter((name) => name.startsWith(CRD));
    if (crds.length > 0) {
      await kubectl(['wait', '--for=condition=Established', `--timeout=${ESTABLISHED_S}s`, ...crds]);
    }
    return applied;
  } catch (error) {
    throw signal.aborted ? signal.reason : explain(error);
  }
}

function explain(error: unknown): unknown {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
    return new Error('kubectl is not on the PATH: install it (https://kubernetes.io/docs/tasks/tools)', {
      cause: error,
    });
  }
  return error;
}
