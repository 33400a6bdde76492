import type { StepReason, StepStatus, WorkflowExecutionStatus } from '../api/workflow-execution.ts';
import { ExpressionError } from '../expression/errors.ts';
import { evaluateCondition, evaluateValue } from '../expression/evaluate.ts';
import { toTimestamp } from '../lib/clock.ts';
import type { JsonObject } from '../lib/json.ts';
import { closed } from './finish.ts';
import type { PlanStep, ToolStep } from './plan.ts';
import type { CallToolEffect, Run } from './run.ts';
import { scopeOf } from './scope.ts';

/** On whose behalf a step is opened; decides what must be recorded before it may call. */
export type Entry =
  /** The runner goes on from a step that has just ended. */
  | { readonly by: 'runner' }
  /** It starts a run that it is creating; the create names `announced` as the step that it will call. */
  | { readonly by: 'creator'; readonly announced: string | undefined }
  /** It starts a run that it found without a status; the creator may have called `announced`. */
  | { readonly by: 'finder'; readonly announced: string | undefined }
  /** It takes up a run that another has begun. */
  | { readonly by: 'resumer' };

export interface OpenedStep {
  readonly record: StepStatus;
  readonly effect?: CallToolEffect;
}

/** The record of a step that begins: running (with the call to make), or skipped, or failed before it could begin. */
export function openStep(
  run: Run,
  status: WorkflowExecutionStatus,
  step: PlanStep,
  at: number,
  entry: Entry,
  attempt: number,
): OpenedStep {
  const record: StepStatus = { id: step.id, phase: 'running', attempt, startedAt: toTimestamp(at) };
  try {
    const scope = scopeOf(run, status);
    if (step.condition !== undefined && !evaluateCondition(step.condition, scope)) {
      return { record: { ...record, phase: 'skipped', attempt: 0, finishedAt: record.startedAt } };
    }
    if (step.kind === 'sleep') return { record: { ...record, wakeAt: toTimestamp(at + step.ms) } };
    return openTool(run, step, record, evaluateValue(step.args, scope) as JsonObject, at, entry);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    const named = step.kind === 'tool' ? { ...record, tool: toolText(step) } : record;
    return { record: failed(named, 'ExpressionError', error.message, at) };
  }
}

/** Arguments come first: when they cannot be evaluated no creator has made the call either, so nothing is in doubt. */
function openTool(
  run: Run,
  step: ToolStep,
  record: StepStatus,
  args: JsonObject,
  at: number,
  entry: Entry,
): OpenedStep {
  const running = { ...record, tool: toolText(step) };
  const announced = (entry.by === 'creator' || entry.by === 'finder') && entry.announced === step.id;
  if (entry.by === 'finder' && announced) {
    const message =
      'the operator that created the run stopped before it said how the call ended, so what it did is not known';
    return { record: failed(running, 'Interrupted', message, at) };
  }
  const repeatable = isRepeatable(run, step);
  const call = { step: step.id, attempt: record.attempt };
  return {
    record: repeatable ? { ...running, repeatable } : running,
    effect: { type: 'callTool', call, tool: step.tool, args, after: barrier(repeatable, announced, entry) },
  };
}

/** Write ahead (design §4). A run that was found or taken up is claimed first, whatever the step. */
function barrier(repeatable: boolean, announced: boolean, entry: Entry): CallToolEffect['after'] {
  if (entry.by === 'finder' || entry.by === 'resumer') return 'status';
  if (repeatable) return 'nothing';
  return announced ? 'create' : 'status';
}

function isRepeatable(run: Run, step: ToolStep): boolean {
  return step.repeatable ?? run.isRepeatable(step.tool);
}

function failed(record: StepStatus, reason: StepReason, message: string, at: number): StepStatus {
  return closed(record, 'failed', at, { reason, message });
}

function toolText({ tool }: ToolStep): string {
  return `${tool.server}/${tool.tool}`;
}
