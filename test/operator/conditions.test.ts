import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Condition } from '../../src/api/object.ts';
import { sameStatus, withConditions } from '../../src/operator/conditions.ts';

const ready: Condition = {
  type: 'Ready',
  status: 'False',
  reason: 'ToolsMissing',
  message: 'a',
  lastTransitionTime: '2026-01-01T00:00:00Z',
};

test('the time of transition moves with the status, not with reason or message', () => {
  const { lastTransitionTime: _, ...same } = ready;
  const [told] = withConditions([ready], [{ ...same, message: 'b' }], '2026-02-02T00:00:00Z');
  assert.deepEqual(told, { ...ready, message: 'b' });
  const [turned] = withConditions([ready], [{ ...same, status: 'True' }], '2026-02-02T00:00:00Z');
  assert.equal(turned?.lastTransitionTime, '2026-02-02T00:00:00Z');
});

test('other conditions are kept', () => {
  const { lastTransitionTime: _, ...same } = ready;
  const types = withConditions([ready], [{ ...same, type: 'Accepted' }], 'now').map(({ type }) => type);
  assert.deepEqual(types, ['Ready', 'Accepted']);
});

test('statuses that say the same need no write', () => {
  assert.ok(sameStatus({ a: 1, b: { c: 2, d: undefined } }, { b: { c: 2 }, a: 1 }));
  assert.ok(sameStatus(undefined, undefined));
  assert.ok(!sameStatus(undefined, {}));
  assert.ok(!sameStatus({ a: 1 }, { a: 2 }));
});
