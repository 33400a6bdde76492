import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { TextFault } from '../../src/expression/errors.ts';
import { scanTemplate } from '../../src/expression/scan.ts';
import { celSource } from './arbitraries.ts';

/** `[…]` marks an expression. */
function shown(text: string): { parts: string[]; isWhole: boolean } {
  const { parts, isWhole } = scanTemplate(text);
  return { parts: parts.map((part) => (part.kind === 'literal' ? part.text : `[${part.source}]`)), isWhole };
}

const SCANNED: readonly [text: string, parts: string[], isWhole: boolean][] = [
  ['', [], false],
  ['plain $5 {x} $', ['plain $5 {x} $'], false],
  ['${input.a}', ['[input.a]'], true],
  ['${input.a}\n', ['[input.a]'], true],
  ['${input.a}\n\n', ['[input.a]', '\n\n'], false],
  ['${input.a} ', ['[input.a]', ' '], false],
  [' ${input.a}', [' ', '[input.a]'], false],
  ['a ${b} c ${d} e', ['a ', '[b]', ' c ', '[d]', ' e'], false],
  ['${a}${b}', ['[a]', '[b]'], false],
  ['$${HOME}', ['${HOME}'], false],
  ['$$${a}', ['$${a}'], false],
  ['$$${a}${b}', ['$${a}', '[b]'], false],
  ['${"${HOME}"}', ['["${HOME}"]'], true],
  ["${'}'}", ["['}']"], true],
  ["${'\"'}", ["['\"']"], true],
  ['${"\\"}"}', ['["\\"}"]'], true],
  ["${r'\\d}'}", ["[r'\\d}']"], true],
  ["${b'}'}", ["[b'}']"], true],
  ['${"""a"}\n"b"""}', ['["""a"}\n"b"""]'], true],
  ["${'''}'''}", ["['''}''']"], true],
  ['${{"a": {"b": 1}}}', ['[{"a": {"b": 1}}]'], true],
  ['${{}}}', ['[{}]', '}'], false],
  ['${a // }\n}', ['[a // }\n]'], true],
  ['${a / b}', ['[a / b]'], true],
  ['${""}${\'\'}', ['[""]', "['']"], false],
];

for (const [text, parts, isWhole] of SCANNED) {
  test(`scans ${JSON.stringify(text)}`, () => assert.deepEqual(shown(text), { parts, isWhole }));
}

const UNCLOSED: readonly [text: string, offset: number, message: RegExp][] = [
  ['see ${abc', 4, /not closed: expected a }/],
  ['${{"a": 1}', 0, /not closed/],
  ['a ${b} ${c // }', 7, /not closed/],
  ['x ${"abc}', 4, /string that begins here is not closed: expected a "/],
  ["${'a\n'}", 2, /string that begins here/],
  ['${"""a"}', 2, /expected a """/],
  ['${"a\\"}', 2, /string that begins here/],
];

for (const [text, offset, message] of UNCLOSED) {
  test(`refuses ${JSON.stringify(text)} at ${offset}`, () => {
    assert.throws(
      () => scanTemplate(text),
      (error) => error instanceof TextFault && error.offset === offset && message.test(error.message),
    );
  });
}

const literal = fc.string({ unit: fc.constantFrom('a', '{', '}', '"', "'", '/', '\\', '\n', '🏴', '$ ') });

test('an expression is found again between any texts, and where it stands', () => {
  fc.assert(
    fc.property(literal, celSource, literal, (before, source, after) => {
      const text = `${before}\${${source}}${after}`;
      const { parts } = scanTemplate(text);
      const found = parts.find((part) => part.kind === 'expression');
      assert.equal(found?.source, source);
      assert.equal(text.slice(found.offset, found.offset + source.length), source);
      const whole = before === '' && (after === '' || after === '\n');
      const texts = parts.map((part) => (part.kind === 'literal' ? part.text : `\${${part.source}}`));
      assert.equal(texts.join(''), whole ? `\${${source}}` : text);
    }),
  );
});

test('any text can be written literally', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('$', '{', '}', 'a', '"') }), (text) => {
      const { parts } = scanTemplate(text.replaceAll('${', () => '$${'));
      assert.deepEqual(parts, text === '' ? [] : [{ kind: 'literal', text }]);
    }),
  );
});

test('nothing but a text fault comes of any text', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('$', '{', '}', '"', "'", '\\', '/', '\n', 'r', 'x') }), (text) => {
      try {
        scanTemplate(text);
      } catch (error) {
        assert.ok(error instanceof TextFault);
        assert.ok(error.offset !== undefined && error.offset < text.length);
      }
    }),
  );
});
