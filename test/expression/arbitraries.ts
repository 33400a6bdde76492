import fc from 'fast-check';
import type { JsonValue } from '../../src/lib/json.ts';

/** Keys and texts that have hurt somebody. */
const NASTY_KEYS = [
  'constructor',
  '__proto__',
  'prototype',
  'toString',
  'hasOwnProperty',
  '',
  'a.b',
  '${input.v}',
  '0',
  'é',
];
const NASTY_NUMBERS = [0, -0, 1e21, -1e-7, 2 ** 53, 2 ** 53 - 1, -(2 ** 53), 0.1, Number.MAX_VALUE, Number.MIN_VALUE];

/** Any UTF-16, lone surrogates with it. */
const anyText = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 8 })
  .map((units) => String.fromCharCode(...units));
const text = fc.oneof(fc.string(), anyText, fc.constantFrom(...NASTY_KEYS));
const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.constantFrom(...NASTY_NUMBERS),
);

export const json: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.constantFrom(null, true, false),
    number,
    text,
    fc.array(tie('value'), { maxLength: 5 }),
    // `fromEntries`, so that `__proto__` is a key like any other, as from `JSON.parse`.
    fc.array(fc.tuple(text, tie('value')), { maxLength: 5 }).map((entries) => Object.fromEntries(entries)),
  ),
})).value;

const content = fc.string({ unit: fc.constantFrom('a', '{', '}', '$', '/', ' ', '\\\\', "\\'", '\\"', '🏴') });
const stringLiteral = fc
  .tuple(fc.constantFrom('', 'r', 'b', 'R', 'B'), fc.constantFrom('"', "'", '"""', "'''"), content)
  .map(([prefix, mark, inner]) => `${prefix}${mark}${inner}${mark}`);
const atom = fc.oneof(
  stringLiteral,
  fc.constantFrom('input', 'input.a', 'x', '1', '1.5', '0x1F', 'true', 'null', 'r', 'b.c', '[]', '{}', '// }"\n 2'),
);

/** Something that reads as CEL, with all that may hide a brace. It need not have a value. */
export const celSource: fc.Arbitrary<string> = fc.letrec<{ source: string }>((tie) => ({
  source: fc.oneof(
    { maxDepth: 4 },
    atom,
    fc
      .tuple(tie('source'), fc.constantFrom('+', '-', '/', '%', '==', '&&', '||', '<', ' in '), tie('source'))
      .map((parts) => parts.join('')),
    fc.tuple(tie('source'), tie('source')).map(([key, value]) => `{${key}: ${value}}`),
    fc.array(tie('source'), { maxLength: 3 }).map((items) => `[${items.join(', ')}]`),
    fc.tuple(tie('source'), tie('source')).map(([list, step]) => `(${list}).map(x, ${step})`),
    fc.tuple(tie('source'), tie('source')).map(([list, step]) => `[${list}].exists(x, ${step})`),
    fc.tuple(tie('source'), tie('source'), tie('source')).map(([a, b, c]) => `(${a} ? ${b} : ${c})`),
    fc
      .tuple(tie('source'), fc.constantFrom('.size()', '.matches("}")', '.?a', '[0]', '["a"]', '.orValue(1)'))
      .map((parts) => parts.join('')),
    tie('source').map((source) => `has(${source}.f)`),
    tie('source').map((source) => `cel.bind(y, ${source}, y == y)`),
  ),
})).source;
