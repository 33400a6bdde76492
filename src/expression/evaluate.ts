import type { JsonObject, JsonValue } from '../lib/json.ts';
import { Optional } from './cel.ts';
import { type CompiledCondition, type CompiledValue, type Expression, located } from './compile.ts';
import { TextFault } from './errors.ts';
import { kindOf, Output } from './values.ts';

/** The variables by name, plain JSON: `{ input, results, steps, execution }`. Only read. */
export type Scope = Readonly<JsonObject>;

/**
 * The JSON that `compiled` has in this scope, never an alias of the scope. What an expression gives is not looked through for
 * expressions again, whatever is in it. A key whose `${…}` gives an optional that is absent is left out.
 * @throws ExpressionError with the path of the text whose value cannot be had
 */
export function evaluateValue(compiled: CompiledValue, scope: Scope): JsonValue {
  return jsonOf(compiled, scope, new Output());
}

/** @throws ExpressionError; also when the value is not a bool, since nothing else is taken for one */
export function evaluateCondition(condition: CompiledCondition, scope: Scope): boolean {
  return at(condition, () => {
    const value = condition.program.run(scope);
    if (typeof value === 'boolean') return value;
    throw new TextFault(`a condition is a bool, but this is ${kindOf(value)}`, undefined);
  });
}

function jsonOf(compiled: CompiledValue, scope: Scope, output: Output): JsonValue {
  switch (compiled.kind) {
    case 'constant':
      return structuredClone(compiled.value);
    case 'expression':
      return at(compiled, () => output.json(compiled.program.run(scope)));
    case 'text':
      return compiled.parts.map((part) => (typeof part === 'string' ? part : textOf(part, scope, output))).join('');
    case 'list':
      return compiled.items.map((item) => jsonOf(item, scope, output));
    case 'object':
      return Object.fromEntries(compiled.entries.flatMap(([key, value]) => entryOf(key, value, scope, output)));
  }
}

function textOf(expression: Expression, scope: Scope, output: Output): string {
  return at(expression, () => output.text(expression.program.run(scope)));
}

function entryOf(key: string, compiled: CompiledValue, scope: Scope, output: Output): [] | [[string, JsonValue]] {
  if (compiled.kind !== 'expression') return [[key, jsonOf(compiled, scope, output)]];
  return at(compiled, () => {
    const value = compiled.program.run(scope);
    return value instanceof Optional && !value.hasValue() ? [] : [[key, output.json(value)]];
  });
}

function at<T>({ path, offset }: Expression, evaluate: () => T): T {
  try {
    return evaluate();
  } catch (error) {
    throw located(error, path, offset);
  }
}
