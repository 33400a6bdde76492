import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { KubeObject } from '../../src/api/object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { createEventRecorder, type EventRecorder } from '../../src/kube/event-recorder.ts';
import { systemIds } from '../../src/lib/ids.ts';
import type { Logger } from '../../src/lib/log.ts';
import { type ApiProxy, startApiProxy } from '../support/api-proxy.ts';
import { type TestCluster, testCluster } from '../support/cluster.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';

interface StoredEvent extends KubeObject {
  involvedObject: { uid?: string; name: string };
  type: string;
  reason: string;
  message: string;
  count: number;
  firstTimestamp: string;
  lastTimestamp: string;
  reportingInstance: string;
}
const CONFIG_MAP = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps' };
const EVENT = { group: '', version: 'v1', kind: 'Event', plural: 'events' };

let cluster: TestCluster;
let namespace: string;
let proxy: ApiProxy;
let client: KubeClient;
before(async () => {
  cluster = await testCluster();
  namespace = await cluster.namespace('events');
  proxy = await startApiProxy(cluster);
  client = proxy.client();
});
after(async () => {
  await client.close();
  await proxy.close();
});

interface Rig {
  readonly recorder: EventRecorder;
  readonly clock: FakeClock;
  readonly warnings: { keys: object; message: string }[];
  readonly stop: AbortController;
}

function start(): Rig {
  const clock = createFakeClock();
  const warnings: Rig['warnings'] = [];
  const log: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (keys, message) => void warnings.push({ keys, message }),
    error: (_keys, message) => assert.fail(message),
    child: () => log,
  };
  const stop = new AbortController();
  const options = { client, component: 'convoke', instance: 'replica-1', clock, ids: systemIds, log };
  return { recorder: createEventRecorder(options, stop.signal), clock, warnings, stop };
}

async function subject(name: string): Promise<KubeObject> {
  return client.resource(CONFIG_MAP).create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace } });
}

async function eventsOf(name: string, where = namespace): Promise<StoredEvent[]> {
  const selector = { fieldSelector: `involvedObject.name=${name}` };
  return (await client.resource<StoredEvent>(EVENT).list(where, selector)).items;
}

test('an Event names its object, and what, when and who', async () => {
  const { recorder, clock } = start();
  const object = await subject('one');
  recorder.record(object, 'Warning', 'StepFailed', 'step build failed: no such image');
  await recorder.flush();
  const [event, ...others] = await eventsOf('one');
  assert.deepEqual(others, []);
  assert.equal(event?.involvedObject.uid, object.metadata.uid);
  assert.equal(event?.type, 'Warning');
  assert.equal(event?.reason, 'StepFailed');
  assert.equal(event?.message, 'step build failed: no such image');
  assert.equal(event?.count, 1);
  assert.equal(event?.reportingInstance, 'replica-1');
  assert.equal(Date.parse(event?.lastTimestamp ?? ''), Math.floor(clock.now() / 1_000) * 1_000);
});

test('repeats count one Event up, before it was sent and after; another message is another Event', async () => {
  const { recorder, clock } = start();
  const object = await subject('repeated');
  for (let i = 0; i < 3; i += 1) recorder.record(object, 'Normal', 'Retried', 'again');
  await recorder.flush();
  await clock.advance(60_000);
  recorder.record(object, 'Normal', 'Retried', 'again');
  recorder.record(object, 'Normal', 'Retried', 'again');
  recorder.record(object, 'Normal', 'Retried', 'differently');
  await recorder.flush();
  const events = (await eventsOf('repeated')).sort((a, b) => b.count - a.count);
  assert.deepEqual(
    events.map(({ count, message }) => [count, message]),
    [
      [5, 'again'],
      [1, 'differently'],
    ],
  );
  assert.equal(Date.parse(events[0]?.lastTimestamp ?? '') - Date.parse(events[0]?.firstTimestamp ?? ''), 60_000);
});

test('a repeat of an Event that has expired is recorded anew', async () => {
  const { recorder } = start();
  const object = await subject('expired');
  recorder.record(object, 'Normal', 'Seen', 'once');
  await recorder.flush();
  const [first] = await eventsOf('expired');
  await client.resource(EVENT).delete(namespace, first?.metadata.name ?? '');
  recorder.record(object, 'Normal', 'Seen', 'once');
  await recorder.flush();
  const [second] = await eventsOf('expired');
  assert.equal(second?.count, 1);
  assert.notEqual(second?.metadata.name, first?.metadata.name);
});

test('an object of the same name but another uid is another object', async () => {
  const { recorder } = start();
  const object = await subject('reborn');
  recorder.record(object, 'Normal', 'Seen', 'text');
  recorder.record({ ...object, metadata: { ...object.metadata, uid: 'another' } }, 'Normal', 'Seen', 'text');
  await recorder.flush();
  assert.equal((await eventsOf('reborn')).length, 2);
});

test('an object without a namespace has its Events in default', async () => {
  const { recorder } = start();
  const name = `${namespace}-scope`;
  recorder.record({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }, 'Normal', 'Seen', 'text');
  await recorder.flush();
  assert.equal((await eventsOf(name, 'default')).length, 1);
});

test('a very long name and a very long message still make an Event', async () => {
  const { recorder, warnings } = start();
  const name = 'n'.repeat(253);
  recorder.record(await subject(name), 'Normal', 'Long', 'é'.repeat(5_000));
  await recorder.flush();
  const [event] = await eventsOf(name);
  assert.equal(event?.message, `${'é'.repeat(1_023)}…`);
  assert.deepEqual(warnings, []);
});

test('an Event that cannot be recorded is logged, and the next one is recorded', async () => {
  const { recorder, warnings } = start();
  const object = await subject('unlucky');
  proxy.fault({ method: 'POST', path: /events/ }, { answer: { status: 500 } }, 1);
  recorder.record(object, 'Normal', 'First', 'lost');
  recorder.record(object, 'Normal', 'Second', 'kept');
  await recorder.flush();
  assert.deepEqual(
    (await eventsOf('unlucky')).map(({ reason }) => reason),
    ['Second'],
  );
  assert.deepEqual(
    warnings.map(({ message }) => message),
    ['event not recorded'],
  );
});

test('record returns at once whatever the API server does; beyond 1000 pending, new ones are dropped and their number logged', async () => {
  const { recorder, warnings } = start();
  const object = await subject('flood');
  const gate = Promise.withResolvers<void>();
  using _hold = proxy.fault({ method: 'POST', path: /events/ }, { hold: gate.promise }, 1);
  using _answer = proxy.fault({ method: 'POST', path: /events/ }, { answer: { status: 403 } });
  const sent = proxy.requests.length;
  // The first is on its way, 1000 wait, 7 find no place; a repeat of one that waits needs none.
  for (let i = 0; i < 1_008; i += 1) recorder.record(object, 'Normal', 'Flood', `${i}`);
  recorder.record(object, 'Normal', 'Flood', '1');
  gate.resolve();
  await recorder.flush();
  assert.equal(proxy.requests.length - sent, 1_001);
  assert.deepEqual(warnings.at(-1), { keys: { dropped: 7 }, message: 'events dropped, too many were pending' });
});

test('after its signal has aborted nothing is sent, what waits included, and flush ends', async () => {
  const { recorder, warnings, stop } = start();
  const object = await subject('stopped');
  const gate = Promise.withResolvers<void>();
  proxy.fault({ method: 'POST', path: /events/ }, { hold: gate.promise }, 1);
  const sent = proxy.requests.length;
  recorder.record(object, 'Normal', 'First', 'on its way');
  recorder.record(object, 'Normal', 'Second', 'waits');
  await proxy.until(() => proxy.requests.length === sent + 1);
  stop.abort();
  recorder.record(object, 'Normal', 'Third', 'too late');
  await recorder.flush();
  gate.resolve();
  assert.equal(proxy.requests.length, sent + 1);
  assert.deepEqual(warnings, []);
});
