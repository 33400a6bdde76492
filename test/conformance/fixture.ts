import { readFile } from 'node:fs/promises';
import { startOperatorProcess, succeed } from '../support/operator.ts';
import { startFixtureServer } from './fixture-server.ts';

export interface FixtureOptions {
  /** The administrator's. */
  readonly kubeconfig: string;
  /** Default: the administrator's. */
  readonly operatorKubeconfig?: string;
  /** Must exist; everything lies there. */
  readonly namespace: string;
}

/** A Convoke with the fixtures of the suite: one upstream, and Workflows over it that are Ready. */
export interface Fixture {
  /** The MCP endpoint that the suite is pointed at. */
  readonly url: string;
  stop(): Promise<void>;
}

const WORKFLOWS = new URL('workflows.yaml', import.meta.url);
const READY_S = 60;

export async function startFixture(options: FixtureOptions): Promise<Fixture> {
  const { kubeconfig, operatorKubeconfig = kubeconfig, namespace } = options;
  await using started = new AsyncDisposableStack();
  const upstream = await startFixtureServer({ kubeconfig, namespace });
  started.defer(() => upstream.close());
  const operator = await startOperatorProcess({ kubeconfig: operatorKubeconfig, namespace, flags: ['--watch=own'] });
  started.defer(async () => {
    await operator.stop();
  });
  const manifests = (await readFile(WORKFLOWS, 'utf8')).replace('url: FIXTURE_URL', `url: ${upstream.url}`);
  const inNamespace = ['-n', namespace];
  await succeed(kubeconfig, [...inNamespace, 'apply', '--server-side', '-f', '-'], manifests);
  const ready = ['--for=condition=Ready', `--timeout=${READY_S}s`];
  await succeed(kubeconfig, [...inNamespace, 'wait', ...ready, 'mcpservers,workflows', '--all']);
  const kept = started.move();
  return { url: operator.url, stop: () => kept.disposeAsync() };
}
