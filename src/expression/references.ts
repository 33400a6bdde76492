import { type CelNode, type ComprehensionNode, internals } from './cel.ts';
import type { CompiledCondition, CompiledValue, Expression } from './compile.ts';
import { childrenOf } from './program.ts';

/** One mention of a variable. */
export interface Reference {
  readonly path: string;
  /** 1-based, in the text at `path`. */
  readonly column: number;
  /** The variable and the keys that are read of it, as far as they are written out: `results["a"].b[0].c` is `[results, a, b]`. */
  readonly keys: readonly string[];
}

/** Every mention of a variable of the scope, in order; what an expression names itself (`x` of `l.map(x, x.a)`) is none. */
export function references(compiled: Expression | CompiledValue | CompiledCondition): readonly Reference[] {
  switch (compiled.kind) {
    case 'constant':
      return [];
    case 'expression': {
      const { path, offset, program } = compiled;
      const found: Found[] = [];
      collect(program.ast, new Set(), found);
      return found.map(({ keys, at }) => ({ path, column: offset + at + 1, keys }));
    }
    case 'text':
      return compiled.parts.flatMap((part) => (typeof part === 'string' ? [] : references(part)));
    case 'list':
      return compiled.items.flatMap(references);
    case 'object':
      return compiled.entries.flatMap(([, value]) => references(value));
  }
}

interface Found {
  readonly keys: readonly string[];
  readonly at: number;
}

function collect(node: CelNode, own: ReadonlySet<string>, found: Found[]): void {
  const keys: string[] = [];
  let base = node;
  while (base.op === '.' || base.op === '.?' || base.op === '[]' || base.op === '[?]') {
    const key = writtenKey(base.args[1]);
    if (key === undefined) keys.length = 0;
    else keys.unshift(key);
    if (key === undefined && typeof base.args[1] !== 'string') collect(base.args[1], own, found);
    base = base.args[0];
  }
  if (base.op === 'id') {
    // The check has put the value in the place of a name of the language, as `int` is one.
    const isConstant = internals(base).meta.alternate !== undefined;
    if (!own.has(base.args) && !isConstant) found.push({ keys: [base.args, ...keys], at: base.start });
    return;
  }
  collectInside(base, own, found);
}

function writtenKey(key: CelNode | string): string | undefined {
  if (typeof key === 'string') return key;
  return key.op === 'value' && typeof key.args === 'string' ? key.args : undefined;
}

function collectInside(node: CelNode, own: ReadonlySet<string>, found: Found[]): void {
  const name = node.op === 'rcall' ? ownName(node) : undefined;
  if (node.op !== 'rcall' || name === undefined) {
    for (const child of childrenOf(node)) collect(child, own, found);
    return;
  }
  const [, receiver, [, ...rest]] = node.args;
  const inner = new Set(own).add(name);
  // Of cel.bind(name, value, …) the receiver is no variable, and the value does not see the name yet.
  const isBind = internals(node).meta.macro !== undefined;
  if (!isBind) collect(receiver, own, found);
  for (const [index, child] of rest.entries()) collect(child, isBind && index === 0 ? own : inner, found);
}

/** The variable that a macro brings: of `l.map(x, …)` and the like, and of `cel.bind(x, …)`. */
function ownName(node: Extract<CelNode, { op: 'rcall' }>): string | undefined {
  const { alternate, macro } = internals(node).meta;
  if (alternate?.op === 'comprehension') return (alternate as ComprehensionNode).args.iterVarName;
  const [variable] = node.args[2];
  return macro !== undefined && 'bindCtx' in macro && variable?.op === 'id' ? variable.args : undefined;
}
