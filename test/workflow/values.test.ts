import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ToolResult } from '../../src/api/workflow-execution.ts';
import type { JsonValue } from '../../src/lib/json.ts';
import { formatBytes, jsonBytes, resultValue, shorten } from '../../src/workflow/values.ts';

const text = (...texts: string[]): ToolResult => ({ content: texts.map((one) => ({ type: 'text', text: one })) });
const image = { type: 'image', data: 'AA==', mimeType: 'image/png' };

describe('the value of a result', () => {
  const cases: [string, ToolResult, JsonValue][] = [
    ['the structured content, whatever the text says', { ...text('{"a":2}'), structuredContent: { a: 1 } }, { a: 1 }],
    ['structured content null is a value', { ...text('x'), structuredContent: null }, null],
    ['an object in the only text', text('{"a":[1]}'), { a: [1] }],
    ['a list in the only text, blanks around it', text(' \n[1,2]\n'), [1, 2]],
    ['a number stays text', text('007'), '007'],
    ['null, true and quotes stay text', text('null'), 'null'],
    ['what only looks like JSON stays text', text('{a}'), '{a}'],
    ['several texts are lines', text('{"a":1}', 'b'), '{"a":1}\nb'],
    ['other blocks do not count', { content: [image, { type: 'text', text: '{"a":1}' }] }, { a: 1 }],
    ['no text at all', { content: [image] }, ''],
  ];
  for (const [title, result, value] of cases) it(title, () => assert.deepEqual(resultValue(result), value));
});

describe('sizes', () => {
  it('are of the JSON in UTF-8', () => {
    assert.equal(jsonBytes({ a: 'é' }), 10);
    assert.equal(jsonBytes(undefined), 0);
    assert.deepEqual(
      [formatBytes(1023), formatBytes(1024), formatBytes(1_048_576)],
      ['1023 bytes', '1 KiB', '1024 KiB'],
    );
  });
});

it('a text that is cut says how much is left out, and breaks no character', () => {
  assert.equal(shorten('abc', 3), 'abc');
  assert.equal(shorten('abcdef', 3), 'abc… (3 characters more)');
  assert.ok(shorten('🏴🏴🏴', 3).isWellFormed());
});
