import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { KubeObject } from '../../src/api/object.ts';
import type { KubeClient, ResourceClient, WatchEvent, WatchOptions } from '../../src/kube/client.ts';
import { connect } from '../../src/kube/connect.ts';
import {
  AlreadyExistsError,
  ConflictError,
  ForbiddenError,
  GoneError,
  InvalidError,
  NotFoundError,
  TooLargeError,
  UnavailableError,
} from '../../src/kube/errors.ts';
import { loadCluster } from '../../src/kube/kubeconfig.ts';
import { type ApiProxy, type ProxiedWatch, startApiProxy } from '../support/api-proxy.ts';
import { type TestCluster, testCluster } from '../support/cluster.ts';

interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}
interface Deployment extends KubeObject {
  spec: object;
  status?: { replicas?: number; observedGeneration?: number };
}
interface Revision extends KubeObject {
  revision: number;
  data: { text: string };
}
const CONFIG_MAP = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps' };
const DEPLOYMENT = { group: 'apps', version: 'v1', kind: 'Deployment', plural: 'deployments' };
const REVISION = { group: 'apps', version: 'v1', kind: 'ControllerRevision', plural: 'controllerrevisions' };
const NAMESPACE = { group: '', version: 'v1', kind: 'Namespace', plural: 'namespaces' };

let cluster: TestCluster;
let namespace: string;
let proxy: ApiProxy;
let client: KubeClient;
let configMaps: ResourceClient<ConfigMap>;
before(async () => {
  cluster = await testCluster();
  namespace = await cluster.namespace('resources');
  proxy = await startApiProxy(cluster);
  client = proxy.client();
  configMaps = client.resource<ConfigMap>(CONFIG_MAP);
});
after(async () => {
  await client.close();
  await proxy.close();
});

const configMap = (
  name: string,
  data: Record<string, string> = { a: '1' },
  labels: Record<string, string> = {},
): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace, labels },
  data,
});
const deployment = (name: string): Deployment => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace },
  spec: {
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'c', image: 'none' }] } },
  },
});

/** The newest resourceVersion: what a watch starts from. */
async function now(): Promise<string> {
  return (await configMaps.list(namespace, { limit: 1 })).resourceVersion;
}

test('create, get, replace, patch, delete; what comes back has no managedFields', async () => {
  const created = await configMaps.create(configMap('life'));
  assert.ok(created.metadata.uid);
  const read = await configMaps.get(namespace, 'life');
  assert.deepEqual(read, created);
  const replaced = await configMaps.replace({ ...read, data: { b: '2' } });
  assert.deepEqual(replaced.data, { b: '2' });
  const patched = await configMaps.patch(namespace, 'life', { data: { b: null, c: '3' } });
  assert.deepEqual(patched.data, { c: '3' });
  for (const object of [created, read, replaced, patched]) assert.ok(!('managedFields' in object.metadata));
  await configMaps.delete(namespace, 'life');
  await assert.rejects(configMaps.get(namespace, 'life'), NotFoundError);
});

test('a stale resourceVersion is a conflict: in a replace, in a patch that names it', async () => {
  const old = await configMaps.create(configMap('stale'));
  const { resourceVersion = '' } = old.metadata;
  await configMaps.replace({ ...old, data: { a: '2' } });
  await assert.rejects(configMaps.replace({ ...old, data: { a: '3' } }), (error: unknown) => {
    assert.ok(error instanceof ConflictError);
    assert.match(
      error.message,
      /^PUT \/api\/v1\/namespaces\/.*\/configmaps\/stale.*: 409 Conflict: .*has been modified/,
    );
    return true;
  });
  await assert.rejects(
    configMaps.patch(namespace, 'stale', { metadata: { resourceVersion }, data: { a: '3' } }),
    ConflictError,
  );
});

test('the status of an object is written alone', async () => {
  const deployments = client.resource<Deployment>(DEPLOYMENT);
  const created = await deployments.create(deployment('status'));
  const changed = { ...created, spec: { ...created.spec, replicas: 7 }, status: { observedGeneration: 1 } };
  const written = await deployments.replaceStatus(changed);
  assert.equal(written.status?.observedGeneration, 1);
  assert.equal((written.spec as { replicas: number }).replicas, 1);
  assert.equal(written.metadata.generation, 1);
  await assert.rejects(deployments.replaceStatus(changed), ConflictError);
});

test('field case 58 (E): the first status of an object that has none is a PUT, and a patch is a merge patch', async () => {
  const deployments = client.resource<Deployment>(DEPLOYMENT);
  const created = await deployments.create(deployment('first-status'));
  const { status: _none, ...bare } = created;
  assert.equal(
    (await deployments.replaceStatus({ ...bare, status: { replicas: 0, observedGeneration: 1 } })).status
      ?.observedGeneration,
    1,
  );
  await deployments.patch(namespace, 'first-status', { metadata: { annotations: { a: 'b' } } });
  assert.equal(proxy.requests.at(-1)?.headers['content-type'], 'application/merge-patch+json');
});

test('a name that is taken, one that is not valid, and a field that the type does not have', async () => {
  await configMaps.create(configMap('taken'));
  await assert.rejects(configMaps.create(configMap('taken')), AlreadyExistsError);
  await assert.rejects(configMaps.create(configMap('Not_Valid')), InvalidError);
  await assert.rejects(
    configMaps.create({ ...configMap('typo'), dat: {} } as ConfigMap),
    /400 BadRequest: .*unknown field "dat"/,
  );
  const taken = await configMaps.get(namespace, 'taken');
  await assert.rejects(configMaps.replace({ ...taken, dat: {} } as ConfigMap), InvalidError);
  await assert.rejects(configMaps.patch(namespace, 'taken', { dat: {} }), InvalidError);
});

test('delete: of what is not there, of another object than was meant', async () => {
  await configMaps.delete(namespace, 'never-was');
  const { uid = '', resourceVersion = '' } = (await configMaps.create(configMap('precious'))).metadata;
  const other = { uid: '00000000-0000-4000-8000-000000000000' };
  await assert.rejects(configMaps.delete(namespace, 'precious', other), ConflictError);
  await assert.rejects(configMaps.delete(namespace, 'precious', { resourceVersion: '1' }), ConflictError);
  await configMaps.delete(namespace, 'precious', { uid, resourceVersion });
  assert.match(proxy.requests.at(-1)?.body ?? '', /"propagationPolicy":"Background"/);
  await assert.rejects(configMaps.get(namespace, 'precious'), NotFoundError);
});

test('a user without rights is told what is missing', async () => {
  const bob = connect(loadCluster({ kubeconfig: await cluster.kubeconfigFor(cluster.user('bob')) }));
  await assert.rejects(bob.resource(CONFIG_MAP).list(namespace), (error: unknown) => {
    assert.ok(error instanceof ForbiddenError);
    assert.match(error.message, /403 Forbidden: .*User "bob" cannot list resource "configmaps"/);
    return true;
  });
  await bob.close();
});

test('field case 62 (E): too large for etcd, for the way to etcd, and for the API server: one error', async () => {
  const revisions = client.resource<Revision>(REVISION);
  for (const megabytes of [1.6, 2.2, 3.2]) {
    const text = 'x'.repeat(megabytes * 1024 * 1024);
    const metadata = { name: `large-${megabytes}`, namespace };
    const large = { apiVersion: 'apps/v1', kind: 'ControllerRevision', metadata, revision: 1, data: { text } };
    await assert.rejects(revisions.create(large), TooLargeError, `${megabytes} MiB`);
  }
});

test('list: pages, selectors, one namespace and all, apiVersion and kind on each item', async () => {
  const names = Array.from({ length: 5 }, (_, i) => `listed-${i}`);
  for (const name of names) await configMaps.create(configMap(name, {}, { listed: 'yes' }));
  const seen: string[] = [];
  let token: string | undefined;
  do {
    const page = await configMaps.list(namespace, {
      limit: 2,
      labelSelector: 'listed=yes',
      ...(token === undefined ? {} : { continue: token }),
    });
    assert.ok(page.items.length <= 2);
    for (const item of page.items) {
      seen.push(item.metadata.name);
      assert.equal(item.apiVersion, 'v1');
      assert.equal(item.kind, 'ConfigMap');
      assert.ok(!('managedFields' in item.metadata));
    }
    token = page.continue;
  } while (token !== undefined);
  assert.deepEqual(seen, names);
  const one = await configMaps.list(undefined, {
    fieldSelector: `metadata.name=listed-3,metadata.namespace=${namespace}`,
  });
  assert.deepEqual(
    one.items.map((item) => item.metadata.name),
    ['listed-3'],
  );
  const none = await configMaps.list(namespace, { labelSelector: 'listed=no' });
  assert.deepEqual([none.items, none.continue], [[], undefined]);
  await assert.rejects(configMaps.list(namespace, { labelSelector: '=' }), InvalidError);
});

test('a type without namespaces', async () => {
  const namespaces = client.resource(NAMESPACE);
  assert.equal((await namespaces.get('', namespace)).metadata.name, namespace);
  assert.ok((await namespaces.list(undefined)).items.length > 1);
});

test('a continue token that is too old is Gone', async () => {
  using _fault = proxy.fault({ path: /continue=/ }, { answer: { status: 410, reason: 'Expired' } });
  await assert.rejects(configMaps.list(namespace, { limit: 1, continue: 'old' }), GoneError);
});

test('raw requests', async () => {
  assert.equal(await client.raw('GET', '/readyz'), 'ok');
  const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token: cluster.token } };
  const answer = JSON.parse(await client.raw('POST', '/apis/authentication.k8s.io/v1/tokenreviews', { body: review }));
  assert.equal(answer.status.user.username, 'admin');
});

/** A watch that a test steps through. */
async function startWatch(options: Partial<WatchOptions> = {}): Promise<{
  next: () => Promise<WatchEvent<ConfigMap>>;
  end: () => Promise<unknown>;
  stop: AbortController;
  open: ProxiedWatch;
}> {
  const stop = new AbortController();
  const earlier = new Set(proxy.watches);
  const defaults = { resourceVersion: await now(), timeoutSeconds: 300, silenceMs: 60_000 };
  const events = configMaps.watch(namespace, { ...defaults, ...options }, stop.signal)[Symbol.asyncIterator]();
  let ahead: Promise<IteratorResult<WatchEvent<ConfigMap>>> | undefined = events.next();
  ahead.catch(() => undefined);
  const take = async (): Promise<IteratorResult<WatchEvent<ConfigMap>>> => {
    const result = ahead ?? events.next();
    ahead = undefined;
    return result;
  };
  const open = await proxy.until(() => proxy.watches.find((each) => !earlier.has(each)));
  return {
    next: async () => {
      const { done, value } = await take();
      assert.ok(!done, 'the watch has ended');
      return value;
    },
    end: async () => {
      try {
        const { done, value } = await take();
        assert.ok(done, `an event instead of the end: ${JSON.stringify(value)}`);
        return 'ended';
      } catch (error) {
        return error;
      }
    },
    stop,
    open,
  };
}

test('a watch brings what happens after its resourceVersion, without managedFields', async () => {
  const watch = await startWatch({ labelSelector: 'watched=yes' });
  await configMaps.create(configMap('unseen'));
  await configMaps.create(configMap('seen', {}, { watched: 'yes' }));
  await configMaps.patch(namespace, 'seen', { data: { a: '2' } });
  await configMaps.delete(namespace, 'seen');
  for (const type of ['ADDED', 'MODIFIED', 'DELETED'] as const) {
    const event = await watch.next();
    assert.equal(event.type, type);
    assert.ok('object' in event);
    assert.equal(event.object.metadata.name, 'seen');
    assert.ok(!('managedFields' in event.object.metadata));
  }
  watch.stop.abort('enough');
  assert.equal(await watch.end(), 'enough');
});

test('a watch brings bookmarks, and ends without an error when its time is over', async () => {
  // The API server sends one about 2 s before the end, unless it misses that moment.
  for (let attempt = 1; ; attempt += 1) {
    const options = { resourceVersion: await now(), timeoutSeconds: 5, silenceMs: 60_000 };
    const earlier = new Set(proxy.watches);
    const watching = Array.fromAsync(configMaps.watch(namespace, options, new AbortController().signal));
    await proxy.until(() => proxy.watches.some((watch) => !earlier.has(watch)));
    const created = await configMaps.create(configMap(`before-bookmark-${attempt}`));
    const [first, ...rest] = await watching;
    assert.deepEqual(first, { type: 'ADDED', object: created });
    for (const event of rest) {
      assert.ok(event.type === 'BOOKMARK', JSON.stringify(event));
      assert.ok(Number(event.resourceVersion) >= Number(created.metadata.resourceVersion));
    }
    if (rest.length > 0) break;
    assert.ok(attempt < 6, 'no bookmark in 6 watches');
  }
});

test('a watch that is answered 410, 403, 404 and 500', async () => {
  const options = { resourceVersion: '1', timeoutSeconds: 300, silenceMs: 60_000 };
  const expected = [
    [410, GoneError],
    [403, ForbiddenError],
    [404, NotFoundError],
    [500, UnavailableError],
  ] as const;
  for (const [status, type] of expected) {
    proxy.fault({ path: /watch=true/ }, { answer: { status } }, 1);
    await assert.rejects(
      configMaps.watch(namespace, options, new AbortController().signal)[Symbol.asyncIterator]().next(),
      type,
    );
  }
});

test('ERROR events: 410 is Gone, others are what their code says, one without a code is an outage', async () => {
  const cases = [
    [{ kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' }, GoneError],
    [
      { kind: 'Status', code: 500, reason: 'InternalError', message: 'etcd event received with PrevKv=nil' },
      UnavailableError,
    ],
    [{ kind: 'Status', code: 403, reason: 'Forbidden' }, ForbiddenError],
    [{ kind: 'Status' }, UnavailableError],
  ] as const;
  for (const [object, type] of cases) {
    const watch = await startWatch();
    watch.open.write(`${JSON.stringify({ type: 'ERROR', object })}\n`);
    const error = await watch.end();
    assert.ok(error instanceof type, `${JSON.stringify(object)}: ${error}`);
    assert.match(error.message, /^GET .*watch=true/);
    await proxy.until(() => proxy.watches.length === 0);
  }
});

test('field case 56 (E): a watch that falls silent is given up after silenceMs', async () => {
  const watch = await startWatch({ silenceMs: 1_000 });
  watch.open.silence();
  await configMaps.create(configMap('swallowed'));
  const error = await watch.end();
  assert.ok(error instanceof UnavailableError, String(error));
  await proxy.until(() => proxy.watches.length === 0);
});

test('a watch that is never answered is given up after silenceMs', async () => {
  using _fault = proxy.fault({ path: /watch=true/ }, { hang: true });
  const options = { resourceVersion: '1', timeoutSeconds: 300, silenceMs: 1_000 };
  await assert.rejects(
    configMaps.watch(namespace, options, new AbortController().signal)[Symbol.asyncIterator]().next(),
    UnavailableError,
  );
});

test('a watch that is cut, between events and in the middle of one, is an error; other watches go on', async () => {
  const other = await startWatch();
  const between = await startWatch();
  between.open.cut();
  assert.ok((await between.end()) instanceof UnavailableError);
  const within = await startWatch();
  within.open.write('{"type":"ADDED","obj');
  within.open.end();
  const error = await within.end();
  assert.ok(error instanceof UnavailableError && /ended within a line/.test(error.message), String(error));
  await configMaps.create(configMap('after-cuts'));
  assert.equal((await other.next()).type, 'ADDED');
  other.stop.abort();
  await other.end();
});

test('events whose bytes come one by one, one of them far larger than a chunk, and a type that is not known', async () => {
  const watch = await startWatch();
  const object = configMap('piecemeal', { text: 'é\u{1f600}' });
  watch.open.write('{"type":"FUTURE","object":{}}\n');
  for (const byte of Buffer.from(`${JSON.stringify({ type: 'ADDED', object })}\n`))
    watch.open.write(Uint8Array.of(byte));
  assert.deepEqual(await watch.next(), { type: 'ADDED', object });
  const text = '\u{1f600}'.repeat(225_000);
  await configMaps.create(configMap('large', { text }));
  const large = await watch.next();
  assert.ok('object' in large);
  assert.equal(large.object.data?.text, text);
  watch.stop.abort();
  await watch.end();
});

test('no event follows the abort, though more have arrived', async () => {
  const watch = await startWatch();
  const line = `${JSON.stringify({ type: 'ADDED', object: configMap('burst') })}\n`;
  watch.open.write(line.repeat(3));
  await watch.next();
  watch.stop.abort('stop');
  assert.equal(await watch.end(), 'stop');
});

test('leaving the loop ends the request', async () => {
  const options = { resourceVersion: await now(), timeoutSeconds: 300, silenceMs: 60_000 };
  await configMaps.create(configMap('left'));
  for await (const event of configMaps.watch(namespace, options, new AbortController().signal)) {
    assert.equal(event.type, 'ADDED');
    break;
  }
  await proxy.until(() => proxy.watches.length === 0);
});
