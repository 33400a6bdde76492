import type { Check, WorkflowSpec } from '../api/workflow.ts';
import { suggestion } from './near-miss.ts';

/** One mention of a variable, in an expression that the step number `index` evaluates (the number of steps: the output). */
export interface Reader {
  readonly index: number;
  readonly path: string;
  /** 1-based, in the text at `path`. */
  readonly column?: number;
  /** The variable and the keys that are read of it, as far as they are written out: `results.build.image` is `[results, build, image]`. */
  readonly keys: readonly string[];
}

const ROOTS = ['input', 'results', 'steps', 'execution'];
const EXECUTION_KEYS = ['id', 'workflow', 'namespace', 'requestedBy', 'startedAt'];
const STEP_KEYS = ['phase', 'message', 'attempt', 'content'];

/** Every mention of something that is not there, or not yet. What a step's result holds is known only when it runs. */
export function checkReferences(readers: readonly Reader[], spec: WorkflowSpec): Check[] {
  return readers.flatMap(({ path, column, index, keys }) => {
    const message = faultOf(keys, index, spec);
    return message === undefined ? [] : [{ path, message, ...(column !== undefined && { column }) }];
  });
}

function faultOf([root = '', key, field]: readonly string[], index: number, spec: WorkflowSpec): string | undefined {
  switch (root) {
    case 'input': {
      const args = Object.keys(spec.args ?? {});
      return unknown(key, args, `no argument '${key}'`);
    }
    case 'results':
      return stepFault(key, index, spec) ?? resultFault(key, spec);
    case 'steps':
      return stepFault(key, index, spec) ?? unknown(field, STEP_KEYS, `a step has no '${field}'`);
    case 'execution':
      return unknown(key, EXECUTION_KEYS, `an execution has no '${key}'`);
    default:
      return unknown(root, ROOTS, `no variable '${root}'`);
  }
}

function unknown(name: string | undefined, known: readonly string[], message: string): string | undefined {
  return name === undefined || known.includes(name) ? undefined : message + suggestion(name, known);
}

/** Steps run in order, so a step that comes later is as unknown as one that is none; only the message differs. */
function stepFault(id: string | undefined, index: number, spec: WorkflowSpec): string | undefined {
  if (id === undefined) return undefined;
  const ids = spec.steps.map((step) => step.id);
  const before = ids.slice(0, index);
  if (before.includes(id)) return undefined;
  if (!ids.includes(id)) return `no step '${id}'${suggestion(id, before)}`;
  return ids[index] === id
    ? `step '${id}' cannot read itself`
    : `step '${id}' comes later: only steps before this one can be read`;
}

function resultFault(id: string | undefined, spec: WorkflowSpec): string | undefined {
  const step = spec.steps.find((candidate) => candidate.id === id);
  return step?.sleep === undefined ? undefined : `step '${id}' is a sleep and has no result`;
}

/** Until which step (its index; the number of steps for the output; -1 for none) the values of a step are read. */
export function lastReaders(readers: readonly Reader[]): (id: string) => { resultUntil: number; contentUntil: number } {
  const last = (reads: (keys: readonly string[]) => boolean): number =>
    Math.max(-1, ...readers.filter(({ keys }) => reads(keys)).map(({ index }) => index));
  // A key that is not written out, as in results[input.name], may be any.
  const names = (key: string | undefined, name: string): boolean => key === undefined || key === name;
  return (id) => ({
    resultUntil: last(([root, key]) => root === 'results' && names(key, id)),
    contentUntil: last(([root, key, field]) => root === 'steps' && names(key, id) && names(field, 'content')),
  });
}
