import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formatDuration, parseDuration } from '../../src/lib/duration.ts';

test('what is formatted is parsed to the same time', () => {
  fc.assert(fc.property(fc.nat({ max: 1e12 }), (ms) => assert.equal(parseDuration(formatDuration(ms)), ms)));
});

test('units add up, largest first', () => {
  assert.equal(parseDuration('1d2h3m4s5ms'), 93_784_005);
  assert.equal(parseDuration('90m'), 5_400_000);
  assert.equal(formatDuration(5_400_000), '1h30m');
  assert.equal(formatDuration(0), '0s');
  assert.equal(formatDuration(-1), '0s');
});

test('anything else is refused by its text', () => {
  const isDuration = /^(?=.)(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$/;
  for (const text of ['', '5', '1m1h', '1.5s', '-1s', ' 1s', '1S', '1w', '1s\n']) {
    assert.throws(() => parseDuration(text), {
      name: 'RangeError',
      message: new RegExp(`"${text}" is not a duration`),
    });
  }
  const texts = fc.string({ unit: fc.constantFrom(...'0159dhms. -'), maxLength: 8 });
  fc.assert(
    fc.property(texts, (text) => {
      if (isDuration.test(text)) assert.ok(Number.isInteger(parseDuration(text)));
      else assert.throws(() => parseDuration(text), RangeError);
    }),
  );
});
