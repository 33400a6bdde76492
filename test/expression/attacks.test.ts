import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileValue } from '../../src/expression/compile.ts';
import { ExpressionError } from '../../src/expression/errors.ts';
import { evaluateValue } from '../../src/expression/evaluate.ts';
import type { JsonObject } from '../../src/lib/json.ts';

/** Far above what any of them takes; unbounded they take minutes, or all memory. */
const SAFETY_MS = 5_000;
const MEGABYTE = 'ab'.repeat(524_288);
const MANY = Array.from({ length: 100_000 }, (_, i) => i);
const WIDE = Object.fromEntries(MANY.map((i) => [`k${i}`, i]));
const SCOPE: JsonObject = {
  s: MEGABYTE,
  aaa: `${'a'.repeat(50_000)}!`,
  ones: `${'1'.repeat(5_000)}x`,
  many: MANY,
  wide: WIDE,
  same: MANY.slice(),
  big: Array.from({ length: 1000 }, () => MEGABYTE),
  pattern: '(a|b|ab)*',
};

const nested = (depth: number, innermost: string): string => {
  const ten = '[0,1,2,3,4,5,6,7,8,9]';
  let source = innermost;
  for (let i = depth; i > 0; i--) source = `${ten}.exists(x${i}, ${source})`;
  return source;
};
const doubling = (start: string, depth: number): string => {
  let source = start;
  for (let i = 0; i < depth; i++) source = `[${source}].map(x, x + x)[0]`;
  return source;
};

const ATTACKS: readonly [name: string, source: string, end: RegExp][] = [
  ['nine nested quantifiers', nested(9, 'x1 + x9 > 100'), /stopped after 100000 steps/],
  ['quantifiers that absorb the end', nested(9, '(x1 > 100 || x1 / 0 == 1) || false'), /stopped after/],
  ['an end that is absorbed by ||', `${nested(7, 'x1 > 100')} || true`, /stopped after/],
  ['a list that doubles', doubling('[1]', 20), /stopped after|48 deep/],
  [
    'a text that doubles',
    doubling('"0123456789012345678901234567890123456789012345678901234567890123"', 20),
    /stopped after|48 deep/,
  ],
  ['a long text that doubles', doubling('s', 10), /stopped after/],
  ['a join of long texts', 'big.join(s)', /stopped after/],
  ['a product of lists', 'many.map(a, many.map(b, b))', /stopped after/],
  ['keys of a wide map, again and again', 'many.map(a, wide.exists(k, true))', /stopped after/],
  ['the size of a wide map, again and again', '[1,2,3,4].map(a, size(wide))', /stopped after/],
  ['lists that are equal', '[1,2].map(a, many == same)', /stopped after/],
  ['membership', '[-1, -2].map(a, a in many)', /stopped after/],
  ['texts compared', '[1,2,3,4,5,6,7,8,9].map(a, s < s + "x")', /stopped after/],
  ['a regular expression over a long text', 's.matches("^([ab]*a[ab]{300})c$")', /stopped after/],
  ['many regular expressions', '[1,2,3,4,5,6,7,8,9].map(a, "x".matches("\\\\pL{1,500}" + string(a)))', /stopped after/],
  ['a duration of many digits', 'duration(ones)', /is no duration/],
  ['an int of many digits', 'int(ones)', /cannot convert to int/],
  ['brackets', `${'('.repeat(2000)}1${')'.repeat(2000)}`, /48 deep/],
  ['lists in lists', `${'['.repeat(2000)}${']'.repeat(2000)}`, /48 deep/],
  ['nots', `${'!'.repeat(4000)}true`, /2000 parts/],
  ['a long sum', `${'1+'.repeat(2000)}1`, /2000 parts/],
  ['selects', `s${'.a'.repeat(2000)}`, /48 deep/],
  ['a long source', `1${' '.repeat(20_000)}`, /at most 4096/],
];

for (const [name, source, end] of ATTACKS) {
  test(`ends: ${name}`, () => {
    const started = performance.now();
    assert.throws(
      () => evaluateValue(compileValue(`\${${source}}`, 'p'), SCOPE),
      (error) => error instanceof ExpressionError && end.test(error.message),
    );
    assert.ok(performance.now() - started < SAFETY_MS);
  });
}

test('a regular expression that hangs a backtracking engine has its answer', () => {
  assert.equal(evaluateValue(compileValue('${aaa.matches("^(a+)+$")}', 'p'), SCOPE), false);
});

test('a value that repeats a large one many times is refused, not written out', () => {
  const copies = compileValue('${[s, s].map(x, [s, s, s, s, s, s, s, s, s])}', 'p');
  assert.throws(() => evaluateValue(copies, SCOPE), /the value is larger than 16 Mi characters/);
  const texts = compileValue(
    Array.from({ length: 20 }, () => 'x${s}'),
    'p',
  );
  assert.throws(() => evaluateValue(texts, SCOPE), /the value is larger than 16 Mi characters/);
});

test('work of an ordinary size is far from the limit', () => {
  const items = Array.from({ length: 5000 }, (_, i) => ({
    name: `pod-${i}`,
    phase: i % 100 === 0 ? 'Failed' : 'Running',
  }));
  const failed = compileValue(
    '${items.filter(i, i.phase == "Failed" && i.name.matches("^pod-[0-9]+$")).map(i, i.name)}',
    'p',
  );
  assert.equal((evaluateValue(failed, { items }) as string[]).length, 50);
});

test('each evaluation has the whole budget', () => {
  const items = Array.from({ length: 10_000 }, (_, i) => i);
  const compiled = compileValue({ a: '${size(items.map(x, x + 1))}', b: '${size(items.map(x, x + 1))}' }, 'p');
  for (let i = 0; i < 3; i++) assert.deepEqual(evaluateValue(compiled, { items }), { a: 10_000, b: 10_000 });
});
