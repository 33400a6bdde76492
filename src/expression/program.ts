import {
  asFault,
  type CelNode,
  type ComprehensionNode,
  type Context,
  type Evaluate,
  type Evaluator,
  failAt,
  findEvaluator,
  internals,
  type LoopContext,
  type Macro,
  type NodeOf,
  Optional,
  parse,
} from './cel.ts';
import { quoted, TextFault } from './errors.ts';
import { LIMITS } from './limits.ts';
import { compilePattern, Patterns } from './patterns.ts';
import { isEqual, isMap, keysOf, kindOf, textWeight, valueAt } from './values.ts';

/** An expression that is parsed and checked. Any number of evaluations may use it; none leaves anything behind. */
export interface Program {
  readonly ast: CelNode;
  /** As far as it is known without the scope; `dyn` when it is not. */
  readonly type: string;
  /** @throws TextFault */
  run(scope: Readonly<Record<string, unknown>>): unknown;
}

/** @throws TextFault */
export function createProgram(source: string): Program {
  if (source.trim() === '') throw new TextFault('an expression is expected', 0);
  const bytes = Buffer.byteLength(source);
  if (bytes > LIMITS.sourceBytes) {
    throw new TextFault(`an expression of ${bytes} bytes: at most ${LIMITS.sourceBytes} are allowed`, 0);
  }
  try {
    const { ast, check, evaluate } = parse(source);
    mend(ast);
    const { name } = check();
    return { ast, type: name, run: (scope) => runMetered(() => evaluate(new Map(Object.entries(scope)))) };
  } catch (error) {
    throw asFault(error);
  }
}

/** Of the evaluation that runs: it is synchronous, so there is never a second. */
let stepsLeft = 0;
let patterns = new Patterns(charge);

/** One for all, since each node that is still evaluated throws it again: so it gets through what absorbs errors. */
const COST_EXCEEDED = new TextFault(
  `stopped after ${LIMITS.steps} steps: it goes through more data than one expression may`,
  undefined,
);

function charge(steps: number): void {
  stepsLeft -= steps;
  if (stepsLeft < 0) throw COST_EXCEEDED;
}

function runMetered(evaluate: () => unknown): unknown {
  stepsLeft = LIMITS.steps;
  try {
    return evaluate();
  } catch (error) {
    // A quantifier throws the first error that it met, which may be one of the data.
    throw stepsLeft < 0 ? COST_EXCEEDED : asFault(error);
  } finally {
    patterns = new Patterns(charge);
  }
}

const evaluator = findEvaluator();
const debugType = evaluator.debugType.bind(evaluator);
evaluator.run = (node, context) => {
  charge(1);
  return internals(node).evaluate(evaluator, node, context);
};
// The library tells an object by its `constructor`, which may be a key of the data.
evaluator.debugType = (value) => (isMap(value) ? evaluator.mapType : debugType(value));
// It also makes a type of every shape of data that it meets, and keeps them all.
evaluator.debugTypeDeep = evaluator.debugType;

/** Gives the nodes of a tree our own rules, before it is checked. */
function mend(node: CelNode): void {
  childrenOf(node).forEach(mend);
  const { meta } = internals(node);
  if (meta.alternate?.op === 'comprehension') internals(meta.alternate).setMeta('evaluate', evaluateLoop);
  else if (meta.macro !== undefined) mendMacro(node, meta.macro);
  else mendPlain(node);
}

function mendPlain(node: CelNode): void {
  const inside = internals(node);
  switch (node.op) {
    case 'list':
      // Left to itself the check finds too many overloads for what `[]` and `{}` hold.
      if (node.args.length === 0) inside.setMeta('check', (checker) => checker.listType);
      break;
    case 'map':
      if (node.args.length === 0) inside.setMeta('check', (checker) => checker.mapType);
      inside.setMeta('evaluate', asEvaluate(evaluateMap));
      break;
    case '.':
    case '[]':
      inside.setMeta('evaluate', asEvaluate(evaluateSelect));
      break;
    case '==':
    case '!=':
      inside.setMeta('evaluate', asEvaluate(evaluateEquality));
      break;
    case 'in':
      inside.setMeta('evaluate', asEvaluate(evaluateIn));
      break;
    case '+':
    case '<':
    case '<=':
    case '>':
    case '>=':
      inside.setMeta('evaluate', asEvaluate(evaluateBinary));
      break;
    case 'call':
    case 'rcall':
      checkPattern(node);
      inside.setMeta('evaluate', asEvaluate(evaluateCall));
      break;
  }
}

function mendMacro(node: CelNode, macro: Macro): void {
  const inside = internals(node);
  if (node.op === 'call' && node.args[0] === 'has') inside.setMeta('macro', hasMacro(node));
  // cel.bind; the check may replace its `evaluate`.
  if ('bindCtx' in macro) {
    inside.evaluate = (ev, _node, context) => released(macro.bindCtx, () => macro.evaluate(ev, macro, context));
  }
}

export function childrenOf(node: CelNode): readonly CelNode[] {
  switch (node.op) {
    case 'value':
    case 'id':
      return [];
    case '.':
    case '.?':
      return [node.args[0]];
    case '!_':
    case '-_':
      return [node.args];
    case 'call':
      return node.args[1];
    case 'rcall':
      return [node.args[1], ...node.args[2]];
    case 'map':
      return node.args.flat();
    default:
      return node.args;
  }
}

/** The library calls a node's function with that node. */
function asEvaluate<Node extends CelNode>(evaluate: (node: Node, context: Context) => unknown): Evaluate {
  return (_evaluator, node, context) => evaluate(node as Node, context);
}

function sourceOf(node: CelNode): string {
  return quoted(node.input.slice(node.start, node.end));
}

function evaluateSelect(node: NodeOf<'.' | '[]'>, context: Context): unknown {
  const [operand, field] = node.args;
  const left = evaluator.run(operand, context);
  const key: unknown = typeof field === 'string' ? field : evaluator.run(field, context);
  if (isMap(left)) {
    const value = typeof key === 'string' ? valueAt(left, key) : undefined;
    if (value !== undefined) return value;
    if (typeof key !== 'string')
      throw failAt(node, `${sourceOf(operand)} is a map: its keys are strings, not ${kindOf(key)}`);
    throw failAt(node, `no such key '${quoted(key)}' in ${sourceOf(operand)}${known(keysOf(left))}`);
  }
  if (Array.isArray(left)) {
    const index = typeof key === 'bigint' || typeof key === 'number' ? Number(key) : undefined;
    if (index === undefined)
      throw failAt(node, `${sourceOf(operand)} is a list: its index is an int, not ${kindOf(key)}`);
    if (Number.isInteger(index) && index >= 0 && index < left.length) return left[index];
    throw failAt(node, `no such index ${index} in ${sourceOf(operand)}, which has ${left.length} elements`);
  }
  if (left instanceof Optional) return internals(node).handle(left, key, node, evaluator);
  throw failAt(node, `${sourceOf(operand)} is ${kindOf(left)}, of which nothing can be read`);
}

function known(keys: readonly string[]): string {
  if (keys.length === 0) return ', which is empty';
  const more = keys.length > 10 ? ', …' : '';
  return ` (known: ${keys
    .slice(0, 10)
    .map((key) => quoted(key, 40))
    .join(', ')}${more})`;
}

/** `has(e.f)` of any e; of what is not a map it is false. */
function hasMacro(node: NodeOf<'call'>): Macro {
  const [argument] = node.args[1];
  if (argument === undefined || (argument.op !== '.' && argument.op !== '.?')) {
    throw failAt(argument ?? node, 'has(…) asks for a field: expected for instance has(input.name)');
  }
  const [operand, field] = argument.args;
  return {
    typeCheck(checker, _macro, context) {
      checker.check(operand, context);
      return checker.boolType;
    },
    evaluate(_evaluator, _macro, context) {
      const left = evaluator.run(operand, context);
      const holder = left instanceof Optional ? left.orValue(null) : left;
      return isMap(holder) && valueAt(holder, field) !== undefined;
    },
  };
}

function evaluateMap(node: NodeOf<'map'>, context: Context): unknown {
  const map = new Map<string, unknown>();
  for (const [keyNode, valueNode] of node.args) {
    const key = evaluator.run(keyNode, context);
    if (typeof key !== 'string') throw failAt(keyNode, `the keys of a map are strings, as in JSON, not ${kindOf(key)}`);
    if (map.has(key)) throw failAt(keyNode, `the key '${quoted(key)}' is given twice`);
    map.set(key, evaluator.run(valueNode, context));
  }
  return map;
}

function evaluateEquality(node: NodeOf<'==' | '!='>, context: Context): boolean {
  const [left, right] = node.args;
  return isEqual(evaluator.run(left, context), evaluator.run(right, context), charge) === (node.op === '==');
}

function evaluateIn(node: NodeOf<'in'>, context: Context): boolean {
  const [left, right] = node.args;
  const value = evaluator.run(left, context);
  const holder = evaluator.run(right, context);
  if (Array.isArray(holder)) return holder.some((item) => isEqual(value, item, charge));
  if (isMap(holder)) return typeof value === 'string' && valueAt(holder, value) !== undefined;
  throw failAt(node, `${sourceOf(right)} is ${kindOf(holder)}: 'in' needs a list or a map`);
}

function evaluateBinary(node: NodeOf<'+' | '<' | '<=' | '>' | '>='>, context: Context): unknown {
  const left = evaluator.run(node.args[0], context);
  const right = evaluator.run(node.args[1], context);
  charge(weightOf(left) + weightOf(right));
  return internals(node).handle(left, right, node, evaluator);
}

function evaluateCall(node: NodeOf<'call' | 'rcall'>, context: Context): unknown {
  const values = childrenOf(node).map((child) => evaluator.run(child, context));
  const [first, second] = values;
  const name = node.args[0];
  if (name === 'matches' && typeof first === 'string' && typeof second === 'string') {
    return patterned(node, () => patterns.test(second, first));
  }
  if (name === 'duration' && typeof first === 'string' && first.length > LIMITS.durationLength) {
    throw failAt(node, `"${quoted(first, 20)}" is no duration: expected for instance "1h30m"`);
  }
  if (name === 'join' && Array.isArray(first)) charge(joinWeight(first, second));
  // A list is not gone through by any other function.
  else charge(values.reduce<number>((sum, value) => sum + (Array.isArray(value) ? 0 : weightOf(value)), 0));
  const result =
    node.op === 'call'
      ? internals(node).handle(values, node, evaluator)
      : internals(node).handle(values, evaluator, node);
  if (Array.isArray(result)) charge(result.length);
  return result;
}

/** A pattern that is written out is found wrong when the workflow is applied. */
function checkPattern(node: NodeOf<'call' | 'rcall'>): void {
  const pattern = node.op === 'rcall' && node.args[0] === 'matches' ? node.args[2][0] : undefined;
  if (pattern?.op !== 'value' || typeof pattern.args !== 'string') return;
  const text = pattern.args;
  patterned(pattern, () => compilePattern(text));
}

function patterned<T>(node: CelNode, use: () => T): T {
  try {
    return use();
  } catch (error) {
    throw error instanceof RangeError ? failAt(node, error.message) : error;
  }
}

function weightOf(value: unknown): number {
  if (typeof value === 'string' || value instanceof Uint8Array) return textWeight(value.length);
  if (Array.isArray(value)) return value.length;
  return isMap(value) ? keysOf(value).length : 0;
}

function joinWeight(list: readonly unknown[], separator: unknown): number {
  const length = typeof separator === 'string' ? separator.length : 0;
  return list.reduce<number>(
    (sum, item) => sum + 1 + textWeight((typeof item === 'string' ? item.length : 0) + length),
    0,
  );
}

/** `all`, `exists`, `map`, `filter`: pays for the whole list at once, since a quantifier goes on after an error. */
function evaluateLoop(_evaluator: Evaluator, node: CelNode | ComprehensionNode, context: Context): unknown {
  const { args } = node as ComprehensionNode;
  const range = evaluator.run(args.iterable, context);
  const items = isMap(range) ? keysOf(range) : range;
  charge(weightOf(items));
  return released(args.iterCtx, () => internals(node).handle(items, args, evaluator, context));
}

function released(loop: LoopContext | undefined, evaluate: () => unknown): unknown {
  try {
    return evaluate();
  } finally {
    loop?.reuse(undefined);
    if (loop !== undefined) Object.assign(loop, { iterValue: undefined, accuValue: undefined });
  }
}
