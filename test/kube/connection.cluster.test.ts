import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect as connectTcp, type Socket } from 'node:net';
import { before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../deploy/local/free-port.ts';
import type { KubeObject } from '../../src/api/object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { connect } from '../../src/kube/connect.ts';
import { AlreadyExistsError, type KubeError, UnavailableError } from '../../src/kube/errors.ts';
import { loadCluster } from '../../src/kube/kubeconfig.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { type ApiProxy, startApiProxy } from '../support/api-proxy.ts';
import { loopbackCertificates } from '../support/certificates.ts';
import { type TestCluster, testCluster } from '../support/cluster.ts';
import { startTcpRelay, type TcpRelay } from '../support/tcp-relay.ts';

interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}
const CONFIG_MAP = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps' };
const WATCH = { resourceVersion: '', timeoutSeconds: 300, silenceMs: 60_000 };

let cluster: TestCluster;
let namespace: string;
before(async () => {
  cluster = await testCluster();
  namespace = await cluster.namespace('connection');
});

/** A proxy of the test's own, closed after it. */
async function withProxy(run: (proxy: ApiProxy) => Promise<void>, options: { plain?: boolean } = {}): Promise<void> {
  const proxy = await startApiProxy(cluster, options);
  try {
    await run(proxy);
  } finally {
    await proxy.close();
  }
}

const configMaps = (client: KubeClient) => client.resource<ConfigMap>(CONFIG_MAP);
const newConfigMap = (name: string): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace },
});
const list = (client: KubeClient, signal?: AbortSignal) => configMaps(client).list(namespace, {}, signal);

/** Starts watching; resolves with how the watch has ended, which is why no test forgets to await it. */
function watchConfigMaps(client: KubeClient, signal: AbortSignal, options = WATCH): Promise<unknown> {
  return (async () => {
    for await (const _event of configMaps(client).watch(namespace, options, signal));
    return 'ended';
  })().catch((error: unknown) => error);
}

/** Does not wait, and keeps what it was asked to wait. */
function impatientClock(onSleep: (ms: number) => Promise<void> | void = () => undefined): Clock & { slept: number[] } {
  const slept: number[] = [];
  const sleep = async (ms: number): Promise<void> => {
    slept.push(ms);
    await onSleep(ms);
  };
  return { now: systemClock.now, sleep, slept };
}

const isUnavailable =
  (outcome: 'none' | 'unknown', message: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof UnavailableError, String(error));
    assert.equal(error.outcome, outcome);
    assert.match(error.message, message);
    return true;
  };

test('B1: 200 calls, one after the other and at once, and 3 watches share one connection', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    const stop = new AbortController();
    const watches = [1, 2, 3].map(() => watchConfigMaps(client, stop.signal));
    await proxy.until(() => proxy.watches.length === 3);
    for (let i = 0; i < 150; i += 1) await list(client);
    await Promise.all(Array.from({ length: 50 }, () => list(client)));
    assert.equal(proxy.requests.length, 203);
    assert.ok(proxy.requests.every((request) => request.version === '2.0'));
    assert.equal(proxy.relay.connections.total, 1);
    stop.abort();
    await Promise.all(watches);
    await client.close();
  }));

test('B1: without HTTP/2, calls one after the other share one connection too', () =>
  withProxy(
    async (proxy) => {
      const client = proxy.client();
      for (let i = 0; i < 20; i += 1) await list(client);
      // A second one when undici hands out the next call a tick before the first connection is free again.
      assert.ok(proxy.relay.connections.total <= 2, `${proxy.relay.connections.total} connections`);
      await client.close();
    },
    { plain: true },
  ));

test('B7: a cluster that speaks plain http is used as it is', () =>
  withProxy(
    async (proxy) => {
      const client = proxy.client();
      assert.equal((await list(client)).items.length, 0);
      assert.match(proxy.requests[0]?.version ?? '', /^1\.1$/);
      await client.close();
    },
    { plain: true },
  ));

test('B8: 429 is repeated, never before the time that Retry-After gives', () =>
  withProxy(async (proxy) => {
    const clock = impatientClock();
    const client = proxy.client({ clock, backoff: { base: 200, factor: 2, max: 400, jitter: 0.5 } });
    const fault = proxy.fault({}, { answer: { status: 429, headers: { 'retry-after': '7' } } }, 2);
    await configMaps(client).create(newConfigMap('after-429'));
    assert.equal(fault.hits, 2);
    assert.equal(proxy.requests.length, 3);
    assert.equal(clock.slept.length, 2);
    for (const ms of clock.slept) assert.ok(ms > 7_000 && ms <= 7_400, `${ms} ms`);
    await client.close();
  }));

test('B8: a watch is repeated after 429 as a call is', () =>
  withProxy(async (proxy) => {
    const client = proxy.client({ clock: impatientClock() });
    proxy.fault({ path: /watch=true/ }, { answer: { status: 429 } }, 1);
    const stop = new AbortController();
    const watch = watchConfigMaps(client, stop.signal);
    await proxy.until(() => proxy.watches.length === 1);
    assert.equal(proxy.requests.length, 2);
    stop.abort();
    await watch;
    await client.close();
  }));

test('B8: 429 without end is reported after 4 repeats; one that wants an hour at once', () =>
  withProxy(async (proxy) => {
    const client = proxy.client({ clock: impatientClock() });
    {
      using _fault = proxy.fault({}, { answer: { status: 429, reason: 'TooManyRequests', message: 'busy' } });
      await assert.rejects(
        configMaps(client).create(newConfigMap('never')),
        isUnavailable('none', /429 TooManyRequests: busy/),
      );
      assert.equal(proxy.requests.length, 5);
    }
    proxy.fault({}, { answer: { status: 429, headers: { 'retry-after': '3600' } } });
    await assert.rejects(list(client), UnavailableError);
    assert.equal(proxy.requests.length, 6);
    await client.close();
  }));

test('B9: a server that never answers is given up after the time-out; the outcome of a write is unknown', () =>
  withProxy(async (proxy) => {
    const client = proxy.client({ callTimeoutMs: 300, listTimeoutMs: 300 });
    using _fault = proxy.fault(
      { where: (request) => request.method === 'POST' || /limit=1/.test(request.path) },
      { hang: true },
    );
    await assert.rejects(
      configMaps(client).create(newConfigMap('hung')),
      isUnavailable('unknown', /POST .*configmaps.*no answer in 300 ms/),
    );
    await assert.rejects(
      configMaps(client).list(namespace, { limit: 1 }),
      isUnavailable('none', /GET .*no answer in 300 ms/),
    );
    assert.equal(proxy.requests.length, 2, 'nothing is repeated that may have been carried out');
    await list(client);
    await client.close();
  }));

test('B9: a connection that swallows every byte is found out; its calls and watches fail, the next call takes a new one', () =>
  withProxy(async (proxy) => {
    const client = proxy.client({ pingIntervalMs: 200 });
    const watch = watchConfigMaps(client, new AbortController().signal);
    await proxy.until(() => proxy.watches.length === 1);
    proxy.relay.freeze('standing');
    await assert.rejects(list(client), isUnavailable('none', /GET .*unresponsive/));
    isUnavailable('none', /GET .*watch=true.*unresponsive/)(await watch);
    await list(client);
    assert.equal(proxy.relay.connections.total, 2);
    await client.close();
  }));

test('B11: 250 watches are aborted and the client closes: nothing is thrown, no connection is left', () =>
  withProxy(async (proxy) => {
    const uncaught: unknown[] = [];
    const onUncaught = (error: unknown): void => void uncaught.push(error);
    process.on('uncaughtException', onUncaught).on('unhandledRejection', onUncaught);
    try {
      const client = proxy.client();
      const stop = new AbortController();
      const watches = Array.from({ length: 250 }, () => watchConfigMaps(client, stop.signal));
      await proxy.until(() => proxy.watches.length === 250);
      // Beyond the 100 streams of a connection, calls are not kept waiting.
      await list(client);
      stop.abort(new Error('enough'));
      for (const end of await Promise.all(watches)) assert.equal((end as Error).message, 'enough');
      await client.close();
      await client.close();
      await proxy.until(() => proxy.relay.connections.open === 0);
      assert.deepEqual(uncaught, []);
    } finally {
      process.off('uncaughtException', onUncaught).off('unhandledRejection', onUncaught);
    }
  }));

test('B11: close waits for an open watch and for calls under way; nothing starts after it', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    const stop = new AbortController();
    const watch = watchConfigMaps(client, stop.signal);
    await proxy.until(() => proxy.watches.length === 1);
    const gate = Promise.withResolvers<void>();
    proxy.fault({ path: /limit=7/ }, { hold: gate.promise });
    const call = configMaps(client).list(namespace, { limit: 7 });
    await proxy.until(() => proxy.requests.length === 2);

    let closed = false;
    const closing = client.close().then(() => {
      closed = true;
    });
    await assert.rejects(list(client), isUnavailable('none', /the client is closed/));
    gate.resolve();
    await call;
    await delay(50);
    assert.equal(closed, false);
    stop.abort();
    await watch;
    await closing;
  }));

test("B12: Node's own fetch, another undici, is never used", (context) =>
  withProxy(async (proxy) => {
    const fetch = context.mock.method(globalThis, 'fetch', () => Promise.reject(new Error('the wrong undici')));
    const client = proxy.client();
    await list(client);
    const stop = new AbortController();
    const watch = watchConfigMaps(client, stop.signal);
    await proxy.until(() => proxy.watches.length === 1);
    stop.abort();
    await watch;
    await client.close();
    assert.equal(fetch.mock.callCount(), 0);
  }));

test('a connection that cannot be made is tried 4 times again, for a write too; nothing has happened', () =>
  withProxy(async (proxy) => {
    const clock = impatientClock();
    const server = `https://127.0.0.1:${await freePort()}`;
    const client = connect({ ...loadCluster({ kubeconfig: proxy.kubeconfigPath }), server }, { clock });
    const refused = /POST .*cannot connect: .*ECONNREFUSED/;
    await assert.rejects(configMaps(client).create(newConfigMap('x')), isUnavailable('none', refused));
    assert.equal(clock.slept.length, 4);
    await client.close();
  }));

test('a write goes through when the server is there again at the second attempt', () =>
  withProxy(async (proxy) => {
    const port = await freePort();
    let relay: TcpRelay | undefined;
    const clock = impatientClock(async () => {
      relay ??= await startTcpRelay(proxy.relay.port, { port });
    });
    const server = `https://127.0.0.1:${port}`;
    const client = connect({ ...loadCluster({ kubeconfig: proxy.kubeconfigPath }), server }, { clock });
    await configMaps(client).create(newConfigMap('late'));
    assert.equal(clock.slept.length, 1);
    await client.close();
    await relay?.close();
  }));

test('a certificate of another CA is reported as such', () =>
  withProxy(async (proxy) => {
    await writeFile(proxy.caFile, loopbackCertificates[1].cert);
    const client = proxy.client({ clock: impatientClock() });
    await assert.rejects(list(client), isUnavailable('none', /cannot connect: self-signed certificate/));
    await client.close();
  }));

test('what was cut after it may have been sent is not repeated; the outcome is unknown, and may be that it happened', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    proxy.fault({ method: 'POST' }, { cut: 'request' }, 1);
    await assert.rejects(configMaps(client).create(newConfigMap('cut')), isUnavailable('unknown', /POST/));
    await configMaps(client).create(newConfigMap('cut'));
    proxy.fault({ method: 'POST' }, { cut: 'answer' }, 1);
    await assert.rejects(configMaps(client).create(newConfigMap('cut-answer')), isUnavailable('unknown', /POST/));
    await assert.rejects(configMaps(client).create(newConfigMap('cut-answer')), AlreadyExistsError);
    proxy.fault({}, { cutAfter: 10 }, 1);
    await assert.rejects(list(client), isUnavailable('none', /GET/));
    assert.equal(proxy.requests.length, 5);
    await client.close();
  }));

test('a 5xx is reported with what it says, not repeated', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    proxy.fault({}, { answer: { status: 503, headers: { 'retry-after': '1' }, body: 'no healthy upstream' } });
    await assert.rejects(
      configMaps(client).create(newConfigMap('x')),
      isUnavailable('unknown', /POST .*: 503: no healthy upstream/),
    );
    await assert.rejects(client.raw('GET', '/readyz'), isUnavailable('none', /GET \/readyz: 503/));
    assert.equal(proxy.requests.length, 2);
    await client.close();
  }));

test('an answer that is not JSON is an error, whatever its status', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    proxy.fault({}, { answer: { status: 200, body: '<html>log in first</html>' } });
    await assert.rejects(
      configMaps(client).create(newConfigMap('x')),
      isUnavailable('unknown', /not JSON: <html>log in/),
    );
    await client.close();
  }));

test('the reason of the signal that aborts is what a call rejects with', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    const gate = Promise.withResolvers<void>();
    proxy.fault({}, { hold: gate.promise });
    const stop = new AbortController();
    const call = list(client, stop.signal);
    await proxy.until(() => proxy.requests.length === 1);
    const reason = new Error('changed my mind');
    stop.abort(reason);
    await assert.rejects(call, (error) => error === reason);
    await assert.rejects(list(client, stop.signal), (error) => error === reason);
    gate.resolve();
    await client.close();
  }));

test('a write whose caller leaves is not reset: it ends by itself, and the connection goes on', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    const gate = Promise.withResolvers<void>();
    proxy.fault({ method: 'POST' }, { hold: gate.promise });
    const stop = new AbortController();
    const create = configMaps(client).create(newConfigMap('left'), stop.signal);
    await proxy.until(() => proxy.requests.length === 1);
    const reason = new Error('changed my mind');
    stop.abort(reason);
    await assert.rejects(create, (error) => error === reason);
    gate.resolve();
    await client.close(); // resolves when the write has ended
    const after = proxy.client();
    assert.equal((await configMaps(after).get(namespace, 'left')).metadata.name, 'left');
    assert.equal(proxy.requests.filter(({ method }) => method === 'POST').length, 1);
    await after.close();
  }));

test('the API server is told who calls', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    await configMaps(client).create({ ...newConfigMap('named'), data: { a: 'b' } });
    assert.match(String(proxy.requests[0]?.headers['user-agent']), /^convoke\/\d+\.\d+\.\d+/);
    const raw = JSON.parse(await client.raw('GET', `/api/v1/namespaces/${namespace}/configmaps/named`));
    assert.equal(raw.metadata.managedFields[0].manager, 'convoke');
    await client.close();
  }));

test('a path in the server URL is kept', () =>
  withProxy(async (proxy) => {
    const cluster = loadCluster({ kubeconfig: proxy.kubeconfigPath });
    const client = connect({ ...cluster, server: `${cluster.server}/k8s/clusters/c-1` });
    await client.raw('GET', '/readyz').catch((error: KubeError) => assert.equal(error.status, 404));
    assert.equal(proxy.requests[0]?.path, '/k8s/clusters/c-1/readyz');
    await client.close();
  }));

test('the proxy that a kubeconfig names (proxy-url) is used', () =>
  withProxy(async (proxy) => {
    const tunnels: string[] = [];
    const forward = createServer().on('connect', (request, socket: Socket) => {
      tunnels.push(request.url ?? '');
      const target = connectTcp(proxy.relay.port, '127.0.0.1');
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(target).pipe(socket);
      for (const each of [socket, target]) each.on('error', () => undefined);
    });
    forward.listen(0, '127.0.0.1');
    await once(forward, 'listening');
    const proxyUrl = `http://127.0.0.1:${(forward.address() as AddressInfo).port}`;
    const client = connect({ ...loadCluster({ kubeconfig: proxy.kubeconfigPath }), proxyUrl });
    await list(client);
    await list(client);
    assert.deepEqual(tunnels, [`127.0.0.1:${proxy.relay.port}`]);
    await client.close();
    forward.close();
    await once(forward, 'close');
  }));
