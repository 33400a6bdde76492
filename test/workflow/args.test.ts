import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { ArgSpec, ArgType } from '../../src/api/workflow.ts';
import type { JsonValue } from '../../src/lib/json.ts';
import { checkArgs, createArgs } from '../../src/workflow/args.ts';

const SAMPLES: Record<string, JsonValue> = {
  null: null,
  boolean: true,
  string: '3',
  integer: 3,
  'integer written 3.0': JSON.parse('3.0'),
  number: 3.5,
  array: [],
  object: {},
};

const FITS: Record<ArgType, string[]> = {
  string: ['string'],
  integer: ['integer', 'integer written 3.0'],
  number: ['integer', 'integer written 3.0', 'number'],
  boolean: ['boolean'],
  array: ['array'],
  object: ['object'],
};

describe('arguments of a call', () => {
  for (const [type, fitting] of Object.entries(FITS)) {
    for (const [kind, value] of Object.entries(SAMPLES)) {
      it(`field case 80 (G): ${kind} given where ${type} is declared is ${fitting.includes(kind) ? 'taken' : 'refused'}`, () => {
        const parsed = createArgs({ x: { type: type as ArgType } }).parse({ x: value });
        if (fitting.includes(kind)) assert.deepEqual(parsed, { ok: true, args: { x: value } });
        else assert.match(parsed.ok ? 'taken' : parsed.faults.join(), new RegExp(`^x: must be ${type}, but is `));
      });
    }
  }

  const bounded: [ArgSpec, JsonValue, string | undefined][] = [
    [{ type: 'integer', minimum: 1, maximum: 50 }, 1, undefined],
    [{ type: 'integer', minimum: 1, maximum: 50 }, 50, undefined],
    [{ type: 'integer', minimum: 1, maximum: 50 }, 0, 'x: must be >= 1'],
    [{ type: 'number', maximum: 0.5 }, 0.6, 'x: must be <= 0.5'],
    [{ type: 'number' }, JSON.parse('1e999'), 'x: must be number, but is too large a number'],
    [{ type: 'string', minLength: 2 }, 'a', 'x: must NOT have fewer than 2 characters'],
    [{ type: 'string', maxLength: 1 }, '🏴', undefined],
    [{ type: 'string', maxLength: 1 }, 'ab', 'x: must NOT have more than 1 characters'],
    [{ type: 'string', enum: ['a', 'b'] }, 'c', 'x: must be one of "a", "b"'],
    [{ type: 'object', enum: [{ a: [1] }] }, { a: [1] }, undefined],
  ];
  for (const [spec, value, fault] of bounded) {
    it(`${JSON.stringify(value)} for ${JSON.stringify(spec)}: ${fault ?? 'taken'}`, () => {
      const parsed = createArgs({ x: spec }).parse({ x: value });
      assert.deepEqual(parsed, fault === undefined ? { ok: true, args: { x: value } } : { ok: false, faults: [fault] });
    });
  }

  it('names every fault, each with its path', () => {
    const args = createArgs({ app: { type: 'string', required: true }, replicas: { type: 'integer' } });
    assert.deepEqual(args.parse({ replicas: '3', replica: 1, other: 2 }), {
      ok: false,
      faults: [
        'app: is required',
        "replica: is not an argument (did you mean 'replicas'?)",
        'other: is not an argument (known: app, replicas)',
        'replicas: must be integer, but is string',
      ],
    });
  });

  it('field case 49 (D): an absent argument takes its default, also false, 0 and "", and a given one does not', () => {
    const args = createArgs({
      flag: { type: 'boolean', default: false },
      count: { type: 'integer', default: 0 },
      text: { type: 'string', default: '' },
      nested: { type: 'object', default: { a: { b: [1] } } },
      none: { type: 'string' },
    });
    const defaults = { flag: false, count: 0, text: '', nested: { a: { b: [1] } } };
    assert.deepEqual(args.parse({}), { ok: true, args: defaults });
    assert.deepEqual(args.parse({ flag: true, nested: {} }), {
      ok: true,
      args: { ...defaults, flag: true, nested: {} },
    });
  });

  it('field case 38 (B): null is no text, and the text "null" is one', () => {
    const args = createArgs({ x: { type: 'string', default: 'd' } });
    assert.deepEqual(args.parse({ x: 'null' }), { ok: true, args: { x: 'null' } });
    assert.equal(args.parse({ x: null }).ok, false);
  });

  it('names of Object.prototype are ordinary: absent when they are not given, refused when they are not declared', () => {
    const spec: ArgSpec = { type: 'string', required: true };
    const args = createArgs(Object.fromEntries([['toString', spec]]));
    assert.deepEqual(args.parse({}), { ok: false, faults: ['toString: is required'] });
    assert.equal(args.parse({ toString: 'x', constructor: 1 }).ok, false);
    assert.equal(args.parse(JSON.parse('{"toString":"x","__proto__":{}}')).ok, false);
  });

  it('parsing what was parsed changes nothing, and the given object stays as it was', () => {
    const args = createArgs({ a: { type: 'integer', default: 1 }, b: { type: 'string' } });
    fc.assert(
      fc.property(
        fc.record({ a: fc.integer(), b: fc.string() }, { requiredKeys: [], noNullPrototype: true }),
        (given) => {
          const before = structuredClone(given);
          const once = args.parse(given);
          assert.ok(once.ok);
          assert.deepEqual(args.parse(once.args), once);
          assert.deepEqual(given, before);
        },
      ),
    );
  });
});

describe('inputSchema', () => {
  it('field case 69 (G): a workflow without arguments has a schema all the same', () => {
    const expected = { type: 'object', properties: {}, additionalProperties: false };
    assert.deepEqual(createArgs(undefined).inputSchema, expected);
    assert.deepEqual(createArgs({}).inputSchema, expected);
  });

  it('says of each argument what its spec says, and which are required', () => {
    const { inputSchema } = createArgs({
      app: { type: 'string', required: true, description: 'Name' },
      replicas: { type: 'integer', default: 3, minimum: 1, maximum: 50 },
    });
    assert.deepEqual(inputSchema, {
      type: 'object',
      properties: {
        app: { type: 'string', description: 'Name' },
        replicas: { type: 'integer', default: 3, minimum: 1, maximum: 50 },
      },
      required: ['app'],
      additionalProperties: false,
    });
  });
});

describe('faults of spec.args', () => {
  const cases: [string, Record<string, ArgSpec>, [string, RegExp][]][] = [
    ['none', { a: { type: 'integer', default: 3, minimum: 3, maximum: 3 }, 'b-c': { type: 'object' } }, []],
    [
      'a default of another type',
      { a: { type: 'integer', default: '3' } },
      [['spec.args.a.default', /must be integer, but is string/]],
    ],
    ['a default of null', { a: { type: 'string', default: null } }, [['spec.args.a.default', /but is null/]]],
    [
      'a default out of bounds',
      { a: { type: 'integer', default: 9, maximum: 5 } },
      [['spec.args.a.default', /must be <= 5/]],
    ],
    [
      'a default that is no choice',
      { a: { type: 'string', default: 'c', enum: ['a'] } },
      [['spec.args.a.default', /must be one of "a"/]],
    ],
    [
      'required with a default',
      { a: { type: 'string', default: 'x', required: true } },
      [['spec.args.a.default', /never taken/]],
    ],
    [
      'bounds the wrong way',
      { a: { type: 'number', minimum: 2, maximum: 1 } },
      [['spec.args.a.minimum', /2 is greater than maximum 1/]],
    ],
    [
      'lengths the wrong way',
      { a: { type: 'string', minLength: 2, maxLength: 1 } },
      [['spec.args.a.minLength', /greater/]],
    ],
    [
      'a bound of a text',
      { a: { type: 'string', minimum: 2 } },
      [['spec.args.a.minimum', /integer or number, not to string/]],
    ],
    [
      'a length of a number',
      { a: { type: 'number', maxLength: 2 } },
      [['spec.args.a.maxLength', /string, not to number/]],
    ],
    [
      'a choice of another type',
      { a: { type: 'string', enum: ['a', 1] } },
      [['spec.args.a.enum[1]', /must be string/]],
    ],
    ['a name that no expression can read', { '1a': { type: 'string' } }, [['spec.args.1a', /cannot name an argument/]]],
    ['__proto__', JSON.parse('{"__proto__":{"type":"string"}}'), [['spec.args.__proto__', /cannot name an argument/]]],
    [
      'several at once',
      { a: { type: 'integer', default: '3' }, b: { type: 'string', minimum: 1 } },
      [
        ['spec.args.a.default', /integer/],
        ['spec.args.b.minimum', /belongs/],
      ],
    ],
  ];
  for (const [title, specs, expected] of cases) {
    it(title, () => {
      const checks = checkArgs(specs);
      assert.deepEqual(
        checks.map(({ path }) => path),
        expected.map(([path]) => path),
      );
      for (const [index, [, message]] of expected.entries()) assert.match(checks[index]?.message ?? '', message);
    });
  }
});
