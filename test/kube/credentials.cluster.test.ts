import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { before, test } from 'node:test';
import type { KubeClient } from '../../src/kube/client.ts';
import { connect } from '../../src/kube/connect.ts';
import { ForbiddenError, UnavailableError } from '../../src/kube/errors.ts';
import { loadCluster } from '../../src/kube/kubeconfig.ts';
import { type ApiProxy, startApiProxy } from '../support/api-proxy.ts';
import { type TestCluster, testCluster } from '../support/cluster.ts';
import { createFakeClock } from '../support/fake-clock.ts';

const CONFIG_MAP = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps' };

let cluster: TestCluster;
let namespace: string;
before(async () => {
  cluster = await testCluster();
  namespace = await cluster.namespace('credentials');
});

async function withProxy(run: (proxy: ApiProxy) => Promise<void>): Promise<void> {
  const proxy = await startApiProxy(cluster);
  try {
    await run(proxy);
  } finally {
    await proxy.close();
  }
}

const list = (client: KubeClient) => client.resource(CONFIG_MAP).list(namespace);

/** The watch's end: 'ended', or what it threw. */
async function watch(client: KubeClient, signal: AbortSignal): Promise<unknown> {
  const options = { resourceVersion: '', timeoutSeconds: 300, silenceMs: 60_000 };
  try {
    for await (const _event of client.resource(CONFIG_MAP).watch(namespace, options, signal));
    return 'ended';
  } catch (error) {
    return error;
  }
}

async function replaceToken(kubeconfigPath: string, token: string): Promise<void> {
  const config = JSON.parse(await readFile(kubeconfigPath, 'utf8'));
  config.users[0].user.token = token;
  await writeFile(kubeconfigPath, JSON.stringify(config));
}

test('a token that was rotated is read after the 401 and the request repeated: of a call, of a write, of a watch', () =>
  withProxy(async (proxy) => {
    const clock = createFakeClock();
    await replaceToken(proxy.kubeconfigPath, 'stale');
    const client = connect(loadCluster({ kubeconfig: proxy.kubeconfigPath }, clock));
    await assert.rejects(list(client), ForbiddenError);
    await clock.advance(2_000);

    const name = 'after-rotation';
    const rotations = [
      () => list(client),
      () => client.resource(CONFIG_MAP).create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace } }),
    ];
    for (const use of rotations) {
      await replaceToken(proxy.kubeconfigPath, cluster.token);
      const before = proxy.requests.length;
      await use();
      assert.equal(proxy.requests.length, before + 2);
      await replaceToken(proxy.kubeconfigPath, 'stale again');
      await clock.advance(2_000);
      using _fault = proxy.fault({}, { answer: { status: 401 } });
      await assert.rejects(list(client), ForbiddenError);
      await clock.advance(2_000);
    }

    await replaceToken(proxy.kubeconfigPath, cluster.token);
    const stop = new AbortController();
    const watching = watch(client, stop.signal);
    await proxy.until(() => proxy.watches.length === 1);
    stop.abort('done');
    assert.equal(await watching, 'done');
    await client.close();
  }));

test('a token that is refused and has not changed is reported after one request', () =>
  withProxy(async (proxy) => {
    await replaceToken(proxy.kubeconfigPath, 'never valid');
    const client = proxy.client();
    await assert.rejects(list(client), (error: unknown) => {
      assert.ok(error instanceof ForbiddenError);
      assert.equal(error.status, 401);
      assert.equal(error.reason, 'Unauthorized');
      return true;
    });
    assert.equal(proxy.requests.length, 1);
    await client.close();
  }));

test('a token that was changed and is refused again is not tried a third time', () =>
  withProxy(async (proxy) => {
    const client = proxy.client();
    await list(client);
    await replaceToken(proxy.kubeconfigPath, 'wrong');
    using _fault = proxy.fault({}, { answer: { status: 401 } }, 1);
    await assert.rejects(list(client), ForbiddenError);
    assert.deepEqual(
      proxy.requests.map((request) => request.headers.authorization),
      [`Bearer ${cluster.token}`, `Bearer ${cluster.token}`, 'Bearer wrong'],
    );
    await client.close();
  }));

test('a rotated CA: new calls take a new connection, the open watch goes on on its own, close waits for both', () =>
  withProxy(async (proxy) => {
    const clock = createFakeClock();
    const client = connect(loadCluster({ kubeconfig: proxy.kubeconfigPath }, clock));
    const stop = new AbortController();
    const watching = watch(client, stop.signal);
    await proxy.until(() => proxy.watches.length === 1);

    await proxy.rotateCertificate();
    await list(client);
    assert.equal(proxy.relay.connections.total, 1, 'nothing is read anew within a second');
    await clock.advance(2_000);
    await list(client);
    await list(client);
    assert.equal(proxy.relay.connections.total, 2);
    assert.equal(proxy.watches.length, 1);

    stop.abort('done');
    assert.equal(await watching, 'done');
    // The old pool had nothing left but the watch.
    await proxy.until(() => proxy.relay.connections.open === 1);
    await list(client);
    await client.close();
    await proxy.until(() => proxy.relay.connections.open === 0);
  }));

test('credentials that cannot be read fail the call and the watch as an outage does, and heal', () =>
  withProxy(async (proxy) => {
    const clock = createFakeClock();
    const client = connect(loadCluster({ kubeconfig: proxy.kubeconfigPath }, clock));
    const ca = await readFile(proxy.caFile);
    await list(client);
    await clock.advance(2_000);
    await writeFile(
      proxy.kubeconfigPath,
      (await readFile(proxy.kubeconfigPath, 'utf8')).replace(proxy.caFile, `${proxy.caFile}.gone`),
    );
    const broken = connect(loadCluster({ kubeconfig: proxy.kubeconfigPath }, clock));
    await assert.rejects(list(broken), UnavailableError);
    assert.ok((await watch(broken, new AbortController().signal)) instanceof UnavailableError);
    await writeFile(`${proxy.caFile}.gone`, ca);
    await list(broken);
    await Promise.all([client.close(), broken.close()]);
  }));
