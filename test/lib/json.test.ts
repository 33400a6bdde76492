import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { canonicalJson, isDeeperThan, isJsonObject } from '../../src/lib/json.ts';

test('canonical JSON is JSON of the same value, and the same text whatever the order of keys', () => {
  const reversed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(reversed);
    if (!isJsonObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value)
        .reverse()
        .map(([key, part]) => [key, reversed(part)]),
    );
  };
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = canonicalJson(value);
      assert.equal(canonicalJson(reversed(value)), text);
      assert.equal(canonicalJson(JSON.parse(text)), text);
      assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('an object is neither null nor a list', () => {
  assert.deepEqual([{}, null, [], 'a', 1, undefined].map(isJsonObject), [true, false, false, false, false, false]);
});

test('the depth of a value is bounded without recursion', () => {
  const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}1${']'.repeat(depth)}`);
  assert.equal(isDeeperThan(nested(5), 5), false);
  assert.equal(isDeeperThan(nested(6), 5), true);
  assert.equal(isDeeperThan(nested(5_000), 256), true);
  assert.equal(isDeeperThan({ a: { b: [] } }, 2), true);
  assert.equal(isDeeperThan({ a: { b: 1 } }, 2), false);
  assert.equal(isDeeperThan('text', 0), false);
});
