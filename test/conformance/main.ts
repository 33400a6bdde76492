import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startControlPlane } from '../../deploy/local/control-plane.ts';
import { interruptSignal } from '../../deploy/local/interrupt-signal.ts';
import { applyManifests } from '../../deploy/local/manifests.ts';
import { describeError } from '../../src/lib/errors.ts';
import { succeed } from '../support/operator.ts';
import { EXPECTED, SPEC_VERSION } from './expected.ts';
import { startFixture } from './fixture.ts';
import { judge, render } from './report.ts';
import { runSuite } from './suite.ts';

/**
 * `npm run conformance`: the official suite against a Convoke whose fixtures are ordinary Workflows. Fails when a scenario
 * ends otherwise than expected.ts says, be it better. Usage: `npm run conformance -- [--serve | --scenario NAME …]`
 */
const CRDS = fileURLToPath(new URL('../../crds', import.meta.url));
const NAMESPACE = 'conformance';

interface Options {
  readonly serve: boolean;
  /** Undefined: all. */
  readonly scenarios: readonly string[] | undefined;
}

/** @throws Error whose message is for whoever typed the command. */
function parseOptions(): Options {
  const { values } = parseArgs({
    options: { serve: { type: 'boolean', default: false }, scenario: { type: 'string', multiple: true } },
  });
  const unknown = values.scenario?.find((name) => !Object.hasOwn(EXPECTED, name));
  if (unknown !== undefined) {
    throw new Error(`there is no scenario "${unknown}"; known:\n  ${Object.keys(EXPECTED).join('\n  ')}`);
  }
  if (values.serve && values.scenario !== undefined) throw new Error('--serve runs no scenario: give one of both');
  return { serve: values.serve, scenarios: values.scenario };
}

/** @returns whether all is as expected. */
async function main({ serve, scenarios }: Options, signal: AbortSignal): Promise<boolean> {
  await using started = new AsyncDisposableStack();
  console.error('starting a control plane …');
  const controlPlane = await startControlPlane({}, signal);
  started.defer(controlPlane.stop);
  const kubeconfig = controlPlane.kubeconfigPath;
  await applyManifests(kubeconfig, [CRDS], signal);
  await succeed(kubeconfig, ['create', 'namespace', NAMESPACE]);
  console.error('starting Convoke with the fixtures …');
  const fixture = await startFixture({ kubeconfig, namespace: NAMESPACE });
  started.defer(fixture.stop);
  signal.throwIfAborted();
  if (serve) {
    console.log(invitation(fixture.url, kubeconfig));
    const ended = await Promise.race([controlPlane.ended, once(signal, 'abort').then(() => undefined)]);
    if (ended !== undefined) throw new Error(ended);
    return true;
  }
  console.error(`running the suite against ${fixture.url} …`);
  const runs = await runSuite(fixture.url, scenarios, signal);
  const isAsked = ([name]: [string, unknown]): boolean => scenarios?.includes(name) ?? true;
  const rows = judge(runs, Object.fromEntries(Object.entries(EXPECTED).filter(isAsked)));
  console.log(render(rows));
  return rows.every(({ surprises }) => surprises.length === 0);
}

function invitation(url: string, kubeconfig: string): string {
  return `Convoke serves the fixtures of the conformance suite at

  ${url}

For instance, in another terminal:

  npm exec -- conformance server --url ${url} --scenario tasks-lifecycle --spec-version ${SPEC_VERSION} --force
  kubectl --kubeconfig ${kubeconfig} -n ${NAMESPACE} get convoke

Ctrl-C ends it and removes its data.`;
}

try {
  process.exitCode = (await main(parseOptions(), interruptSignal())) ? 0 : 1;
} catch (error) {
  console.error(describeError(error));
  process.exitCode = 1;
}
