import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WORKFLOW_EXECUTION } from '../../src/api/constants.ts';
import type { WorkflowExecution } from '../../src/api/workflow-execution.ts';
import { AlreadyExistsError, ConflictError, UnavailableError } from '../../src/kube/errors.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { createRunStore } from '../../src/operator/run-store.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { MemoryResource } from './memory-resource.ts';

const execution: WorkflowExecution = {
  apiVersion: 'convoke.dev/v1alpha1',
  kind: 'WorkflowExecution',
  metadata: { name: 'run', namespace: 'n' },
  spec: { workflow: 'w' },
};

function scene() {
  const client = new MemoryResource<WorkflowExecution>(WORKFLOW_EXECUTION);
  const clock = createFakeClock();
  const observed: WorkflowExecution[] = [];
  const observe = (seen: WorkflowExecution): void => void observed.push(seen);
  const store = createRunStore({ client, observe, clock, log: silentLogger });
  const stop = new AbortController();
  let away = 0;
  client.refuse = () => {
    if (away === 0) return undefined;
    away -= 1;
    return new UnavailableError('connection refused', 0, '', 'unknown');
  };
  return {
    client,
    clock,
    observed,
    store,
    stop,
    /** The API server refuses so many requests. */
    goAway: (requests: number) => {
      away = requests;
    },
  };
}

test('the API server away: a status write is tried again, at most 10 s apart, until it is back', async () => {
  const { client, clock, observed, store, stop, goAway } = scene();
  const created = client.put(execution);
  goAway(10);
  const write = store.writeStatus({ ...created, status: { phase: 'inprogress' } }, stop.signal);
  await clock.advance(10 * 15_000);
  const written = await write;
  assert.equal(client.writes.length, 11);
  assert.equal((await client.get('n', 'run')).status?.phase, 'inprogress');
  assert.deepEqual(observed, [written]);
});

test('a create whose answer was lost meets its own object; a name that was taken before is an error', async () => {
  const { client, clock, observed, store, stop } = scene();
  let lost = true;
  const create = client.create.bind(client);
  client.create = async (object) => {
    const created = await create(object);
    if (!lost) return created;
    lost = false;
    throw new UnavailableError('cut', 0, '', 'unknown');
  };
  const creating = store.create(execution, stop.signal);
  await clock.advance(1_000);
  assert.equal((await creating).metadata.uid, (await client.get('n', 'run')).metadata.uid);
  assert.equal(observed.length, 1);
  await assert.rejects(store.create(execution, stop.signal), AlreadyExistsError);
});

test('what no retry mends is told at once, and nothing is observed', async () => {
  const { client, observed, store, stop } = scene();
  const old = client.put(execution);
  client.put({ ...old, metadata: { ...old.metadata, annotations: { a: 'b' } } });
  await assert.rejects(store.writeStatus({ ...old, status: { phase: 'inprogress' } }, stop.signal), ConflictError);
  assert.equal(client.writes.length, 1);
  assert.deepEqual(observed, []);
});

test('an abort ends the wait', async () => {
  const { clock, store, stop, goAway } = scene();
  goAway(100);
  const reading = store.read('n', 'run', stop.signal);
  const ended = assert.rejects(reading, /enough/);
  await clock.advance(50);
  stop.abort(new Error('enough'));
  await ended;
  assert.equal(clock.sleepers, 0);
});
