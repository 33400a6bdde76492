import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { compileCondition, compileExpression, compileValue } from '../../src/expression/compile.ts';
import { ExpressionError, type ExpressionFault } from '../../src/expression/errors.ts';
import { evaluateValue } from '../../src/expression/evaluate.ts';
import { references } from '../../src/expression/references.ts';
import type { JsonValue } from '../../src/lib/json.ts';
import { celSource, json } from './arbitraries.ts';

function faultsOf(compile: () => unknown): readonly ExpressionFault[] {
  try {
    compile();
  } catch (error) {
    assert.ok(error instanceof ExpressionError, String(error));
    return error.faults;
  }
  assert.fail('it compiled');
}

test('every fault of a value is reported, with its path and column', () => {
  const args = {
    text: 'a ${1 +} b ${(2}',
    list: ['fine', { 'my key': '${' }],
    deep: { n: '${"a" + 1}', ok: '${input.n}' },
  };
  assert.deepEqual(
    faultsOf(() => compileValue(args, 'spec.steps[2].args')),
    [
      { path: 'spec.steps[2].args.text', column: 8, message: 'unexpected: the end' },
      { path: 'spec.steps[2].args.text', column: 16, message: 'expected ), got the end' },
      {
        path: 'spec.steps[2].args.list[1]["my key"]',
        column: 1,
        message: '"${" is not closed: expected a } (write $${ for a literal ${)',
      },
      {
        path: 'spec.steps[2].args.deep.n',
        column: 3,
        message: 'no such overload: string + int (string(…) makes a string of it)',
      },
    ],
  );
});

test('the message of the error says path and column, for whoever only sees that', () => {
  assert.throws(() => compileValue('${1 +}', 'spec.output'), { message: 'spec.output, column 6: unexpected: the end' });
  assert.throws(() => compileExpression('1 +'), { message: 'column 4: unexpected: the end' });
});

const REFUSED: readonly [source: string, column: number, message: RegExp][] = [
  ['', 1, /an expression is expected/],
  ['  \n', 1, /an expression is expected/],
  ['input.', 7, /expected a name, got the end/],
  ['input.a b', 9, /unexpected character/],
  ['1 == "a"', 1, /no such overload: int == string/],
  ['input.a ? 1 : "b"', 1, /branches must have the same type/],
  ['nothing(1)', 1, /no matching overload for 'nothing\(int\)'/],
  ['has(input)', 5, /has\(input.name\)/],
  ['input.a.matches("(")', 17, /not a regular expression \(RE2\)/],
  ['input.a.matches("(?=a)")', 17, /not a regular expression \(RE2\)/],
  [`input.a.matches("${'a'.repeat(513)}")`, 17, /a pattern of 513 characters/],
  ['"a" && true', 1, /bool operands/],
  ['package', 1, /reserved identifier/],
  [`"${'é'.repeat(2048)}"`, 1, /4098 bytes: at most 4096/],
  [`${'('.repeat(50)}1${')'.repeat(50)}`, 49, /nested more than 48 deep/],
  [`[${'1,'.repeat(1001)}]`, 2002, /more than 1000 elements/],
  [`${'1+'.repeat(1500)}1`, 1, /more than 2000 parts/],
  [`${'!'.repeat(4000)}true`, 2001, /more than 2000 parts/],
];

for (const [source, column, message] of REFUSED) {
  test(`does not compile: ${source.slice(0, 40)}`, () => {
    const [fault, ...more] = faultsOf(() => compileExpression(source, 'p'));
    assert.deepEqual(more, []);
    assert.match(fault?.message ?? '', message);
    assert.deepEqual({ path: fault?.path, column: fault?.column }, { path: 'p', column });
  });
}

test('a condition is bare CEL or one ${…}', () => {
  for (const text of ['input.a', '${input.a}', '${input.a}\n', ' ${input.a} ', 'input.a\n']) {
    assert.match(compileCondition(text, 'spec.steps[0].if').source, /^input\.a\n?$/);
  }
  assert.equal(compileCondition('input.a == "${"', 'p').source, 'input.a == "${"');
  assert.equal(compileCondition('  ${ true }', 'p').offset, 4);
});

test('a condition that cannot be a bool is refused, and so is one of several parts', () => {
  assert.deepEqual(
    faultsOf(() => compileCondition('${"yes"}', 'p')),
    [{ path: 'p', column: 3, message: 'a condition is a bool, but this is of type string' }],
  );
  const [fault] = faultsOf(() => compileCondition(' ${input.a} && ${input.b}', 'p'));
  assert.equal(fault?.column, 2);
  assert.match(fault.message, /one expression/);
  assert.equal(faultsOf(() => compileCondition('  ${input.', 'p'))[0]?.column, 3);
});

test('what holds no expression is one constant', () => {
  const value = { a: [1, 'x $${y}', null], b: { c: true } };
  assert.equal(compileValue({ ...value, a: [1, 'x', null] }, 'p').kind, 'constant');
  assert.deepEqual(evaluateValue(compileValue(value, 'p'), {}), { a: [1, 'x ${y}', null], b: { c: true } });
});

test('a spec nested too deeply is a fault, not a crash', () => {
  let deep: JsonValue = '${1}';
  for (let depth = 0; depth < 5000; depth++) deep = [deep];
  assert.match(faultsOf(() => compileValue(deep, 'p'))[0]?.message ?? '', /more than 64 within each other/);
});

const READ: readonly [source: string, keys: string[]][] = [
  ['1 + 2', []],
  ['input', ['input']],
  ['results.build.image.id + input.a', ['results.build.image.id', 'input.a']],
  ['results["build"].x', ['results.build.x']],
  ['results.?build.?x.orValue("y")', ['results.build.x']],
  ['results.a[0].b', ['results.a']],
  ['results[input.name].b', ['input.name', 'results']],
  ['results.l[results.i.n].z', ['results.i.n', 'results.l']],
  ['has(results.a.b)', ['results.a.b']],
  ['size(results) > 0', ['results']],
  ['"a" in results', ['results']],
  ['input.l.map(x, x.a + steps.b.phase)', ['input.l', 'steps.b.phase']],
  ['input.l.filter(input, input.a > 1)', ['input.l']],
  ['input.l.exists(x, results.m.all(y, x == y && z))', ['input.l', 'results.m', 'z']],
  ['input.l.map(x, x.ok, x.a).size() + x', ['input.l', 'x']],
  ['cel.bind(v, v.a, v + w)', ['v.a', 'w']],
  ['{"a": results.a, input.k: [steps.b.content]}', ['results.a', 'input.k', 'steps.b.content']],
  ['type(input.a) == int || input.b == string(1)', ['input.a', 'input.b']],
  ['-input.a < 1 && !input.b ? input.c : input.d', ['input.a', 'input.b', 'input.c', 'input.d']],
  ['(input.a + input.b).c', ['input.a', 'input.b']],
];

for (const [source, keys] of READ) {
  test(`reads of ${source}`, () => {
    assert.deepEqual(
      references(compileExpression(source)).map((reference) => reference.keys.join('.')),
      keys,
    );
  });
}

test('references of a value know where they stand', () => {
  const compiled = compileValue({ a: 'x ${input.b} ${ results.c }', l: ['${steps.d.phase}', 'no'] }, 'spec.args');
  assert.deepEqual(references(compiled), [
    { path: 'spec.args.a', column: 5, keys: ['input', 'b'] },
    { path: 'spec.args.a', column: 17, keys: ['results', 'c'] },
    { path: 'spec.args.l[0]', column: 3, keys: ['steps', 'd', 'phase'] },
  ]);
});

test('any source and any data: a value or an ExpressionError, nothing else, and the same again', () => {
  const outcome = (act: () => unknown): unknown => {
    try {
      return act();
    } catch (error) {
      assert.ok(error instanceof ExpressionError, String((error as Error).stack));
      const [fault] = error.faults;
      assert.ok(fault !== undefined);
      assert.doesNotMatch(fault.message, /cannot be evaluated|overlaps|Convoke|\bdyn</);
      return fault;
    }
  };
  fc.assert(
    fc.property(celSource, json, (source, value) => {
      const compiled = outcome(() => compileValue(`\${${source}}`, 'p'));
      if (compiled === null || typeof compiled !== 'object' || !('kind' in compiled)) return;
      const run = (): unknown =>
        outcome(() => evaluateValue(compiled as never, { input: { a: value }, x: value, y: 1, b: {} }));
      assert.deepEqual(run(), run());
    }),
    { numRuns: 1000 },
  );
});

test('one file knows the CEL library', () => {
  const importers = globSync('src/**/*.ts').filter((file) =>
    readFileSync(file, 'utf8').includes('@marcbachmann/cel-js'),
  );
  assert.deepEqual(importers, ['src/expression/cel.ts']);
});
