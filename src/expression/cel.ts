import { type ASTNode, Environment, EvaluationError, Optional, type ParseError } from '@marcbachmann/cel-js';
import { Duration, UnsignedInt } from '@marcbachmann/cel-js/evaluator';
import { quoted, TextFault } from './errors.ts';
import { LIMITS } from './limits.ts';

/** The one file that knows the CEL library, and what of its inside we use. `program.ts` mends what it does not do. */

export { Duration, Optional, UnsignedInt };

export type CelNode = ASTNode;
export type NodeOf<Op extends CelNode['op']> = Extract<CelNode, { readonly op: Op }>;

/** The variables of an evaluation; opaque to us. */
export type Context = { readonly context: never };
export type Evaluate = (evaluator: Evaluator, node: CelNode, context: Context) => unknown;

/** Opaque, but for what `check` says of the whole. */
export type CelType = { readonly name: string };

/** What the library's own types leave out of a node. */
export interface NodeInternals {
  readonly meta: { readonly alternate?: CelNode | ComprehensionNode; readonly macro?: Macro };
  setMeta(key: 'evaluate', value: Evaluate): this;
  setMeta(key: 'check', value: (checker: Checker, node: CelNode, context: Context) => CelType): this;
  setMeta(key: 'macro', value: Macro): this;
  evaluate: Evaluate;
  /** Set by the check: applies the operator to its operands, or the function to its arguments. */
  readonly handle: (...operands: unknown[]) => unknown;
}

/** The variable of a macro and what it runs in. It would keep the last scope alive. */
export interface LoopContext {
  reuse(parent: undefined): unknown;
  iterValue: unknown;
  accuValue: unknown;
}

/** What `all`, `exists`, `map` and `filter` are written out to. Not in the library's own types. */
export interface ComprehensionNode {
  readonly op: 'comprehension';
  readonly args: { readonly iterable: CelNode; readonly iterVarName: string; readonly iterCtx: LoopContext };
}

export interface Macro {
  readonly bindCtx?: LoopContext;
  typeCheck(checker: Checker, macro: Macro, context: Context): CelType;
  evaluate(evaluator: Evaluator, macro: Macro, context: Context): unknown;
}

export interface Checker {
  readonly boolType: CelType;
  readonly listType: CelType;
  readonly mapType: CelType;
  check(node: CelNode, context: Context): CelType;
}

export interface Evaluator {
  readonly mapType: CelType;
  run(node: CelNode, context: Context): unknown;
  debugType(value: unknown): CelType;
  debugTypeDeep(value: unknown): CelType;
}

export function internals(node: CelNode | ComprehensionNode): NodeInternals {
  return node as unknown as NodeInternals;
}

const environment = new Environment({
  unlistedVariablesAreDyn: true,
  // Lists and maps become JSON, which may mix.
  homogeneousAggregateLiterals: false,
  enableOptionalTypes: true,
  limits: {
    maxDepth: LIMITS.depth,
    maxAstNodes: LIMITS.nodes,
    maxListElements: LIMITS.elements,
    maxMapEntries: LIMITS.elements,
  },
});

const ARITHMETIC: Readonly<Record<string, (a: number, b: number) => number>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '%': (a, b) => a % b,
};

// A number from JSON is a double, a number that is written out mostly an int: `input.n + 1` must work.
for (const [operator, apply] of Object.entries(ARITHMETIC)) {
  const mixed = (a: number | bigint, b: number | bigint): number => apply(Number(a), Number(b));
  environment.registerOperator(`int ${operator} double: double`, mixed);
  environment.registerOperator(`double ${operator} int: double`, mixed);
}
environment.registerOperator('double % double: double', (a: number, b: number) => a % b);
// For the check; equality is evaluated by our own rule.
for (const types of ['int == double', 'optional<V> == optional<V>']) {
  environment.registerOperator(`${types}: bool`, (a: unknown, b: unknown) => a === b);
}
environment.registerFunction('string(google.protobuf.Timestamp): string', timestampText);
environment.registerFunction('string(google.protobuf.Duration): string', durationText);

/** RFC 3339, without a fraction that is zero. */
export function timestampText(timestamp: Date): string {
  return timestamp.toISOString().replace('.000Z', 'Z');
}

/** Seconds with their fraction, `-1.5s`, as protobuf writes it in JSON. */
export function durationText({ seconds, nanos }: Duration): string {
  const total = seconds * 1_000_000_000n + BigInt(nanos);
  const size = total < 0n ? -total : total;
  const fraction = String(size % 1_000_000_000n)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return `${total < 0n ? '-' : ''}${size / 1_000_000_000n}${fraction === '' ? '' : `.${fraction}`}s`;
}

/** @throws what `asFault` reads */
export function parse(source: string): {
  ast: CelNode;
  check: () => CelType;
  evaluate: (scope: Map<string, unknown>) => unknown;
} {
  const parsed = environment.parse(source);
  return {
    ast: parsed.ast,
    check() {
      const { error, type } = parsed.check();
      if (error !== undefined) throw error;
      return { name: type ?? 'dyn' };
    },
    evaluate: parsed,
  };
}

/** The library shows its evaluator to nodes only; there is one for all expressions. */
export function findEvaluator(): Evaluator {
  const { ast, evaluate } = parse('true');
  internals(ast).setMeta('evaluate', (evaluator) => evaluator);
  return evaluate(new Map()) as Evaluator;
}

/** An error that `||`, `&&` and quantifiers absorb, as CEL's own. */
export function failAt(node: CelNode, message: string): Error {
  return new EvaluationError({ code: 'convoke', message, node });
}

/** Whatever parsing, checking and evaluating throw. */
export function asFault(thrown: unknown): TextFault {
  if (thrown instanceof TextFault) return thrown;
  if (thrown instanceof Error && 'summary' in thrown && 'range' in thrown) {
    const { summary, range } = thrown as ParseError;
    return new TextFault(reworded(summary), range?.start, { cause: thrown });
  }
  // V8's own: a stack or a text that grows too long, a time zone that is none.
  if (thrown instanceof RangeError) return new TextFault(quoted(thrown.message, 200), undefined, { cause: thrown });
  return new TextFault('it cannot be evaluated', undefined, { cause: thrown });
}

const TOKENS: Readonly<Record<string, string>> = {
  EOF: 'the end',
  LPAREN: '(',
  RPAREN: ')',
  LBRACKET: '[',
  RBRACKET: ']',
  LBRACE: '{',
  RBRACE: '}',
  IDENTIFIER: 'a name',
  DOT: '.',
  COMMA: ',',
  COLON: ':',
  QUESTION: '?',
};

const BOUNDS: Readonly<Record<string, string>> = {
  maxDepth: `it is nested more than ${LIMITS.depth} deep`,
  maxAstNodes: `it has more than ${LIMITS.nodes} parts`,
  maxListElements: `a list has more than ${LIMITS.elements} elements`,
  maxMapEntries: `a map has more than ${LIMITS.elements} entries`,
  maxCallArguments: 'a call has more than 32 arguments',
};

/** The library's messages name its tokens, its options and its wrapped types. */
function reworded(summary: string): string {
  const token = (name: string): string => TOKENS[name] ?? name.toLowerCase();
  const bound = BOUNDS[/^Exceeded (\w+)/.exec(summary)?.[1] ?? ''];
  if (bound !== undefined) return bound;
  const text = summary
    .replace(
      /^Expected ([A-Z]+), got ([A-Z]+)$/,
      (_, expected, got) => `expected ${token(expected)}, got ${token(got)}`,
    )
    .replace(/^Unexpected token: ([A-Z]+)$/, (_, got) => `unexpected: ${token(got)}`)
    .replace(/\bdyn<((?:[^<>]|<[^<>]*>)*)>/g, '$1')
    .replace(/\b(list|map)<dyn(?:, dyn)?>/g, '$1');
  return quoted(text.charAt(0).toLowerCase() + text.slice(1), 300) + hint(text);
}

function hint(text: string): string {
  if (/^found no matching overload .*\bdouble\b/.test(text))
    return ' (a number from JSON is a double; int(…) makes it an int)';
  if (/^no such overload: (string \+|.* \+ string$)/.test(text)) return ' (string(…) makes a string of it)';
  return '';
}
