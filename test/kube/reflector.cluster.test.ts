import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { test } from 'node:test';
import type { Reflector } from '../../src/kube/reflector.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import type { ApiProxy, Fault } from '../support/api-proxy.ts';
import { eventually } from '../support/eventually.ts';
import type { ConfigMap } from '../support/model-server.ts';
import { play, type Scene, stopped } from '../support/reflector-scene.ts';

const isList = /configmaps\?(?!.*watch=true)/;
const isWatch = /configmaps\?.*watch=true/;
const count = (proxy: ApiProxy, path: RegExp): number =>
  proxy.requests.filter((request) => path.test(request.path)).length;
const refuse = (status: number, reason: string): Fault => ({
  answer: { status, reason, message: 'as the test wants it' },
});
const names = (reflector: Reflector<ConfigMap>): string[] =>
  reflector.store
    .list()
    .map(({ metadata }) => metadata.name)
    .sort();

/** After its answer, whatever the reflector had sent before has arrived as well. */
async function askOnce(proxy: ApiProxy): Promise<void> {
  const client = proxy.client();
  await client.raw('GET', '/readyz');
  await client.close();
}

/** The store shows what the API server has, object by object. */
async function assertInSync({ reflector, writer, namespace }: Scene): Promise<void> {
  await eventually(async () => {
    const { items } = await writer.list(namespace);
    const byName = (objects: ConfigMap[]): (string | undefined)[] =>
      objects.map(({ metadata }) => `${metadata.name} ${metadata.uid} ${metadata.resourceVersion}`).sort();
    assert.deepEqual(byName(reflector.store.list()), byName(items));
  });
}

test('lists 1,200 objects in pages of 250 while others write', async () => {
  let hold: PromiseWithResolvers<void> | undefined;
  await play(
    {
      prepare: async ({ proxy, create }) => {
        await Promise.all(Array.from({ length: 1_200 }, (_, i) => create(`n${i}`)));
        hold = Promise.withResolvers();
        let pages = 0;
        proxy.fault({ path: isList, where: () => ++pages === 3 }, { hold: hold.promise });
      },
    },
    async (scene) => {
      const { proxy, reflector } = scene;
      await proxy.until(() => count(proxy, isList) === 3);
      await Promise.all([scene.remove('n0'), scene.remove('n999'), scene.create('later')]);
      hold?.resolve();
      await reflector.synced;
      assert.equal(count(proxy, isList), 5);
      assert.ok(proxy.requests.filter(({ path }) => isList.test(path)).every(({ path }) => path.includes('limit=250')));
      await assertInSync(scene);
      assert.equal(reflector.store.size, 1_199);
      assert.equal(scene.heard.length, 1_203, '1,200 of the list, and the three of the watch');
      assert.deepEqual(scene.failures, []);
    },
  );
});

test('begins a list again when one of its pages has expired', () =>
  play(
    {
      prepare: async ({ proxy, create }) => {
        await Promise.all(Array.from({ length: 300 }, (_, i) => create(`n${i}`)));
        proxy.fault({ path: /[?&]continue=/ }, refuse(410, 'Expired'), 1);
      },
    },
    async (scene) => {
      await scene.reflector.synced;
      assert.equal(count(scene.proxy, isList), 4);
      assert.equal(scene.heard.length, 300, 'nothing of the broken list was shown');
      await assertInSync(scene);
    },
  ));

test('B2: stopping a healthy watch is no error', () =>
  play({}, async ({ proxy, reflector, failures, stop }) => {
    await reflector.synced;
    await proxy.until(() => proxy.watches.length === 1);
    await stop();
    await proxy.until(() => proxy.watches.length === 0);
    assert.deepEqual(failures, []);
  }));

test('B3: to list on demand over and over leaves one watch, and no loop', () =>
  play({}, async (scene) => {
    const { proxy, reflector } = scene;
    await reflector.synced;
    for (let i = 1; i <= 5; i += 1) {
      await proxy.until(() => count(proxy, isWatch) >= i && proxy.watches.length === 1);
      reflector.relist();
      reflector.relist();
    }
    await proxy.until(() => count(proxy, isWatch) === 6 && proxy.watches.length === 1);
    const seen = scene.next('added', 'a');
    await scene.create('a');
    await seen;
    assert.deepEqual([count(proxy, isList), count(proxy, isWatch)], [6, 6]);
    assert.deepEqual(scene.failures, []);
  }));

test('B4: stopped during a list, it never opens a watch', async () => {
  const hold = Promise.withResolvers<void>();
  await play(
    { prepare: ({ proxy }) => void proxy.fault({ path: isList }, { hold: hold.promise }) },
    async ({ proxy, reflector, stop }) => {
      await proxy.until(() => count(proxy, isList) === 1);
      await stop();
      await assert.rejects(reflector.synced, stopped);
      hold.resolve();
      await askOnce(proxy);
      assert.equal(count(proxy, isWatch), 0);
    },
  );
});

test('B4: stopped during a delay, it never opens a watch', async () => {
  const waiting = Promise.withResolvers<void>();
  const sleep: Clock['sleep'] = (_, signal) => {
    waiting.resolve();
    return systemClock.sleep(60_000, signal);
  };
  await play(
    {
      reflector: { clock: { now: systemClock.now, sleep } },
      prepare: ({ proxy }) => void proxy.fault({ path: isWatch }, refuse(500, 'InternalError'), 1),
    },
    async ({ proxy, stop }) => {
      await waiting.promise;
      await stop();
      await askOnce(proxy);
      assert.equal(count(proxy, isWatch), 1, 'the one that failed');
    },
  );
});

const faults: [string, Fault][] = [
  ['401', refuse(401, 'Unauthorized')],
  ['403', refuse(403, 'Forbidden')],
  ['404', refuse(404, 'NotFound')],
  ['429', { answer: { status: 429, reason: 'TooManyRequests', headers: { 'retry-after': '1' } } }],
  ['500', refuse(500, 'InternalError')],
  ['503 of a load balancer', { answer: { status: 503, body: '<html>no healthy upstream</html>' } }],
  ['200 with half a page', { cutAfter: 20 }],
  ['a reset', { cut: 'request' }],
];
for (const [name, fault] of faults) {
  test(`B5: lives through ${name} in lists, and in watches after a reset`, () =>
    play({ prepare: ({ proxy }) => void proxy.fault({ path: isList }, fault, 3) }, async (scene) => {
      const { proxy, reflector } = scene;
      await reflector.synced;
      await proxy.until(() => proxy.watches.length === 1);
      const inForce = proxy.fault({ path: isWatch }, fault, 3);
      proxy.relay.cut();
      const seen = scene.next('added', 'a');
      await scene.create('a');
      await seen;
      if (!('cutAfter' in fault)) assert.equal(inForce.hits, 3);
      await assertInSync(scene);
    }));
}

test('B5: lives through a watch that is cut in the middle of an event', () =>
  play({}, async (scene) => {
    const { proxy, reflector } = scene;
    await reflector.synced;
    const watch = await proxy.until(() => proxy.watches[0]);
    watch.write('{"type":"ADDED","object":{"kind":"Conf');
    watch.cut();
    const seen = scene.next('added', 'a');
    await scene.create('a');
    await seen;
    assert.deepEqual(scene.heard, ['added a']);
    assert.equal(count(proxy, isList), 1, 'a cut is no reason to list');
  }));

test('goes on with the watch when the server ends it, without a list and without a failure', () =>
  play({}, async (scene) => {
    const { proxy, reflector } = scene;
    await reflector.synced;
    const watch = await proxy.until(() => proxy.watches[0]);
    const first = scene.next('added', 'a');
    await scene.create('a');
    await first;
    watch.end();
    const second = scene.next('added', 'b');
    await scene.create('b');
    await second;
    assert.deepEqual([count(proxy, isList), count(proxy, isWatch)], [1, 2]);
    assert.deepEqual(scene.failures, []);
    assert.deepEqual(scene.heard, ['added a', 'added b']);
  }));

test('B6: a handler that throws does not cost an event', () =>
  play(
    {
      reflector: {
        onKey: () => {
          throw new Error('a bug in a handler');
        },
      },
    },
    async (scene) => {
      await scene.reflector.synced;
      for (const name of ['a', 'b']) {
        const seen = scene.next('added', name);
        await scene.create(name);
        await seen;
      }
      assert.equal(count(scene.proxy, isWatch), 1);
      assert.deepEqual(names(scene.reflector), ['a', 'b']);
    },
  ));

test('B10: goes on when the CA file, gone at a reconnect, is back', () =>
  play({}, async (scene) => {
    const { proxy, reflector, failures } = scene;
    await reflector.synced;
    await rename(proxy.caFile, `${proxy.caFile}.away`);
    // What was read a moment ago may serve once more.
    await eventually(() => {
      for (const watch of proxy.watches) watch.cut();
      assert.ok(failures.some((failure) => failure.includes('cannot read the credentials')));
    });
    await scene.create('a');
    await rename(`${proxy.caFile}.away`, proxy.caFile);
    await eventually(() => assert.ok(reflector.store.get(scene.namespace, 'a')));
  }));

test('field case 56 (E): a watch that goes silent without an error is given up, and nothing is missed', () =>
  play({ silenceMs: 1_500 }, async (scene) => {
    const { proxy, reflector } = scene;
    await reflector.synced;
    const watch = await proxy.until(() => proxy.watches[0]);
    watch.silence();
    const seen = scene.next('added', 'meanwhile');
    await scene.create('meanwhile');
    await seen;
    assert.ok(count(proxy, isWatch) >= 2);
    assert.equal(count(proxy, isList), 1);
  }));

test('field case 56 (E): what was made while the path was dead is seen after it has healed', () =>
  play({ silenceMs: 1_500, transport: { connectTimeoutMs: 500 } }, async (scene) => {
    const { proxy, reflector, failures } = scene;
    await reflector.synced;
    await proxy.until(() => proxy.watches.length === 1);
    proxy.relay.freeze('all');
    await scene.create('meanwhile');
    await eventually(() => assert.ok(failures.length >= 2, 'the watch, and at least one attempt after it'));
    assert.equal(reflector.store.get(scene.namespace, 'meanwhile'), undefined);
    proxy.relay.thaw();
    await eventually(() => assert.ok(reflector.store.get(scene.namespace, 'meanwhile')), 60_000);
  }));

test('field case 57 (E): events that repeat what is known hand out no key', () =>
  play({}, async (scene) => {
    const { proxy, reflector } = scene;
    await reflector.synced;
    const watch = await proxy.until(() => proxy.watches[0]);
    const seen = scene.next('added', 'a');
    const object = await scene.create('a');
    await seen;
    const event = (type: string): string => `${JSON.stringify({ type, object })}\n`;
    watch.write(event('MODIFIED') + event('ADDED'));
    const gone = scene.next('deleted', 'a');
    await scene.remove('a');
    await gone;
    watch.write(event('DELETED'));
    reflector.relist();
    await proxy.until(() => count(proxy, isWatch) === 2 && proxy.watches.length === 1);
    const last = scene.next('added', 'last');
    await scene.create('last');
    await last;
    assert.deepEqual(scene.heard, ['added a', 'deleted a', 'added last']);
  }));

const tooOld: [string, (proxy: ApiProxy) => void][] = [
  ['as the status', (proxy) => void proxy.fault({ path: isWatch }, refuse(410, 'Expired'), 1)],
  [
    'as an ERROR event',
    (proxy) => {
      const object = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 410, reason: 'Expired' };
      const body = `${JSON.stringify({ type: 'ERROR', object })}\n`;
      proxy.fault({ path: isWatch }, { answer: { status: 200, body } }, 1);
    },
  ],
];
for (const [name, answerGone] of tooOld) {
  test(`field case 59 (E): a deletion and a recreation in a gap that ends with 410 ${name} are seen`, () =>
    play(
      { prepare: async ({ create }) => void (await Promise.all([create('gone'), create('anew'), create('same')])) },
      async (scene) => {
        const { proxy, reflector, heard } = scene;
        await reflector.synced;
        await proxy.until(() => proxy.watches.length === 1);
        const first = scene.next('added', 'moved-on');
        await scene.create('moved-on');
        await first;
        heard.length = 0;
        const hold = Promise.withResolvers<void>();
        const gap = proxy.fault({ path: isWatch }, { hold: hold.promise });
        proxy.relay.cut();
        await proxy.until(() => gap.hits === 1);
        gap[Symbol.dispose]();
        answerGone(proxy);
        await scene.remove('gone');
        await scene.remove('anew');
        await scene.create('anew');
        await scene.create('brief');
        await scene.remove('brief');
        proxy.relay.cut(); // the held watch is given up; the one after it is told 410
        hold.resolve();
        await proxy.until(() => count(proxy, isList) === 2 && proxy.watches.length === 1);
        await assertInSync(scene);
        assert.deepEqual(heard, ['deleted gone', 'deleted anew', 'added anew']);
      },
    ));
}

test('serves a write of its own before the watch has it, and a late answer brings nothing back', () =>
  play({}, async (scene) => {
    const { proxy, reflector, namespace } = scene;
    await reflector.synced;
    const watch = await proxy.until(() => proxy.watches[0]);
    watch.silence();
    const created = await scene.create('own');
    reflector.observe(created);
    assert.deepEqual(reflector.store.get(namespace, 'own'), created);
    const gone = scene.next('deleted', 'own');
    await scene.remove('own');
    watch.cut();
    await gone;
    reflector.observe(created);
    assert.equal(reflector.store.get(namespace, 'own'), undefined);
    assert.deepEqual(scene.heard, ['added own', 'deleted own']);
    await assertInSync(scene);
  }));
