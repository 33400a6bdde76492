import type { WorkflowExecutionStatus } from '../api/workflow-execution.ts';
import type { JsonObject } from '../lib/json.ts';
import type { Run } from './run.ts';

/** The variables of an expression; the same again on any replica, since all of it is in the record. */
export function scopeOf(run: Run, status: WorkflowExecutionStatus): JsonObject {
  const results: JsonObject = {};
  const steps: JsonObject = {};
  for (const { id, phase, message = '', attempt, result, content = [] } of status.steps ?? []) {
    if (phase === 'completed' && result !== undefined) results[id] = result;
    steps[id] = { phase, message, attempt, content };
  }
  return {
    input: run.args.ok ? run.args.args : {},
    results,
    steps,
    execution: { ...run.facts, startedAt: status.startedAt ?? null },
  };
}
