import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import type { JsonValue } from '../../src/lib/json.ts';
import { listTools, type ToolList } from '../../src/upstream/tool-list.ts';

const json = fc.jsonValue() as fc.Arbitrary<JsonValue>;

/** A server that gives `pages`, one after the other. */
async function list(...pages: JsonValue[]): Promise<ToolList> {
  const answer = await listTools(async (cursor) => {
    const index = cursor === undefined ? 0 : Number(cursor);
    const more = index + 1 < pages.length ? { nextCursor: String(index + 1) } : {};
    return { kind: 'result', result: { tools: pages[index] ?? [], ...more } };
  });
  assert.ok('tools' in answer);
  return answer;
}

test('whatever a server lists among them, its good tools are there, sorted', async () => {
  const good = { name: 'good', inputSchema: { type: 'object' } };
  const better = { name: 'better', inputSchema: { type: 'object' } };
  const entry = fc.oneof(json, fc.record({ name: json, inputSchema: json, annotations: json, outputSchema: json }));
  await fc.assert(
    fc.asyncProperty(fc.array(entry, { maxLength: 5 }), fc.array(entry, { maxLength: 5 }), async (some, others) => {
      const { tools } = await list([...(some as JsonValue[]), good], [better, ...(others as JsonValue[])]);
      assert.ok(tools.has('good') && tools.has('better'));
      assert.deepEqual([...tools.keys()], [...tools.keys()].sort());
      for (const { hash, inputSchema } of tools.values()) {
        assert.match(hash, /^[0-9a-f]{16}$/);
        assert.equal(typeof inputSchema, 'object');
      }
    }),
  );
});

test('the hash is that of the meaning, not of the order of the keys', async () => {
  const entry = fc.record({
    type: fc.constant('object'),
    title: fc.string(),
    properties: fc.dictionary(fc.string(), json),
  });
  await fc.assert(
    fc.asyncProperty(entry, async (schema) => {
      const turned = Object.fromEntries(Object.entries(schema).reverse());
      const a = await list([{ name: 't', inputSchema: schema as JsonValue }]);
      const b = await list([{ name: 't', inputSchema: turned as JsonValue }]);
      assert.equal(a.tools.get('t')?.hash, b.tools.get('t')?.hash);
    }),
  );
});

test('a list without end, with too much in it, or that comes back to a cursor, is cut and says so', async () => {
  const tools = (count: number, from = 0): JsonValue[] =>
    Array.from({ length: count }, (_, index) => ({ name: `t${from + index}`, inputSchema: { type: 'object' } }));
  const many = await list(tools(1_000), tools(1_000, 1_000));
  assert.equal(many.tools.size, 1_024);
  assert.match(many.warnings.join(), /^the list is cut: 1024 tools were read/);

  let pages = 0;
  const endless = await listTools(async () => {
    pages += 1;
    return { kind: 'result', result: { tools: [], nextCursor: String(pages) } };
  });
  assert.ok('warnings' in endless && endless.warnings.length === 1);
  assert.equal(pages, 256);

  pages = 0;
  await listTools(async () => {
    pages += 1;
    return { kind: 'result', result: { tools: tools(1), nextCursor: 'again' } };
  });
  assert.equal(pages, 2);

  const heavy = await list([{ name: 'a', description: 'x'.repeat(20_000_000), inputSchema: {} }], tools(1));
  assert.deepEqual([...heavy.tools.keys()], ['a']);
});

test('a page that does not come ends it with what came instead', async () => {
  const failed = await listTools(async () => ({ kind: 'error', error: { code: -32603, message: 'no' } }));
  assert.deepEqual(failed, { kind: 'error', error: { code: -32603, message: 'no' } });
});

test('hints that are no booleans count for nothing', async () => {
  const annotations = { readOnlyHint: 'true', idempotentHint: true, destructiveHint: 0, title: 'x' };
  const { tools } = await list([{ name: 't', inputSchema: {}, annotations }]);
  assert.deepEqual(tools.get('t')?.annotations, { idempotentHint: true });
});
