import {
  isFinal,
  type RpcError,
  type StepStatus,
  type ToolResult,
  type WorkflowExecution,
} from '../api/workflow-execution.ts';
import { toTimestamp } from '../lib/clock.ts';
import { outcomeOf } from './outcome.ts';

/**
 * An execution as an MCP task (io.modelcontextprotocol/tasks, SEP-2663). Pure: everything comes from the record, `now`
 * (ms) only sets how soon a client should ask again. A task that waits for input is not among them: no step asks yet.
 */
export interface Task {
  taskId: string;
  status: TaskStatus;
  statusMessage?: string;
  /** RFC 3339, as are all times. */
  createdAt: string;
  lastUpdatedAt: string;
  /** From `createdAt` on; null until the end of the run is known. */
  ttlMs: number | null;
  pollIntervalMs: number;
}

/** The flat CreateTaskResult. */
export type TaskHandle = { resultType: 'task' } & Task;

export type TaskStatus = 'working' | 'completed' | 'failed' | 'cancelled';

export type DetailedTask = Task & Detail;

type Detail =
  | { status: 'working' | 'cancelled' }
  | { status: 'completed'; result: { resultType: 'complete' } & ToolResult }
  | { status: 'failed'; error: RpcError };

/** A client that polls a run every tenth of its age sees its end at most that much late. */
const POLLS_PER_AGE = 10;
const SHORTEST_POLL_MS = 1_000;
const LONGEST_POLL_MS = 30_000;

/** The flat fields of a CreateTaskResult. */
export function taskOf(execution: WorkflowExecution, now: number): Task {
  return baseOf(execution, detailOf(execution).status, now);
}

/** What `tasks/get` answers, without its `resultType`. */
export function detailedTaskOf(execution: WorkflowExecution, now: number): DetailedTask {
  const detail = detailOf(execution);
  return { ...baseOf(execution, detail.status, now), ...detail };
}

/** From `expiresAt` on a task does not exist, whether its object is deleted yet or not. */
export function isExpired({ status }: WorkflowExecution, now: number): boolean {
  return status?.expiresAt !== undefined && Date.parse(status.expiresAt) <= now;
}

/** A task belongs to the subject that asked for the run. One whose record names nobody is nobody's. */
export function isVisibleTo({ spec }: WorkflowExecution, subject: string): boolean {
  return spec.requestedBy?.subject === subject;
}

function detailOf(execution: WorkflowExecution): Detail {
  const outcome = outcomeOf(execution);
  switch (outcome?.kind) {
    case undefined:
      return { status: 'working' };
    case 'cancelled':
      return { status: 'cancelled' };
    case 'error':
      return { status: 'failed', error: outcome.error };
    case 'result':
      // The examples of the specification omit this resultType; ext-tasks refuses a result without it.
      return { status: 'completed', result: { resultType: 'complete', ...outcome.result } };
  }
}

function baseOf(execution: WorkflowExecution, status: TaskStatus, now: number): Task {
  const created = createdAtOf(execution);
  const message = messageOf(execution);
  return {
    taskId: execution.metadata.name,
    status,
    ...(message !== undefined && { statusMessage: message }),
    createdAt: toTimestamp(created),
    lastUpdatedAt: toTimestamp(lastUpdateOf(execution, created)),
    ttlMs: ttlOf(execution, created),
    pollIntervalMs: pollIntervalOf(execution, created, now),
  };
}

function createdAtOf({ metadata }: WorkflowExecution): number {
  const { creationTimestamp, name } = metadata;
  if (creationTimestamp !== undefined) return Date.parse(creationTimestamp);
  throw new TypeError(`execution ${name} has no creationTimestamp: the API server has not acknowledged it`);
}

/** The latest time in the record, never that of the read (field case 75). */
function lastUpdateOf({ status }: WorkflowExecution, created: number): number {
  const steps = status?.steps ?? [];
  const times = [
    status?.startedAt,
    status?.finishedAt,
    status?.runner?.claimedAt,
    ...steps.flatMap(({ startedAt, finishedAt }) => [startedAt, finishedAt]),
  ];
  // Not Math.max(...): a record may have more steps than a call may have arguments.
  return times.reduce((latest, time) => (time === undefined ? latest : Math.max(latest, Date.parse(time))), created);
}

/** At least 1, which is what a client takes: the clock of the API server, which sets `createdAt`, may be ahead of ours. */
function ttlOf({ status }: WorkflowExecution, created: number): number | null {
  return status?.expiresAt === undefined ? null : Math.max(1, Date.parse(status.expiresAt) - created);
}

function pollIntervalOf({ status }: WorkflowExecution, created: number, now: number): number {
  if (isFinal(status?.phase)) return SHORTEST_POLL_MS;
  const share = Math.floor((now - created) / POLLS_PER_AGE);
  return Math.min(LONGEST_POLL_MS, Math.max(SHORTEST_POLL_MS, share));
}

/** Of a run that goes on: where it is. How many steps are left the record does not say. */
function messageOf({ spec, status }: WorkflowExecution): string | undefined {
  if (isFinal(status?.phase)) return status?.message ?? status?.error?.message;
  const steps = status?.steps ?? [];
  const running = steps.findLastIndex(({ phase }) => phase === 'running');
  const index = running === -1 ? steps.length - 1 : running;
  const step = steps[index];
  const total = status?.totalSteps === undefined ? '' : ` of ${status.totalSteps}`;
  const where =
    step === undefined ? 'no step is recorded yet' : `step ${index + 1}${total} '${step.id}' ${doingOf(step)}`;
  return spec.cancel === true ? `cancel requested; ${where}` : where;
}

function doingOf({ phase, attempt, wakeAt }: StepStatus): string {
  if (wakeAt !== undefined) return `sleeps until ${wakeAt}`;
  if (phase === 'running') return attempt > 1 ? `is running, attempt ${attempt}` : 'is running';
  return phase === 'skipped' || phase === 'cancelled' ? `was ${phase}` : phase;
}
