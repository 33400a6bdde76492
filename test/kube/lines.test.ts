import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { splitLines } from '../../src/kube/lines.ts';

async function* chunked(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let from = 0;
  for (const size of sizes) {
    yield bytes.subarray(from, from + size);
    from += size;
  }
  if (from < bytes.length) yield bytes.subarray(from);
}

const line = fc.string({ unit: 'binary', maxLength: 40 }).filter((text) => !text.includes('\n') && text.isWellFormed());

test('lines come out as they went in, however the bytes are cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(line),
      fc.array(fc.integer({ min: 0, max: 7 }), { maxLength: 300 }),
      async (lines, sizes) => {
        const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(''));
        assert.deepEqual(await Array.fromAsync(splitLines(chunked(bytes, sizes))), lines);
      },
    ),
  );
});

test('a line of several MB in small chunks, then another', async () => {
  const long = '\u{1f600}é'.repeat(500_000);
  const bytes = Buffer.from(`${long}\nnext\n`);
  const sizes = Array.from({ length: Math.ceil(bytes.length / 16_383) }, () => 16_383);
  assert.deepEqual(await Array.fromAsync(splitLines(chunked(bytes, sizes))), [long, 'next']);
});

test('a stream that ends within a line fails, after the whole lines', async () => {
  const seen: string[] = [];
  await assert.rejects(async () => {
    for await (const each of splitLines(chunked(Buffer.from('one\ntw'), [2]))) seen.push(each);
  }, /ended within a line/);
  assert.deepEqual(seen, ['one']);
});
