import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { abortable, settledWithin, withTimeout } from '../../src/lib/abort.ts';
import { createFakeClock } from '../support/fake-clock.ts';

const never = new Promise<never>(() => {});

test('withTimeout aborts with its parent or when its time is over, and leaves nothing behind', async () => {
  const parent = new AbortController();
  const early = withTimeout(parent.signal, 60_000);
  parent.abort(new Error('parent'));
  assert.equal(early.signal.reason.message, 'parent');
  assert.equal(withTimeout(parent.signal, 60_000).signal.aborted, true);

  const calm = new AbortController();
  const late = withTimeout(calm.signal, 1);
  await new Promise((resolve) => late.signal.addEventListener('abort', resolve));
  assert.equal(late.signal.reason.name, 'TimeoutError');
  late.clear();
  assert.equal(getEventListeners(calm.signal, 'abort').length, 0);
});

test('abortable settles as its promise, or with the reason when that comes first', async () => {
  const controller = new AbortController();
  assert.equal(await abortable(Promise.resolve(1), controller.signal), 1);
  await assert.rejects(abortable(Promise.reject(new Error('own')), controller.signal), /own/);
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0);
  const waiting = assert.rejects(abortable(never, controller.signal), /reason/);
  controller.abort(new Error('reason'));
  await waiting;
  await assert.rejects(abortable(Promise.resolve(1), controller.signal), /reason/);
});

test('settledWithin waits for work that ends or fails, and no longer than it may', async () => {
  const clock = createFakeClock();
  await settledWithin(1_000, Promise.resolve(), clock);
  await settledWithin(1_000, Promise.reject(new Error('failed')), clock);
  const waiting = settledWithin(1_000, never, clock);
  await clock.advance(1_000);
  await waiting;
  assert.equal(clock.sleepers, 0);
});
