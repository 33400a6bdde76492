import type { ResourceClient } from '../../src/kube/client.ts';
import { connect } from '../../src/kube/connect.ts';
import { loadCluster } from '../../src/kube/kubeconfig.ts';
import type { ChangeKind } from '../../src/kube/object-store.ts';
import { type Reflector, type ReflectorOptions, startReflector } from '../../src/kube/reflector.ts';
import type { TransportOptions } from '../../src/kube/transport.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import type { Logger } from '../../src/lib/log.ts';
import { type ApiProxy, startApiProxy } from './api-proxy.ts';
import { testCluster } from './cluster.ts';
import { CONFIG_MAP, type ConfigMap } from './model-server.ts';

/** Fifty times as fast when it waits, so that delays of up to 30 s do not fill the test. */
const hasty: Clock = { now: systemClock.now, sleep: (ms, signal) => systemClock.sleep(ms / 50, signal) };
/** Why a scene's reflector stops. */
export const stopped = new Error('stopped');

/** One reflector before a proxy, and a writer that goes to the API server itself. */
export interface Scene {
  readonly proxy: ApiProxy;
  readonly writer: ResourceClient<ConfigMap>;
  readonly namespace: string;
  readonly reflector: Reflector<ConfigMap>;
  /** What was announced: `<change> <name>`. */
  readonly heard: string[];
  /** What the reflector logged as a failure. */
  readonly failures: string[];
  stop(): Promise<void>;
  create(name: string): Promise<ConfigMap>;
  remove(name: string): Promise<void>;
  /** Resolves when the change of that object is announced; call it before what causes the change. */
  next(change: ChangeKind, name: string): Promise<void>;
}

export interface SceneOptions {
  readonly reflector?: Partial<ReflectorOptions<ConfigMap>>;
  readonly transport?: Partial<TransportOptions>;
  /** In place of the 90 s after which a watch without a byte counts as dead. */
  readonly silenceMs?: number;
  /** Before the reflector starts. */
  readonly prepare?: (scene: Pick<Scene, 'proxy' | 'create' | 'writer' | 'namespace'>) => Promise<void> | void;
}

/** Sets the scene, lets `act` run, and leaves nothing open. */
export async function play(options: SceneOptions, act: (scene: Scene) => Promise<void>): Promise<void> {
  const cluster = await testCluster();
  const namespace = await cluster.namespace('reflector');
  const proxy = await startApiProxy(cluster);
  const direct = connect(loadCluster({ kubeconfig: cluster.kubeconfigPath }));
  const proxied = proxy.client({ clock: hasty, ...options.transport });
  const writer = direct.resource<ConfigMap>(CONFIG_MAP);
  const create = (name: string): Promise<ConfigMap> =>
    writer.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name } });
  const stopping = new AbortController();
  const heard: string[] = [];
  const failures: string[] = [];
  try {
    await options.prepare?.({ proxy, create, writer, namespace });
    const client = withSilence(proxied.resource<ConfigMap>(CONFIG_MAP), options.silenceMs);
    const onKey = (key: string, change: ChangeKind): void => void heard.push(`${change} ${key.split('/')[1]}`);
    const log = failureLog(failures);
    const reflector = startReflector(
      { client, namespace, onKey, clock: hasty, log, ...options.reflector },
      stopping.signal,
    );
    await act({
      proxy,
      writer,
      namespace,
      reflector,
      heard,
      failures,
      create,
      remove: (name) => writer.delete(namespace, name),
      next: (change, name) => nextChange(reflector, change, `${namespace}/${name}`),
      stop: () => {
        stopping.abort(stopped);
        return reflector.done;
      },
    });
    stopping.abort(stopped);
    await reflector.done;
  } finally {
    stopping.abort(stopped);
    await Promise.all([proxied.close(), direct.close()]);
    await proxy.close();
  }
}

function withSilence(client: ResourceClient<ConfigMap>, silenceMs: number | undefined): ResourceClient<ConfigMap> {
  if (silenceMs === undefined) return client;
  return {
    ...client,
    watch: (namespace, options, signal) => client.watch(namespace, { ...options, silenceMs }, signal),
  };
}

function failureLog(failures: string[]): Logger {
  const note = (keys: object): void => void failures.push(JSON.stringify(keys));
  const log: Logger = { debug: () => {}, info: () => {}, warn: note, error: note, child: () => log };
  return log;
}

function nextChange(reflector: Reflector<ConfigMap>, change: ChangeKind, key: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const leave = reflector.subscribe(key, (seen) => {
    if (seen === change) resolve();
  });
  return promise.finally(leave);
}
