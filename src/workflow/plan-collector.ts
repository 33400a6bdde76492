import type { Check } from '../api/workflow.ts';
import { type CompiledCondition, type CompiledValue, compileCondition, compileValue } from '../expression/compile.ts';
import { ExpressionError } from '../expression/errors.ts';
import { references } from '../expression/references.ts';
import { parseDuration } from '../lib/duration.ts';
import { ensureError } from '../lib/errors.ts';
import type { JsonValue } from '../lib/json.ts';
import type { Reader } from './references.ts';

/** What planning gathers on its way through a spec: every fault, and who reads what. */
export class PlanCollector {
  readonly checks: Check[] = [];
  readonly readers: Reader[] = [];

  fault(path: string, message: string): void {
    this.checks.push({ path, message });
  }

  /** In ms; 0 when the text is none, which is then a fault. */
  duration(text: string, path: string): number {
    try {
      return parseDuration(text);
    } catch (error) {
      this.fault(path, ensureError(error).message);
      return 0;
    }
  }

  /** @param index of the step that evaluates it */
  condition(text: string, path: string, index: number): CompiledCondition | undefined {
    return this.#compile(() => compileCondition(text, path), index);
  }

  /** @param index of the step that evaluates it; the number of steps for the output */
  value(json: JsonValue, path: string, index: number): CompiledValue | undefined {
    return this.#compile(() => compileValue(json, path), index);
  }

  #compile<T extends CompiledCondition | CompiledValue>(compile: () => T, index: number): T | undefined {
    try {
      const compiled = compile();
      this.readers.push(...references(compiled).map((reference) => ({ ...reference, index })));
      return compiled;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      this.checks.push(...error.faults);
      return undefined;
    }
  }
}
