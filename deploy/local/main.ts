import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeError } from '../../src/lib/errors.ts';
import { type ControlPlane, startControlPlane } from './control-plane.ts';
import { interruptSignal } from './interrupt-signal.ts';
import { applyManifests } from './manifests.ts';

/** `npm run cluster`: a control plane with our CRDs, until Ctrl-C. */
const CRDS = fileURLToPath(new URL('../../crds', import.meta.url));

async function main(signal: AbortSignal): Promise<void> {
  const { values } = parseArgs({ options: { help: { type: 'boolean' } } });
  if (values.help)
    return console.log('Usage: npm run cluster\n\nStarts etcd and kube-apiserver with our CRDs, until Ctrl-C.');
  const controlPlane = await startControlPlane({}, signal);
  try {
    const applied = await applyManifests(controlPlane.kubeconfigPath, [CRDS], signal);
    console.log(describe(controlPlane, applied));
    const stopped = new Promise<undefined>((resolve) => {
      signal.addEventListener('abort', () => resolve(undefined), { once: true });
    });
    const ended = await Promise.race([controlPlane.ended, stopped]);
    if (ended !== undefined) throw new Error(ended);
  } finally {
    await controlPlane.stop();
  }
}

function describe({ url, kubeconfigPath, folder, pids }: ControlPlane, applied: string[]): string {
  return `A Kubernetes API server is ready at ${url} (pid ${pids.kubeApiserver}, etcd ${pids.etcd}).
It has no kubelet and no controllers: Pods do not run. Its data and logs: ${folder}
Applied:
${applied.map((name) => `  ${name}`).join('\n')}

In another terminal:

  export KUBECONFIG=${kubeconfigPath}

Ctrl-C stops it and removes its data.`;
}

try {
  await main(interruptSignal());
} catch (error) {
  console.error(describeError(error));
  process.exitCode = 1;
}
