import type {
  RpcError,
  StepReason,
  StepStatus,
  ToolResult,
  WorkflowExecutionStatus,
} from '../api/workflow-execution.ts';
import { closed } from './finish.ts';
import type { ToolStep } from './plan.ts';
import type { ToolOutcome } from './ports.ts';
import type { Limits } from './run.ts';
import { formatBytes, jsonBytes, resultValue, shorten, textsOf } from './values.ts';

/** A step that has ended. */
export interface Settled {
  readonly record: StepStatus;
  /** The result as it came, when it may turn out to be the run's answer. */
  readonly answer?: ToolResult;
  /** When the upstream answered a JSON-RPC error. */
  readonly error?: RpcError;
}

/**
 * The record of a call's outcome. Of its result only what something later reads is kept.
 * @param status whose values are those that are still read after this step
 */
export function settle(
  step: ToolStep,
  running: StepStatus,
  outcome: ToolOutcome,
  status: WorkflowExecutionStatus,
  limits: Limits,
  at: number,
): Settled {
  const failed = (reason: StepReason, message: string): Settled => ({
    record: closed(running, 'failed', at, { reason, message }),
  });
  switch (outcome.kind) {
    case 'result':
      return settleResult(step, running, outcome.result, status, limits, at);
    case 'protocolError': {
      const tooLarge = overLimit([outcome.error.data], [], limits);
      if (tooLarge !== undefined) return failed('ResultTooLarge', `the error it answered, ${tooLarge}`);
      return { ...failed('ProtocolError', outcome.error.message), error: outcome.error };
    }
    case 'unavailable':
      return failed('Unavailable', outcome.message);
    case 'unknown':
      return failed('OutcomeUnknown', outcome.message);
    case 'aborted':
      return { record: closed(running, 'cancelled', at, { reason: 'Cancelled', message: 'cancelled on request' }) };
    default:
      return outcome satisfies never;
  }
}

/**
 * Sizes are looked at before `isError`: content that is read is kept of a failed call too. The value of one is not, since
 * `results.<id>` is only there when the step completed.
 */
function settleResult(
  step: ToolStep,
  running: StepStatus,
  result: ToolResult,
  status: WorkflowExecutionStatus,
  limits: Limits,
  at: number,
): Settled {
  const isError = result.isError === true;
  const value = isError || step.resultUntil <= step.index ? undefined : resultValue(result);
  const content = step.contentUntil <= step.index ? undefined : result.content;
  const answer = isError || !step.mayAnswer ? undefined : result;
  const others: unknown[] = (status.steps ?? []).flatMap((other) => [other.result, other.content]);
  if (answer === undefined) others.push(status.result);
  const tooLarge = overLimit([value, content, answer], others, limits);
  if (tooLarge !== undefined) {
    const fault = { reason: 'ResultTooLarge', message: `its result, ${tooLarge}` } as const;
    return { record: closed(running, 'failed', at, fault) };
  }
  const fault = { reason: 'ToolError', message: textsOf(result).join('\n') || 'the tool gave no reason' } as const;
  const record = {
    ...(isError ? closed(running, 'failed', at, fault) : closed(running, 'completed', at)),
    ...(value !== undefined && { result: value }),
    ...(content !== undefined && { content }),
  };
  return { record, ...(answer !== undefined && { answer }) };
}

/** What is too large, with both sizes, as the rest of a sentence; undefined when all of it fits. */
function overLimit(values: readonly unknown[], others: readonly unknown[], limits: Limits): string | undefined {
  const sizes = values.map(jsonBytes);
  const largest = Math.max(...sizes);
  if (largest > limits.valueBytes) {
    return `${formatBytes(largest)}, is above the limit of ${formatBytes(limits.valueBytes)} for one value`;
  }
  const total = [...sizes, ...others.map(jsonBytes)].reduce((sum, bytes) => sum + bytes, 0);
  if (total <= limits.executionBytes) return undefined;
  return `${formatBytes(largest)}, would bring the values of this run to ${formatBytes(total)}, above the limit of ${formatBytes(limits.executionBytes)}`;
}

/**
 * The JSON-RPC error of a run that ends with an upstream's. Codes that JSON-RPC and MCP keep for themselves would be taken
 * for ours (an unknown tool, a missing capability of the client): they become -32603.
 */
export function ownError(error: RpcError, message: string): RpcError {
  const reserved = error.code >= -32768 && error.code <= -32000;
  return {
    code: reserved ? -32603 : error.code,
    message: shorten(message),
    ...(error.data !== undefined && { data: error.data }),
  };
}
