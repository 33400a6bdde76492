import {
  type ExecutionReason,
  isFinal,
  type StepReason,
  type StepStatus,
  type WorkflowExecutionStatus,
} from '../api/workflow-execution.ts';
import { toTimestamp } from '../lib/clock.ts';
import { formatDuration } from '../lib/duration.ts';
import { cancelled, closed, closeRunning, complete, fail, failTooLarge, report } from './finish.ts';
import { type Entry, openStep } from './open-step.ts';
import type { Plan, PlanStep } from './plan.ts';
import type { CallId, Effect, ResumeEvent, Run, RunEvent, StartEvent, State, Transition } from './run.ts';
import { ownError, type Settled, settle } from './settle.ts';

/** How long a call that was cancelled may still answer (design §6). */
const CANCEL_GRACE_MS = 10_000;

type Going = State & { readonly status: WorkflowExecutionStatus };

/**
 * The engine: what a run becomes when something happens to it (design §3). Pure. Fed with a stored status and `resume` it
 * goes on as the runner that wrote it would have; a final status is never left.
 */
export function step(run: Run, state: State, event: RunEvent): Transition {
  const { status } = state;
  if (status === undefined) return event.type === 'start' ? start(run, event) : nothing(state);
  if (event.type === 'tooLarge') {
    const { status: stopped, effects } = stopRunning(status, 'cancelled', 'Cancelled', 'the run ended', event.at);
    return after(effects, failTooLarge(run, stopped, event.at, event.bytes));
  }
  if (isFinal(status.phase)) return nothing(state);
  switch (event.type) {
    case 'start':
      return nothing(state);
    case 'resume':
      return resume(run, status, event);
    case 'outcome':
      return onOutcome(run, state, status, event);
    case 'withdrawn':
      return runningCall(status, event.call) === undefined
        ? nothing(state)
        : nothing({ ...state, status: reopened(status) });
    case 'tick':
      return onTick(run, state, status, event.at);
    case 'cancel':
      return onCancel(run, state, status, event.at);
    case 'stop':
      return nothing({ ...state, stopping: true });
    default:
      return event satisfies never;
  }
}

/** When the next `tick` is due, in ms since the epoch; undefined when nothing waits for time. */
export function dueAt(run: Run, { status, cancelBy }: State): number | undefined {
  if (status === undefined || isFinal(status.phase)) return undefined;
  if (cancelBy !== undefined) return cancelBy;
  const running = runningStep(status);
  const deadline = runDeadline(run.plan, status);
  return running === undefined ? deadline : Math.min(deadline, stepDueAt(run.plan, running));
}

function start(run: Run, { at, runner, revision, cancel, creating, announced }: StartEvent): Transition {
  const time = toTimestamp(at);
  const status: WorkflowExecutionStatus = {
    phase: 'inprogress',
    runner: { id: runner, claimedAt: time },
    revision,
    startedAt: time,
    totalSteps: run.plan.steps.length,
  };
  if (cancel) return cancelled(run, status, at);
  if (!run.args.ok) {
    const message = `the arguments do not fit:\n${run.args.faults.join('\n')}`;
    return fail(run, status, at, { reason: 'InvalidArguments', message });
  }
  const entry: Entry = creating ? { by: 'creator', announced } : { by: 'finder', announced };
  return advance(run, { status }, at, entry);
}

/**
 * A new runner takes up what is recorded. Whatever it calls first waits until its claim is acknowledged. Others may write a
 * status too, so nothing is taken for granted of it that the CRD does not hold: a run without a start would have no end.
 */
function resume(run: Run, recorded: WorkflowExecutionStatus, { at, runner, cancel }: ResumeEvent): Transition {
  const now = toTimestamp(at);
  const status = { startedAt: now, ...recorded, runner: { id: runner, claimedAt: now } };
  const strange = status.steps?.find(({ id }, index) => run.plan.steps[index]?.id !== id);
  if (strange !== undefined) {
    const message = `the record names a step '${strange.id}' that the workflow's revision has not in that place`;
    return fail(run, closeRunning(status, 'failed', 'Interrupted', message, at), at, {
      reason: 'InvalidWorkflow',
      message,
    });
  }
  const state: Going = cancel ? { status, cancelBy: at } : { status };
  const resumer: Entry = { by: 'resumer' };
  const running = runningStep(status);
  if (running === undefined) return advance(run, state, at, resumer);
  const planned = stepOf(run.plan, running.id);
  if (planned.kind === 'tool' && running.repeatable !== true) {
    return conclude(run, state, planned, { record: interrupted(running, at) }, at, resumer);
  }
  if (cancel) return cancelled(run, closeRunning(status, 'cancelled', 'Cancelled', 'cancelled on request', at), at);
  if (planned.kind === 'tool') {
    return advance(run, { status: reopened(status) }, at, resumer, running.attempt + 1);
  }
  if (at < stepDueAt(run.plan, running)) return nothing(state);
  return conclude(run, state, planned, { record: closed(running, 'completed', at) }, at, resumer);
}

/** Starts the next step; ends the run when there is none. */
function advance(run: Run, state: Going, at: number, entry: Entry, attempt = 1): Transition {
  const { status } = state;
  const next = run.plan.steps[status.steps?.length ?? 0];
  if (next === undefined) return complete(run, status, at);
  if (state.cancelBy !== undefined) return cancelled(run, status, at);
  if (at >= runDeadline(run.plan, status)) return timeOut(run, status, at);
  if (state.stopping) return nothing(state);
  const { record, effect } = openStep(run, status, next, at, entry, attempt);
  if (record.phase === 'skipped') return advance(run, { ...state, status: withStep(status, record) }, at, entry);
  const started = { ...state, status: { ...withStep(status, record), step: record.id } };
  if (record.phase === 'failed') return conclude(run, started, next, { record }, at, entry);
  return { state: started, effects: effect === undefined ? [] : [effect] };
}

/** The last step has ended, as `settled` says: goes on, or ends the run. */
function conclude(
  run: Run,
  state: Going,
  planned: PlanStep,
  { record, answer, error }: Settled,
  at: number,
  entry: Entry = { by: 'runner' },
): Transition {
  const status: WorkflowExecutionStatus = {
    ...state.status,
    steps: unreadDropped(run.plan, [...(state.status.steps?.slice(0, -1) ?? []), record], planned.index),
    ...(answer !== undefined && { result: answer }),
  };
  const failure = record.phase === 'failed' ? failureText(record) : undefined;
  const effects = failure === undefined ? [] : [report('Warning', 'StepFailed', failure)];
  // Of a run that is being cancelled only a good result counts: a failure is most often the cancel's own doing.
  if (state.cancelBy !== undefined && record.phase !== 'completed') return after(effects, cancelled(run, status, at));
  if (failure === undefined || planned.allowFailure) {
    return after(effects, advance(run, { ...state, status }, at, entry));
  }
  const reason = runReasonOf(record.reason);
  const ended =
    error === undefined ? { reason, message: failure } : { reason, message: failure, error: ownError(error, failure) };
  return after(effects, fail(run, status, at, ended));
}

/** Of a call that its step no longer waits for (it timed out, the run ended) nothing is kept: what came first counts. */
function onOutcome(
  run: Run,
  state: State,
  status: WorkflowExecutionStatus,
  { at, call, outcome }: Extract<RunEvent, { type: 'outcome' }>,
): Transition {
  const running = runningCall(status, call);
  const planned = stepOf(run.plan, call.step);
  if (running === undefined || planned.kind !== 'tool') return nothing(state);
  // Given up because the runner leaves: the record goes on saying that it runs, and the next runner deals with that.
  if (outcome.kind === 'aborted' && state.stopping && state.cancelBy === undefined) return nothing(state);
  const steps = unreadDropped(run.plan, status.steps ?? [], planned.index);
  const settled = settle(planned, running, outcome, { ...status, steps }, run.limits, at);
  return conclude(run, { ...state, status }, planned, settled, at);
}

/**
 * What is due is read off the record, never from timers: so a run that was taken up late goes on at once, and an early or
 * repeated tick does no harm. Cancel comes before the run's time-out, and that before the step's.
 */
function onTick(run: Run, state: State, status: WorkflowExecutionStatus, at: number): Transition {
  if (state.cancelBy !== undefined) {
    if (at < state.cancelBy) return nothing(state);
    const message = `cancelled on request; the call did not end within ${formatDuration(CANCEL_GRACE_MS)}, so what it did is not known`;
    return cancelled(run, closeRunning(status, 'cancelled', 'Cancelled', message, at), at);
  }
  if (at >= runDeadline(run.plan, status)) return timeOut(run, status, at);
  const running = runningStep(status);
  if (running === undefined || at < stepDueAt(run.plan, running)) return nothing(state);
  const planned = stepOf(run.plan, running.id);
  const current = { ...state, status };
  if (planned.kind === 'sleep')
    return conclude(run, current, planned, { record: closed(running, 'completed', at) }, at);
  const message = `no answer within the step's timeout of ${formatDuration(planned.timeoutMs)}; the call was cancelled, what it did is not known`;
  const record = closed(running, 'failed', at, { reason: 'Timeout', message });
  return after([cancelCall(running)], conclude(run, current, planned, { record }, at));
}

/** A sleep and a step that has not begun end at once; a call gets time to say how it ended, and its good result still counts. */
function onCancel(run: Run, state: State, status: WorkflowExecutionStatus, at: number): Transition {
  if (state.cancelBy !== undefined) return nothing(state);
  const running = runningStep(status);
  if (running?.tool === undefined) {
    return cancelled(run, closeRunning(status, 'cancelled', 'Cancelled', 'cancelled on request', at), at);
  }
  return { state: { ...state, cancelBy: at + CANCEL_GRACE_MS }, effects: [cancelCall(running)] };
}

/** `allowFailure` does not help: it is the run that failed, not the step. */
function timeOut(run: Run, status: WorkflowExecutionStatus, at: number): Transition {
  const limit = formatDuration(run.plan.timeoutMs);
  const running = runningStep(status);
  const { status: stopped, effects } = stopRunning(
    status,
    'failed',
    'Timeout',
    `the run's timeout of ${limit} passed`,
    at,
  );
  const where = running === undefined ? '' : `; step ${nameOf(running)} was running`;
  const message = `the run did not end within its timeout of ${limit}${where}`;
  return after(effects, fail(run, stopped, at, { reason: 'Timeout', message }));
}

function stopRunning(
  status: WorkflowExecutionStatus,
  phase: 'failed' | 'cancelled',
  reason: StepReason,
  message: string,
  at: number,
): { status: WorkflowExecutionStatus; effects: Effect[] } {
  const running = runningStep(status);
  const effects = running?.tool === undefined ? [] : [cancelCall(running)];
  return { status: closeRunning(status, phase, reason, message, at), effects };
}

function interrupted(running: StepStatus, at: number): StepStatus {
  const message =
    'the operator stopped while the call was under way, so what it did is not known; a step that may be repeated says `repeatable: true`';
  return closed(running, 'failed', at, { reason: 'Interrupted', message });
}

/** Values that no later step and no output reads. */
function unreadDropped(plan: Plan, steps: readonly StepStatus[], done: number): StepStatus[] {
  return steps.map((record, index) => {
    const planned = plan.steps[index];
    if (planned?.kind !== 'tool') return record;
    const { result, content, ...rest } = record;
    return {
      ...rest,
      ...(result !== undefined && planned.resultUntil > done && { result }),
      ...(content !== undefined && planned.contentUntil > done && { content }),
    };
  });
}

/** The status as it was before its last step began. */
function reopened({ step: _, ...status }: WorkflowExecutionStatus): WorkflowExecutionStatus {
  const steps = status.steps?.slice(0, -1) ?? [];
  const last = steps.findLast(({ phase }) => phase !== 'skipped');
  return { ...status, steps, ...(last !== undefined && { step: last.id }) };
}

function withStep(status: WorkflowExecutionStatus, record: StepStatus): WorkflowExecutionStatus {
  return { ...status, steps: [...(status.steps ?? []), record] };
}

/** Steps run one after the other: only the last can be running. */
function runningStep(status: WorkflowExecutionStatus): StepStatus | undefined {
  const last = status.steps?.at(-1);
  return last?.phase === 'running' ? last : undefined;
}

function runningCall(status: WorkflowExecutionStatus, call: CallId): StepStatus | undefined {
  const running = runningStep(status);
  return running?.id === call.step && running.attempt === call.attempt ? running : undefined;
}

function runDeadline(plan: Plan, status: WorkflowExecutionStatus): number {
  return Date.parse(status.startedAt ?? '') + plan.timeoutMs;
}

/** Counted from the step's record, not from the call: a write-ahead that does not come through is bounded too. */
function stepDueAt(plan: Plan, running: StepStatus): number {
  if (running.wakeAt !== undefined) return Date.parse(running.wakeAt);
  const planned = stepOf(plan, running.id);
  return Date.parse(running.startedAt) + (planned.kind === 'tool' ? planned.timeoutMs : 0);
}

/** @throws RangeError when the record names a step that the plan has not: it was made by another revision. */
function stepOf(plan: Plan, id: string): PlanStep {
  const planned = plan.steps.find((candidate) => candidate.id === id);
  if (planned === undefined)
    throw new RangeError(`the record names a step '${id}' that the workflow's revision has not`);
  return planned;
}

function cancelCall({ id, attempt }: StepStatus): Effect {
  return { type: 'cancelCall', call: { step: id, attempt } };
}

function nameOf({ id, tool }: StepStatus): string {
  return tool === undefined ? `'${id}'` : `'${id}' (${tool})`;
}

function failureText(record: StepStatus): string {
  return `step ${nameOf(record)} failed: ${record.reason} on attempt ${record.attempt}: ${record.message}`;
}

/** The reasons that a caller may act on are the run's own; the rest is read in the step's. */
function runReasonOf(reason: StepReason | undefined): ExecutionReason {
  return reason === 'Interrupted' || reason === 'ResultTooLarge' || reason === 'ProtocolError' ? reason : 'StepFailed';
}

function nothing(state: State): Transition {
  return { state, effects: [] };
}

function after(effects: readonly Effect[], next: Transition): Transition {
  return { state: next.state, effects: [...effects, ...next.effects] };
}
