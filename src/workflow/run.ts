import type { WorkflowExecution, WorkflowExecutionStatus } from '../api/workflow-execution.ts';
import type { JsonObject } from '../lib/json.ts';
import type { ParsedArgs } from './args.ts';
import type { Plan } from './plan.ts';
import type { ToolOutcome, ToolRef } from './ports.ts';

/**
 * The contract of the reducer (state.ts): what it is told of a run, what it keeps, what happens to it, what it wants done.
 * All of it is data; times are milliseconds since the epoch.
 */
export interface Run {
  readonly plan: Plan;
  readonly args: ParsedArgs;
  /** What expressions see as `execution`, but for `startedAt`, which is in the status. */
  readonly facts: JsonObject;
  readonly limits: Limits;
  /** What is known of a tool now. The answer is recorded with the step, so that a resumed run does not ask again. */
  readonly isRepeatable: (tool: ToolRef) => boolean;
}

export interface Limits {
  /** Bytes of JSON of one value that is kept: a step's result or content, the run's output. */
  readonly valueBytes: number;
  /** Bytes of JSON of all values that one execution keeps at a time. */
  readonly executionBytes: number;
}

export const DEFAULT_LIMITS: Limits = { valueBytes: 512 * 1024, executionBytes: 1024 * 1024 };

export interface State {
  /** What is recorded; undefined before the start. */
  readonly status: WorkflowExecutionStatus | undefined;
  /** Set once a cancel was asked for: how long the call in flight may still answer. Not recorded: a new runner has no such call. */
  readonly cancelBy?: number;
  /** The runner is about to leave: what still arrives is recorded, nothing new begins. */
  readonly stopping?: true;
}

export interface StartEvent {
  readonly type: 'start';
  readonly at: number;
  readonly runner: string;
  readonly revision: string;
  /** `spec.cancel` */
  readonly cancel: boolean;
  /** The runner is creating the execution at this moment; else it found it, without a status. */
  readonly creating: boolean;
  /** Value of the annotation `convoke.dev/first-step`. */
  readonly announced: string | undefined;
}

export interface ResumeEvent {
  readonly type: 'resume';
  readonly at: number;
  readonly runner: string;
  readonly cancel: boolean;
}

export type RunEvent =
  | StartEvent
  | ResumeEvent
  | { readonly type: 'outcome'; readonly at: number; readonly call: CallId; readonly outcome: ToolOutcome }
  /** A call that was asked for and not made. */
  | { readonly type: 'withdrawn'; readonly at: number; readonly call: CallId }
  /** The time that `dueAt` named has come; one that comes early changes nothing. */
  | { readonly type: 'tick'; readonly at: number }
  | { readonly type: 'cancel'; readonly at: number }
  | { readonly type: 'stop'; readonly at: number }
  /** The API server does not take a record of so many bytes. */
  | { readonly type: 'tooLarge'; readonly at: number; readonly bytes: number };

/** One attempt at one step. */
export interface CallId {
  readonly step: string;
  readonly attempt: number;
}

export type Effect =
  | CallToolEffect
  | { readonly type: 'cancelCall'; readonly call: CallId }
  /** A Kubernetes Event, once the status is recorded that it speaks of. */
  | {
      readonly type: 'report';
      readonly level: 'Normal' | 'Warning';
      readonly reason: ReportReason;
      readonly message: string;
    };

export interface CallToolEffect {
  readonly type: 'callTool';
  readonly call: CallId;
  readonly tool: ToolRef;
  readonly args: JsonObject;
  /** What the API server must have acknowledged before the call is made: nothing, the create, or this status. */
  readonly after: 'nothing' | 'create' | 'status';
}

/** That a run began is in its record; an Event of it would cost each run as much as its create. */
export type ReportReason = 'StepFailed' | 'Completed' | 'Failed' | 'Cancelled';

export interface Transition {
  readonly state: State;
  readonly effects: readonly Effect[];
}

export interface RunParts {
  readonly plan: Plan;
  readonly execution: WorkflowExecution;
  readonly limits: Limits;
  readonly isRepeatable: (tool: ToolRef) => boolean;
}

export function createRun({ plan, execution, limits, isRepeatable }: RunParts): Run {
  const { name, namespace = '' } = execution.metadata;
  const { workflow, args = {}, requestedBy } = execution.spec;
  const facts = { id: name, workflow, namespace, requestedBy: requestedBy === undefined ? null : { ...requestedBy } };
  return { plan, args: plan.args.parse(args), facts, limits, isRepeatable };
}
