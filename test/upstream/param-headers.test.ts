import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { paramHeaders, paramHeadersOf } from '../../src/upstream/param-headers.ts';

test('declarations are found along properties, and refused anywhere else', () => {
  const at = (header: string) => ({ type: 'string', 'x-mcp-header': header });
  const schema = { properties: { a: at('A'), b: { properties: { 'x-mcp-header': at('B') } } } };
  assert.deepEqual(paramHeadersOf(schema), [
    { path: ['a'], header: 'Mcp-Param-A' },
    { path: ['b', 'x-mcp-header'], header: 'Mcp-Param-B' },
  ]);
  assert.deepEqual(paramHeadersOf({ type: 'object' }), []);
  const faulty = [
    at('Root'),
    { properties: { list: { type: 'array', items: at('X') } } },
    { anyOf: [{ properties: { a: at('X') } }] },
    { $defs: { x: at('X') } },
    { properties: { a: at('Not a token') } },
    { properties: { a: { type: 'string', 'x-mcp-header': 7 } } },
    { properties: { a: { type: 'number', 'x-mcp-header': 'X' } } },
    { properties: { a: at('Same'), b: at('same') } },
  ];
  for (const schema of faulty) assert.throws(() => paramHeadersOf(schema), Error, JSON.stringify(schema));
});

test('values that no header can carry are encoded; what is absent or of no such type is left out', () => {
  const declared = ['s', 'i', 'b', 'o', 'n'].map((name) => ({ path: [name], header: `Mcp-Param-${name}` }));
  const headers = (args: object) => paramHeaders(declared, args as never);
  assert.deepEqual(headers({ s: 'plain text', i: -3, b: false, o: {}, n: null }), {
    'Mcp-Param-s': 'plain text',
    'Mcp-Param-i': '-3',
    'Mcp-Param-b': 'false',
  });
  assert.deepEqual(headers({ i: 2 ** 60 }), {});
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const value = headers({ s: text })['Mcp-Param-s'] ?? '';
      assert.match(value, /^[\t\x20-\x7e]+$/);
      const packed = /^=\?base64\?(.*)\?=$/.exec(value)?.[1];
      assert.equal(packed === undefined ? value : Buffer.from(packed, 'base64').toString(), text);
    }),
  );
});
