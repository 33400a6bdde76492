import type { Check } from '../api/workflow.ts';
import { type CompiledCondition, type CompiledValue, compileCondition, compileParts } from '../expression/compile.ts';
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
    try {
      const compiled = compileCondition(text, path);
      this.#read(compiled, index);
      return compiled;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      this.checks.push(...error.faults);
      return undefined;
    }
  }

  /** @param index of the step that evaluates it; the number of steps for the output */
  value(json: JsonValue, path: string, index: number): CompiledValue | undefined {
    const { compiled, faults } = compileParts(json, path);
    this.checks.push(...faults);
    this.#read(compiled, index);
    return faults.length === 0 ? compiled : undefined;
  }

  #read(compiled: CompiledCondition | CompiledValue, index: number): void {
    this.readers.push(...references(compiled).map((reference) => ({ ...reference, index })));
  }
}
