import type { JsonObject, JsonValue } from '../lib/json.ts';
import type { KubeObject } from './object.ts';

/** One run, one task. crds/workflowexecutions.yaml is the contract. */
export interface WorkflowExecution extends KubeObject {
  spec: WorkflowExecutionSpec;
  status?: WorkflowExecutionStatus;
}

/** What was asked. Immutable but for the last two. */
export interface WorkflowExecutionSpec {
  workflow: string;
  args?: JsonObject;
  requestedBy?: RequestedBy;
  /** false → true, once. */
  cancel?: boolean;
  /** Keys are only ever added, and only those of `status.inputRequests`; no step asks a question yet. */
  inputResponses?: Record<string, InputResponse>;
}

export interface InputResponse {
  action: 'accept' | 'decline' | 'cancel';
  content?: JsonObject;
}

export interface RequestedBy {
  subject: string;
  via: 'mcp' | 'kubernetes';
}

/** What happened. Written only by the replica that runs it. */
export interface WorkflowExecutionStatus {
  phase: ExecutionPhase;
  /** CamelCase, for instance `StepFailed`; absent while nothing went wrong. */
  reason?: ExecutionReason;
  message?: string;
  runner?: { id: string; claimedAt: string };
  /** The ControllerRevision whose spec this run follows to its end. */
  revision?: string;
  startedAt?: string;
  finishedAt?: string;
  expiresAt?: string;
  /** From startedAt to finishedAt, for the printer; set at the end. */
  duration?: string;
  /** For the printer: the step that runs or ran last. */
  step?: string;
  /** How many steps the workflow has. */
  totalSteps?: number;
  /** In the order in which they started; a step that has not started is not in it. */
  steps?: StepStatus[];
  inputRequests?: Record<string, JsonObject>;
  /** What the caller gets: of a completed run, and of one that failed with `isError`. */
  result?: ToolResult;
  /** Set instead of `result` when the run ended with a JSON-RPC error. */
  error?: RpcError;
}

export type ExecutionPhase = 'inprogress' | 'completed' | 'failed' | 'cancelled';

export type ExecutionReason =
  | 'StepFailed'
  | 'ProtocolError'
  | 'Timeout'
  | 'Interrupted'
  | 'Cancelled'
  | 'ResultTooLarge'
  | 'InvalidArguments'
  | 'InvalidWorkflow'
  | 'WorkflowNotFound'
  | 'OutputFailed';

export interface StepStatus {
  id: string;
  phase: StepPhase;
  /** 1 for the first. */
  attempt: number;
  /** `<MCPServer>/<tool>`; absent for other kinds. */
  tool?: string;
  startedAt: string;
  finishedAt?: string;
  /** Class of a failure. */
  reason?: StepReason;
  message?: string;
  /** Of a running call: it may be repeated when its outcome is unknown. */
  repeatable?: boolean;
  /** Of a running sleep: when it ends. */
  wakeAt?: string;
  /** The value `results.<id>`; kept only while something reads it. */
  result?: JsonValue;
  /** Content blocks as they came; kept only when an expression reads `steps.<id>.content`. */
  content?: JsonObject[];
}

export type StepPhase = 'running' | 'completed' | 'failed' | 'skipped' | 'cancelled';

export type StepReason =
  | 'ToolError'
  | 'ProtocolError'
  | 'Unavailable'
  | 'OutcomeUnknown'
  | 'Timeout'
  | 'Interrupted'
  | 'ExpressionError'
  | 'ResultTooLarge'
  | 'Cancelled';

/** MCP `CallToolResult` without its envelope. */
export interface ToolResult {
  content: JsonObject[];
  structuredContent?: JsonValue;
  isError?: boolean;
}

export interface RpcError {
  code: number;
  message: string;
  data?: JsonValue;
}

export function isFinal(phase: ExecutionPhase | undefined): boolean {
  return phase === 'completed' || phase === 'failed' || phase === 'cancelled';
}
