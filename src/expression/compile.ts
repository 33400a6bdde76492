import type { JsonValue } from '../lib/json.ts';
import { ExpressionError, type ExpressionFault, TextFault } from './errors.ts';
import { LIMITS } from './limits.ts';
import { createProgram, type Program } from './program.ts';
import { scanTemplate, type Template } from './scan.ts';

/** One expression, ready to be evaluated. Immutable; any number of runs may share it. */
export interface Expression {
  readonly kind: 'expression';
  readonly source: string;
  /** Of the text that it stands in. */
  readonly path: string;
  /** Of `source` in that text, in UTF-16 units. */
  readonly offset: number;
  readonly program: Program;
}

interface Constant {
  readonly kind: 'constant';
  readonly value: JsonValue;
}

/** JSON whose texts hold expressions. What holds none is one constant. */
export type CompiledValue =
  | Constant
  | Expression
  | { readonly kind: 'text'; readonly parts: readonly (string | Expression)[] }
  | { readonly kind: 'list'; readonly items: readonly CompiledValue[] }
  | { readonly kind: 'object'; readonly entries: readonly (readonly [string, CompiledValue])[] };

/** An expression that is not known to give anything but a bool. */
export type CompiledCondition = Expression;

/** @param offset of `source` in the text at `path`. @throws ExpressionError */
export function compileExpression(source: string, path = '', offset = 0): Expression {
  try {
    return { kind: 'expression', source, path, offset, program: createProgram(source) };
  } catch (error) {
    throw located(error, path, offset);
  }
}

/** @param path of `json` in its document, for instance `spec.steps[2].args`. @throws ExpressionError with every fault */
export function compileValue(json: JsonValue, path: string): CompiledValue {
  const { compiled, faults } = compileParts(json, path);
  if (faults.length > 0) throw new ExpressionError(faults);
  return compiled;
}

/** As `compileValue`, for a checker: what is without fault is compiled whatever stands beside it. */
export function compileParts(json: JsonValue, path: string): { compiled: CompiledValue; faults: ExpressionFault[] } {
  const faults: ExpressionFault[] = [];
  return { compiled: compileJson(json, path, 0, faults), faults };
}

/** A condition is one expression, with or without `${…}` around it. @throws ExpressionError */
export function compileCondition(text: string, path: string): CompiledCondition {
  const expression = text.trimStart().startsWith('${') ? compileWhole(text, path) : compileExpression(text, path);
  const { type } = expression.program;
  if (type === 'bool' || type === 'dyn') return expression;
  throw new ExpressionError([
    { path, column: expression.offset + 1, message: `a condition is a bool, but this is of type ${type}` },
  ]);
}

function compileWhole(text: string, path: string): Expression {
  const blank = text.length - text.trimStart().length;
  const { parts, isWhole } = scan(text.trim(), path, blank);
  const [part] = parts;
  if (isWhole && part?.kind === 'expression') return compileExpression(part.source, path, blank + part.offset);
  throw new ExpressionError([
    { path, column: blank + 1, message: 'a condition is one expression: put all of it into one ${…}, or none' },
  ]);
}

function compileJson(json: JsonValue, path: string, depth: number, faults: ExpressionFault[]): CompiledValue {
  if (typeof json === 'string') return compileText(json, path, faults);
  if (typeof json !== 'object' || json === null) return { kind: 'constant', value: json };
  if (depth >= LIMITS.valueDepth) {
    faults.push({ path, message: `lists and maps are more than ${LIMITS.valueDepth} within each other` });
    return { kind: 'constant', value: null };
  }
  if (Array.isArray(json)) {
    const items = json.map((item, index) => compileJson(item, `${path}[${index}]`, depth + 1, faults));
    return items.every(isConstant)
      ? { kind: 'constant', value: items.map(({ value }) => value) }
      : { kind: 'list', items };
  }
  const entries = Object.entries(json).map(
    ([key, value]) => [key, compileJson(value, keyPath(path, key), depth + 1, faults)] as const,
  );
  const constants = entries.flatMap(([key, value]) => (isConstant(value) ? [[key, value.value] as const] : []));
  return constants.length === entries.length
    ? { kind: 'constant', value: Object.fromEntries(constants) }
    : { kind: 'object', entries };
}

function compileText(text: string, path: string, faults: ExpressionFault[]): CompiledValue {
  const attempt = <T>(compile: () => T): T | undefined => {
    try {
      return compile();
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      faults.push(...error.faults);
      return undefined;
    }
  };
  const template = attempt(() => scan(text, path, 0));
  const parts = (template?.parts ?? []).map((part) =>
    part.kind === 'literal' ? part.text : (attempt(() => compileExpression(part.source, path, part.offset)) ?? ''),
  );
  const [only = ''] = parts;
  if (template?.isWhole === true && typeof only !== 'string') return only;
  return parts.every((part) => typeof part === 'string')
    ? { kind: 'constant', value: parts.join('') }
    : { kind: 'text', parts };
}

function scan(text: string, path: string, offset: number): Template {
  try {
    return scanTemplate(text);
  } catch (error) {
    throw located(error, path, offset);
  }
}

/** The fault of one text, at its place in the document. */
export function located(error: unknown, path: string, offset: number): unknown {
  if (!(error instanceof TextFault)) return error;
  const column = offset + (error.offset ?? 0) + 1;
  return new ExpressionError([{ path, column, message: error.message }], { cause: error });
}

function isConstant(value: CompiledValue): value is Constant {
  return value.kind === 'constant';
}

function keyPath(path: string, key: string): string {
  return /^[a-zA-Z_$][\w$-]*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}
