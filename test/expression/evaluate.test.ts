import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { compileCondition, compileValue } from '../../src/expression/compile.ts';
import { ExpressionError } from '../../src/expression/errors.ts';
import { evaluateCondition, evaluateValue } from '../../src/expression/evaluate.ts';
import type { JsonObject, JsonValue } from '../../src/lib/json.ts';
import { json } from './arbitraries.ts';

const SCOPE: JsonObject = {
  input: {
    name: 'shop',
    n: 3,
    half: 1.5,
    on: true,
    none: null,
    list: [1, 2, 3],
    pods: [
      { name: 'a', restarts: 0 },
      { name: 'b', restarts: 7 },
    ],
    map: { a: 1, 'x-y': 2, for: 3, namespace: 4, in: 5 },
  },
  results: { build: { image: 'shop:1', items: [] } },
  steps: { build: { phase: 'completed', attempt: 1 } },
  execution: { id: 'e1' },
};

function evaluate(value: JsonValue, scope: JsonObject = SCOPE): JsonValue {
  return evaluateValue(compileValue(value, 'spec.x'), scope);
}

const GIVES: readonly [text: JsonValue, value: JsonValue][] = [
  // Whole values keep their type.
  ['${input.n}', 3],
  ['${input.on}', true],
  ['${input.none}', null],
  ['${input.list}', [1, 2, 3]],
  ['${input.map}', { a: 1, 'x-y': 2, for: 3, namespace: 4, in: 5 }],
  ['${input.n}\n', 3],
  ['${input.none == null ? "none" : "some"}', 'none'],
  // Within a text, what has one way to be written.
  ['n=${input.n} half=${input.half} on=${input.on} name=${input.name}', 'n=3 half=1.5 on=true name=shop'],
  [' ${input.n}', ' 3'],
  ['${1}${2}', '12'],
  ['${9007199254740993} ${uint(7)}', '9007199254740993 7'],
  ['at ${timestamp("2024-05-06T07:08:09Z")} for ${duration("-90.5s")}', 'at 2024-05-06T07:08:09Z for -90.5s'],
  ['${timestamp("2024-05-06T07:08:09.250Z")}', '2024-05-06T07:08:09.250Z'],
  ['${string(duration("1h") + duration("500ms"))}', '3600.5s'],
  ['${input.?name} ${input.?nope.orValue("x")}', 'shop x'],
  // Literal.
  ['$${input.n}', '${input.n}'],
  ['${"${HOME}"}', '${HOME}'],
  // Keys are never looked at; an absent optional leaves its key out; null stays.
  [{ '${input.n}': '${input.n}' }, { '${input.n}': 3 }],
  [
    { a: '${input.?nope}', b: '${input.?name}', c: '${input.none}', d: { e: '${results.?x.?y}' } },
    { b: 'shop', c: null, d: {} },
  ],
  // Numbers: JSON's are doubles, those written out are ints, and they mix.
  ['${input.n + 1}', 4],
  ['${1 + input.n}', 4],
  ['${input.n * 2 - 1}', 5],
  ['${input.n / 2}', 1.5],
  ['${5 / 2}', 2],
  ['${input.n % 2}', 1],
  ['${5.5 % input.n}', 2.5],
  ['${-input.n}', -3],
  ['${1 == 1.0}', true],
  ['${9007199254740993 == input.n}', false],
  ['${input.n == 3 && input.n >= 3 && 4 > input.n && input.n != 4}', true],
  ['${[1, 2.0] == [1.0, 2]}', true],
  ['${input.list == [1, 2, 3] && 2 in input.list && input.list[input.n - 1] == 3}', true],
  ['${int(input.n) / 2}', 1],
  ['${size(input.list) + 1}', 4],
  // Maps and lists.
  ['${input.map["x-y"]}', 2],
  ['${input.map.for + input.map.namespace}', 7],
  ['${input.map["in"]}', 5],
  ['${"a" in input.map && !("b" in input.map) && !("toString" in input.map) && !(1 in input.map)}', true],
  ['${input.pods.filter(p, p.restarts > 0).map(p, p.name)}', ['b']],
  [
    '${input.pods.map(p, {"is": p.name, "n": p.restarts + 1})}',
    [
      { is: 'a', n: 1 },
      { is: 'b', n: 8 },
    ],
  ],
  ['${input.map.map(k, k).exists(k, k == "for")}', true],
  ['${input.pods.all(p, has(p.name)) && input.pods.exists_one(p, p.restarts == 7)}', true],
  ['${{"a": [1, "x", null, {}], "b": {"c": 1.5}}}', { a: [1, 'x', null, {}], b: { c: 1.5 } }],
  ['${{"constructor": 1, "prototype": 2}}', { constructor: 1, prototype: 2 }],
  ['${{"a": 1, "b": [2]} == {"b": [2.0], "a": 1} || true}', true],
  ['${[].all(e, e > 0) && size([] + [1]) == 1 && {} == {}}', true],
  ['${[1, [2]] + input.list}', [1, [2], 1, 2, 3]],
  ['${timestamp("2024-05-06T07:08:09Z") == dyn("2024-05-06T07:08:09Z") || b"a" == dyn("YQ==")}', false],
  ['${timestamp("2024-05-06T07:08:09Z") == timestamp(1714979289) && duration("60s") == duration("1m")}', true],
  ['${uint(3) == dyn(input.n) && b"ab" == b"ab" && type(1) != type(1.0) && input.?n == input.?n}', true],
  // Guards.
  ['${has(input.name) && !has(input.nope) && has(input.pods[0].name) && !has(input.pods[0].x)}', true],
  ['${has({"a": 1}.a) && !has(input.name.x) && !has(input.none.x) && !has(input.list.x) && has(input.?pods)}', true],
  ['${input.?nope.?deeper.orValue(1)}', 1],
  ['${input.?map.a.orValue(0)}', 1],
  ['${input.list[?9].orValue(0)}', 0],
  ['${input.?nope.or(input.?name).hasValue()}', true],
  // Text.
  ['${input.name.startsWith("sh") && input.name.contains("ho") && input.name.size() == 4}', true],
  ['${input.name.matches("^s.*p$") && !input.name.matches("^h") && "a\\nb".matches("b")}', true],
  ['${"a,b".split(",").join("+")}', 'a+b'],
  ['${cel.bind(x, input.n, x + x)}', 6],
];

for (const [value, expected] of GIVES) {
  test(`gives ${JSON.stringify(expected)}: ${JSON.stringify(value)}`, () =>
    assert.deepEqual(evaluate(value), expected));
}

const FAILS: readonly [text: JsonValue, message: string | RegExp][] = [
  ['x ${input.list}', 'spec.x, column 5: a list cannot stand within a text'],
  ['${input.map} x', 'spec.x, column 3: a map cannot stand within a text'],
  ['x${input.none}', 'spec.x, column 4: null cannot stand within a text'],
  ['x${input.?nope}', 'spec.x, column 4: an optional that is absent cannot stand within a text'],
  ['x${b"a"}', 'spec.x, column 4: bytes cannot stand within a text'],
  [['${input.?nope}'], 'spec.x[0], column 3: an optional that is absent has no JSON: give .orValue(…)'],
  ['${[input.?nope]}', 'spec.x, column 3: at [0]: an optional that is absent has no JSON: give .orValue(…)'],
  ['${results.build.imgae}', "spec.x, column 17: no such key 'imgae' in results.build (known: image, items)"],
  ['${results.test.x}', "spec.x, column 11: no such key 'test' in results (known: build)"],
  ['${results.build.items[0]}', 'spec.x, column 3: no such index 0 in results.build.items, which has 0 elements'],
  ['${input.list[1.5]}', /no such index 1\.5/],
  ['${input.list["length"]}', /input\.list is a list: its index is an int, not a string/],
  ['${input.map[1]}', /input\.map is a map: its keys are strings, not an int/],
  ['${input.name.length}', 'spec.x, column 14: input.name is a string, of which nothing can be read'],
  ['${input.none.x}', /input\.none is null/],
  ['${nope.x}', /unknown variable: nope/],
  ['${toString}', /unknown variable: toString/],
  ['${constructor}', /unknown variable: constructor/],
  ['${input.constructor}', /no such key 'constructor'/],
  ['${input.map.hasOwnProperty}', /no such key/],
  ['${input.list.constructor}', /its index is an int/],
  ['${input.name + input.n}', /string \+ double \(string\(…\) makes a string of it\)/],
  ['${input.name.substring(input.n)}', /substring\(double\).*int\(…\) makes it an int/],
  ['${input.name < input.n}', /no such overload: string < double/],
  ['${input.n && true}', /requires bool operands, got 'double'/],
  ['${input.n ? 1 : 2}', /must be bool, got 'double'/],
  ['${1 in input.n}', /input\.n is a double: 'in' needs a list or a map/],
  ['${input.n.map(x, x)}', /cannot be range/],
  ['${1 / 0}', /division by zero/],
  ['${9223372036854775807 + 1}', /integer overflow/],
  ['${9007199254740993}', /9007199254740993 is no JSON number without loss/],
  ['${{"a": [9007199254740993]}}', /^spec\.x, column 3: at \.a\[0\]: 9007199254740993 is no JSON number/],
  ['${input.n / 0}', 'spec.x, column 3: the number Infinity cannot be JSON'],
  ['${input.n / 0} x', /the number Infinity cannot stand within a text/],
  ['${int}', 'spec.x, column 3: a type cannot be JSON'],
  ['${{"a": 1, "a": 2}}', "spec.x, column 12: the key 'a' is given twice"],
  ['${{1: 2}}', /the keys of a map are strings, as in JSON, not an int/],
  ['${{input.name: 1, "shop": 2}}', /the key 'shop' is given twice/],
  ['${input.name.matches(input.name + "(")}', /not a regular expression \(RE2\)/],
  ['${input.name.orValue(1)}', /must be optional/],
  ['${duration("x")}', /invalid duration/i],
  ['${timestamp("2024-05-06T07:08:09Z").getHours("Mars/X")}', /time zone/i],
];

for (const [value, message] of FAILS) {
  test(`fails: ${JSON.stringify(value)}`, () => {
    assert.throws(() => evaluate(value), { name: 'ExpressionError', message });
  });
}

test('a fault of one text among many names its path, and where in that text', () => {
  assert.throws(
    () => evaluate({ a: ['${input.n}', { 'b c': 'see ${input.nope.x}' }] }),
    (error) => {
      assert.ok(error instanceof ExpressionError);
      assert.deepEqual(
        error.faults.map(({ path, column }) => ({ path, column })),
        [{ path: 'spec.x.a[1]["b c"]', column: 13 }],
      );
      return true;
    },
  );
});

test('a message quotes data and keys, but not at any length', () => {
  const long = 'k'.repeat(100_000);
  const scope = { input: Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`${long}${i}`, i])), t: long };
  for (const source of ['input.nope', 'bool(t)', 'input[t]', 'duration(t)', 'int(t)', 't.matches(t)', 'timestamp(t)']) {
    assert.throws(
      () => evaluate(`\${${source}}`, scope),
      (error) => error instanceof ExpressionError && error.message.length < 700,
      source,
    );
  }
});

test('a condition is a bool and nothing that could be taken for one', () => {
  const condition = (text: string): boolean => evaluateCondition(compileCondition(text, 'spec.if'), SCOPE);
  assert.equal(condition('input.n > 2'), true);
  assert.equal(condition('${steps.build.phase == "failed"}'), false);
  assert.equal(condition('has(results.other)'), false);
  for (const [text, kind] of [
    ['input.n', 'a double'],
    ['${input.name}', 'a string'],
    ['input.none', 'null'],
    ['input.list', 'a list'],
  ] as const) {
    assert.throws(() => condition(text), {
      message: new RegExp(`^spec\\.if, column \\d: a condition is a bool, but this is ${kind}$`),
    });
  }
});

test('field case 38 (B): null, the text "null" and an absent value stay three things', () => {
  const compiled = compileValue({ value: '${input.?v}', is: '${has(input.v) && input.v == null}' }, 'args');
  assert.deepEqual(evaluateValue(compiled, { input: { v: null } }), { value: null, is: true });
  assert.deepEqual(evaluateValue(compiled, { input: { v: 'null' } }), { value: 'null', is: false });
  assert.deepEqual(evaluateValue(compiled, { input: {} }), { is: false });
});

test('field case 48 (C): numbers, booleans and nested lists keep their JSON types', () => {
  const args = { replicas: '${input.replicas}', literal: 10, flag: true, list: [[1, '${input.flag}'], '10'] };
  const value = evaluate(args, { input: { replicas: 3, flag: false } });
  assert.equal(JSON.stringify(value), '{"replicas":3,"literal":10,"flag":true,"list":[[1,false],"10"]}');
});

const INJECTION = 'a"b\n${input.x}$${x}{{y}}\\u0041🏴󠁧󠁢󠁳󠁣󠁴󠁿';

test('field case 54 (D): text from outside arrives as it is and is never evaluated', () => {
  const scope = { input: { v: INJECTION, x: 'LEAK' }, results: { s: { 'k ${input.x}': INJECTION } } };
  assert.equal(evaluate('${input.v}', scope), INJECTION);
  assert.equal(evaluate('<${input.v}|${results.s["k ${input.x}"]}>', scope), `<${INJECTION}|${INJECTION}>`);
  assert.deepEqual(evaluate({ a: '${results.s}' }, scope), { a: { 'k ${input.x}': INJECTION } });
});

test('any JSON passes through a whole value unchanged', () => {
  const whole = compileValue('${input.v}', 'p');
  const inside = compileValue({ l: ['${[input.v]}'], m: '${{"k": input.v}}', o: '${input.?v}' }, 'p');
  fc.assert(
    fc.property(json, (v) => {
      assert.deepEqual(evaluateValue(whole, { input: { v } }), v);
      assert.deepEqual(evaluateValue(inside, { input: { v } }), { l: [[v]], m: { k: v }, o: v });
    }),
    { numRuns: 500 },
  );
});

test('any JSON without expressions is its own value', () => {
  const escaped = (value: JsonValue): JsonValue => {
    if (typeof value === 'string') return value.replaceAll('${', () => '$${');
    if (Array.isArray(value)) return value.map(escaped);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, escaped(part)]));
  };
  fc.assert(fc.property(json, (v) => assert.deepEqual(evaluate(escaped(v)), v)));
});

test('any text is inert within a text', () => {
  const compiled = compileValue('a${input.v}${input.v}z', 'p');
  const text = fc.string({ unit: fc.constantFrom('$', '{', '}', '"', '\\', 'input', '.x', '\n', '\ud800') });
  fc.assert(
    fc.property(text, (v) => {
      assert.equal(evaluateValue(compiled, { input: { v, x: 'LEAK' } }), `a${v}${v}z`);
    }),
  );
});

test('any key of any object is read, and no other', () => {
  const compiled = compileValue('${[input.o[input.k], input.k in input.o]}', 'p');
  fc.assert(
    fc.property(fc.dictionary(fc.string(), json), fc.string(), json, (rest, k, v) => {
      const o = Object.fromEntries([...Object.entries(rest), [k, v]]);
      assert.deepEqual(evaluateValue(compiled, { input: { o, k } }), [v, true]);
      const without = Object.fromEntries(Object.entries(rest).filter(([key]) => key !== k));
      assert.throws(() => evaluateValue(compiled, { input: { o: without, k } }), /no such key/);
    }),
  );
});

test('== is equality of JSON', () => {
  const compiled = compileValue('${[a == b, a != b, a in [b], a == a]}', 'p');
  fc.assert(
    fc.property(json, json, (a, b) => {
      // To JSON, -0 is 0.
      const [left, right] = [a, b].map((value) => JSON.parse(JSON.stringify(value)));
      const same = isDeepStrictEqual(left, right);
      assert.deepEqual(evaluateValue(compiled, { a, b }), [same, !same, same, true]);
    }),
    { numRuns: 500 },
  );
});

test('a value is 64 deep at most', () => {
  const nested = (depth: number): JsonValue => {
    let value: JsonValue = 1;
    for (let i = 0; i < depth; i++) value = i % 2 === 0 ? [value] : { constructor: value };
    return value;
  };
  assert.deepEqual(evaluate('${v}', { v: nested(64) }), nested(64));
  for (const source of ['v', '[v] == [v] ? 1 : 2', '{"a": v}']) {
    assert.throws(() => evaluate(`\${${source}}`, { v: nested(100_000) }), /more than 64 within each other/, source);
  }
});

test('what is given is no alias: neither of the scope nor of the compiled value', () => {
  const scope = { input: { l: [{ a: 1 }] } };
  const compiled = compileValue({ l: '${input.l}', c: [{ b: 1 }] }, 'p');
  const first = evaluateValue(compiled, scope) as { l: JsonObject[]; c: JsonObject[] };
  for (const part of [first.l[0], first.c[0]]) Object.assign(part ?? {}, { changed: true });
  assert.deepEqual(evaluateValue(compiled, scope), { l: [{ a: 1 }], c: [{ b: 1 }] });
});

test('evaluations leave nothing behind, also after one that threw', () => {
  const compiled = compileValue('${l.map(x, cel.bind(y, x.n, y + k)).filter(z, l.exists(x, x.n < z))}', 'p');
  const scopes = [
    { l: [{ n: 1 }, { n: 2 }], k: 1 },
    { l: [{ n: 1 }, { n: 'x' }], k: 1 },
    { l: [{ n: 1 }, {}], k: 1 },
    { l: [], k: 5 },
    { l: [{ n: 0 }] },
  ];
  const outcome = (scope: JsonObject): unknown => {
    try {
      return evaluateValue(compiled, scope);
    } catch (error) {
      return (error as Error).message;
    }
  };
  const fresh = scopes.map(outcome);
  assert.deepEqual(
    fresh.map((value) => typeof value),
    ['object', 'string', 'string', 'object', 'string'],
  );
  fc.assert(
    fc.property(fc.array(fc.nat({ max: scopes.length - 1 })), (order) => {
      for (const index of order) assert.deepEqual(outcome(scopes[index] ?? {}), fresh[index]);
    }),
  );
});

test('a scope is let go of after its evaluation', async () => {
  const compiled = compileValue('${l.map(x, l.exists(y, cel.bind(z, y, z == x)))}', 'p');
  const evaluateOnce = (): WeakRef<object> => {
    const l = [{ big: 1 }];
    evaluateValue(compiled, { l });
    return new WeakRef(l);
  };
  const reference = evaluateOnce();
  const { setFlagsFromString } = await import('node:v8');
  const { runInNewContext } = await import('node:vm');
  setFlagsFromString('--expose-gc');
  await new Promise(setImmediate);
  (runInNewContext('gc') as () => void)();
  assert.equal(reference.deref(), undefined);
});
