import { RE2JS, RE2JSException } from '@bufbuild/re2';
import { LIMITS } from './limits.ts';

/** The size of a compiled pattern: matching takes at most text × size, compiling about size. */
const STEPS_PER_INSTRUCTION = 20;
const WORK_PER_STEP = 128;

/**
 * Regular expressions of one evaluation, in RE2's linear time; V8's own never sees a pattern of a workflow. Dropped with the
 * evaluation: an automaton that is kept grows with what it has read.
 */
export class Patterns {
  readonly #compiled = new Map<string, RE2JS>();
  readonly #charge: (steps: number) => void;

  constructor(charge: (steps: number) => void) {
    this.#charge = charge;
  }

  /** Whether any part of `text` matches. @throws RangeError that says what is wrong with the pattern. */
  test(pattern: string, text: string): boolean {
    let compiled = this.#compiled.get(pattern);
    if (compiled === undefined) {
      compiled = compilePattern(pattern);
      this.#compiled.set(pattern, compiled);
      this.#charge(sizeOf(compiled) * STEPS_PER_INSTRUCTION);
    }
    this.#charge(Math.floor((text.length * sizeOf(compiled)) / WORK_PER_STEP));
    return compiled.test(text);
  }
}

/** @throws RangeError that says what is wrong with the pattern. */
export function compilePattern(pattern: string): RE2JS {
  if (pattern.length > LIMITS.patternLength) {
    throw new RangeError(`a pattern of ${pattern.length} characters: at most ${LIMITS.patternLength} are allowed`);
  }
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new RangeError(`not a regular expression (RE2): ${error.message}`);
  }
}

function sizeOf(compiled: RE2JS): number {
  return compiled.re2().prog.numInst();
}
