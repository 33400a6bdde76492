import type {
  ExecutionReason,
  RpcError,
  StepReason,
  StepStatus,
  ToolResult,
  WorkflowExecutionStatus,
} from '../api/workflow-execution.ts';
import { ExpressionError } from '../expression/errors.ts';
import { evaluateValue } from '../expression/evaluate.ts';
import { toTimestamp } from '../lib/clock.ts';
import { formatDuration } from '../lib/duration.ts';
import type { JsonValue } from '../lib/json.ts';
import type { Effect, ReportReason, Run, Transition } from './run.ts';
import { scopeOf } from './scope.ts';
import { formatBytes, jsonBytes, shorten } from './values.ts';

/** How a run ends. Whatever the end, one status says it all: phase, times, message and result together (field case 17). */

export interface Failure {
  readonly reason: ExecutionReason;
  readonly message: string;
  /** The run ends with this JSON-RPC error instead of a result. */
  readonly error?: RpcError;
}

/** Every step is done. Without `output` the answer is what the last tool step that completed gave. */
export function complete(run: Run, status: WorkflowExecutionStatus, at: number): Transition {
  const output = outputOf(run, status);
  if ('reason' in output) return fail(run, status, at, output);
  const message = `completed in ${shownDuration(at - Date.parse(status.startedAt ?? ''))}`;
  return end(run, { ...status, phase: 'completed', result: output }, at, report('Normal', 'Completed', message));
}

export function fail(run: Run, status: WorkflowExecutionStatus, at: number, failure: Failure): Transition {
  const { result: _, ...rest } = status;
  const { reason, error } = failure;
  const message = shorten(failure.message);
  const answer = error === undefined ? { result: errorResult(message) } : { error };
  return end(run, { ...rest, phase: 'failed', reason, message, ...answer }, at, report('Warning', 'Failed', message));
}

export function cancelled(run: Run, status: WorkflowExecutionStatus, at: number): Transition {
  const { result: _, ...rest } = status;
  const message = status.step === undefined ? 'cancelled on request' : `cancelled on request, at step '${status.step}'`;
  const ended = { ...rest, phase: 'cancelled', reason: 'Cancelled', message } as const;
  return end(run, ended, at, report('Normal', 'Cancelled', message));
}

/** The record of a run whose record did not fit: without a value, with short messages. */
export function failTooLarge(run: Run, status: WorkflowExecutionStatus, at: number, bytes: number): Transition {
  const small = { ...status, steps: status.steps?.map(({ result: _, content: __, ...step }) => shortened(step)) ?? [] };
  return fail(run, small, at, {
    reason: 'ResultTooLarge',
    message: `the record of this run, ${formatBytes(bytes)}, is larger than the API server takes: let steps and output give less`,
  });
}

function shortened(step: StepStatus): StepStatus {
  return step.message === undefined ? step : { ...step, message: shorten(step.message, 128) };
}

/** The step that runs, if one does, closed as `phase`. */
export function closeRunning(
  status: WorkflowExecutionStatus,
  phase: 'failed' | 'cancelled',
  reason: StepReason,
  message: string,
  at: number,
): WorkflowExecutionStatus {
  const steps = status.steps?.map((step) =>
    step.phase === 'running' ? closed(step, phase, at, { reason, message }) : step,
  );
  return steps === undefined ? status : { ...status, steps };
}

/** The record of a step that has ended; what belongs only to a running one is gone. */
export function closed(
  { wakeAt: _, repeatable: __, ...step }: StepStatus,
  phase: 'completed' | 'failed' | 'cancelled',
  at: number,
  fault?: { reason: StepReason; message: string },
): StepStatus {
  const said = fault === undefined ? {} : { reason: fault.reason, message: shorten(fault.message) };
  return { ...step, phase, finishedAt: toTimestamp(at), ...said };
}

export function report(level: 'Normal' | 'Warning', reason: ReportReason, message: string): Effect {
  return { type: 'report', level, reason, message };
}

function end(run: Run, status: WorkflowExecutionStatus, at: number, effect: Effect): Transition {
  const steps = status.steps?.map(({ result: _, content: __, ...step }) => step);
  const ended: WorkflowExecutionStatus = {
    ...status,
    ...(steps !== undefined && { steps }),
    finishedAt: toTimestamp(at),
    expiresAt: toTimestamp(at + run.plan.ttlMs),
    duration: shownDuration(at - Date.parse(status.startedAt ?? '')),
  };
  return { state: { status: ended }, effects: [effect] };
}

/** For people: whole seconds, once there are some. */
export function shownDuration(ms: number): string {
  return formatDuration(ms < 1_000 ? ms : Math.round(ms / 1_000) * 1_000);
}

function outputOf(run: Run, status: WorkflowExecutionStatus): ToolResult | Failure {
  if (run.plan.output === undefined) return status.result ?? { content: [] };
  let value: JsonValue;
  try {
    value = evaluateValue(run.plan.output, scopeOf(run, status));
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return { reason: 'OutputFailed', message: `the output could not be made: ${error.message}` };
  }
  const result: ToolResult = { content: [{ type: 'text', text: textOf(value) }], structuredContent: value };
  const bytes = jsonBytes(result);
  if (bytes <= run.limits.valueBytes) return result;
  return {
    reason: 'ResultTooLarge',
    message: `the output, ${formatBytes(bytes)} as structured content and text, is above the limit of ${formatBytes(run.limits.valueBytes)} for one value`,
  };
}

function textOf(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** No structured content: it would have to fit the tool's output schema (field case 34). */
function errorResult(text: string): ToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}
