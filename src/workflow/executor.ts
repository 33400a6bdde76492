import { FIRST_STEP_ANNOTATION } from '../api/constants.ts';
import type { ToolAnnotations } from '../api/workflow.ts';
import { isFinal, type WorkflowExecution, type WorkflowExecutionStatus } from '../api/workflow-execution.ts';
import { abortable } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { Plan } from './plan.ts';
import type {
  ExecutionStore,
  Progress,
  RecordEvent,
  ToolCaller,
  ToolDescription,
  ToolOutcome,
  ToolRef,
} from './ports.ts';
import { createProgressRelay, type ProgressRelay } from './progress.ts';
import { Recorder, RunLostError } from './recorder.ts';
import {
  type CallId,
  type CallToolEffect,
  createRun,
  type Effect,
  type Limits,
  type Run,
  type RunEvent,
  type State,
} from './run.ts';
import { dueAt, step } from './state.ts';

/** When the runner leaves, how long the last record may still be on its way. */
const HAND_ON_GRACE_MS = 5_000;

export interface DriveOptions {
  /** As it is stored, or, while it is being created, as it was sent: then without `metadata.uid`. */
  readonly execution: WorkflowExecution;
  /** The API server has acknowledged the create; of a stored one, itself. */
  readonly created: Promise<WorkflowExecution>;
  readonly plan: Plan;
  /** Name of the ControllerRevision that `plan` was made of. */
  readonly revision: string;
  readonly deps: DriveDeps;
  readonly onProgress?: (progress: Progress) => void;
}

export interface DriveDeps {
  readonly tools: ToolCaller;
  readonly store: ExecutionStore;
  readonly clock: Clock;
  readonly log: Logger;
  /** Identity of this replica. */
  readonly runner: string;
  readonly recordEvent: RecordEvent;
  readonly limits: Limits;
}

export interface Drive {
  /**
   * The run has ended, and is recorded so far as an answer needs: in full, or, when all that it called may be repeated,
   * created (design §4). Rejects as `recorded` does.
   */
  readonly ended: Promise<WorkflowExecution>;
  /** The end is recorded. @throws RunLostError when this replica drives it no longer; else what the create or write failed with */
  readonly recorded: Promise<WorkflowExecution>;
  /** A newer version was seen: takes its `spec.cancel`. */
  observe(execution: WorkflowExecution): void;
  cancel(): void;
  /** Starts no further step; lets the call in flight end and records it, then hands the run on. */
  drain(): void;
  /** The execution was deleted: aborts what is in flight and writes nothing. */
  forget(): void;
}

/**
 * Drives one execution to its end: performs the effects of `step` and feeds it what becomes of them. When `signal` aborts,
 * the calls in flight are given up and the run is left as it is recorded, for whoever takes it up; who wants calls to end
 * by themselves drains first.
 */
export function drive(options: DriveOptions, signal: AbortSignal): Drive {
  const driver = new Driver(options);
  driver.begin(signal);
  return driver;
}

/**
 * What a creator that drives its run sets as `convoke.dev/first-step`: the first step, when its call may have an effect. The
 * create is then its write-ahead record.
 */
export function firstStepAnnotation(
  plan: Plan,
  describe: (tool: ToolRef) => ToolDescription | undefined,
): string | undefined {
  const [first] = plan.steps;
  if (first?.kind !== 'tool') return undefined;
  return (first.repeatable ?? mayBeRepeated(describe(first.tool)?.annotations)) ? undefined : first.id;
}

function mayBeRepeated(annotations: ToolAnnotations | undefined): boolean {
  return annotations?.readOnlyHint === true || annotations?.idempotentHint === true;
}

class Driver implements Drive {
  readonly #options: DriveOptions;
  readonly #run: Run;
  readonly #recorder: Recorder;
  readonly #progress: ProgressRelay;
  /** Ends everything that this run has under way. */
  readonly #over = new AbortController();
  readonly #ended = Promise.withResolvers<WorkflowExecution>();
  readonly #recorded = Promise.withResolvers<WorkflowExecution>();
  readonly #calls = new Map<string, AbortController>();
  #state: State;
  #timer = new AbortController();
  /** A call was made whose loss would be noticed: the answer waits for its record. */
  #hadEffects = false;
  #finishing = false;

  constructor(options: DriveOptions) {
    const { execution, plan, deps, created, onProgress } = options;
    const { namespace = '' } = execution.metadata;
    this.#options = options;
    this.#run = createRun({
      plan,
      execution,
      limits: deps.limits,
      isRepeatable: (tool) => mayBeRepeated(deps.tools.describe(namespace, tool)?.annotations),
    });
    this.#state = { status: execution.status };
    this.#progress = createProgressRelay(plan, onProgress);
    const parts = {
      ...deps,
      created,
      onRead: (read: WorkflowExecution) => this.observe(read),
      onTooLarge: (bytes: number) => this.#dispatch({ type: 'tooLarge', at: deps.clock.now(), bytes }),
      onFailure: (error: unknown) => this.#lose(error),
    };
    this.#recorder = new Recorder(parts, this.#over.signal);
    // Both are there for whoever asks; a rejection that nobody asks for is logged.
    this.ended.catch(() => {});
    this.recorded.catch(() => {});
  }

  get ended(): Promise<WorkflowExecution> {
    return this.#ended.promise;
  }

  get recorded(): Promise<WorkflowExecution> {
    return this.#recorded.promise;
  }

  begin(signal: AbortSignal): void {
    const { execution, created, revision, deps } = this.#options;
    const { metadata, spec, status } = execution;
    if (isFinal(status?.phase)) {
      this.#ended.resolve(execution);
      this.#recorded.resolve(execution);
      return;
    }
    created.catch((error: unknown) => this.#lose(error));
    if (signal.aborted) {
      this.#lose(handedOn());
      return;
    }
    signal.addEventListener('abort', () => this.#leave(), { once: true, signal: this.#over.signal });
    const common = { at: deps.clock.now(), runner: deps.runner, cancel: spec.cancel === true };
    const announced = metadata.annotations?.[FIRST_STEP_ANNOTATION];
    const creating = metadata.uid === undefined;
    if (status === undefined) this.#dispatch({ type: 'start', ...common, revision, announced, creating });
    else this.#dispatch({ type: 'resume', ...common });
  }

  observe(execution: WorkflowExecution): void {
    if (execution.spec.cancel === true) this.cancel();
  }

  cancel(): void {
    this.#dispatch({ type: 'cancel', at: this.#options.deps.clock.now() });
  }

  drain(): void {
    this.#dispatch({ type: 'stop', at: this.#options.deps.clock.now() });
    this.#handOn();
  }

  forget(): void {
    this.#lose(new RunLostError('deleted', 'the execution was deleted'));
  }

  /**
   * The one place where the state changes. The status is saved before the effects are performed, so that a call which waits
   * for its record waits for this one. What `step` throws is a fault of ours: the run is broken off, its record stands.
   */
  #dispatch(event: RunEvent): void {
    if (this.#over.signal.aborted) return;
    try {
      const before = this.#state.status;
      const { state, effects } = step(this.#run, this.#state, event);
      this.#state = state;
      if (state.status !== undefined && state.status !== before) this.#save(state.status, effects);
      for (const effect of effects) this.#perform(effect);
      this.#arm();
      if (state.status !== undefined && isFinal(state.status.phase)) this.#finish(state.status);
    } catch (error) {
      this.#lose(error);
    }
  }

  #save(status: WorkflowExecutionStatus, effects: readonly Effect[]): void {
    const { recordEvent } = this.#options.deps;
    this.#progress.onStatus(status);
    const reports = effects.flatMap((effect) => (effect.type === 'report' ? [effect] : []));
    this.#recorder.save(status, (stored) => {
      for (const { level, reason, message } of reports) recordEvent(stored, level, reason, message);
    });
  }

  #perform(effect: Effect): void {
    if (effect.type === 'callTool') this.#begin(effect);
    if (effect.type === 'cancelCall') this.#calls.get(keyOf(effect.call))?.abort();
  }

  /** Not awaited: whatever becomes of the call comes back as an event. `ToolCaller` never rejects; if it does, that is a fault. */
  #begin(effect: CallToolEffect): void {
    if (effect.after !== 'nothing') this.#hadEffects = true;
    const controller = new AbortController();
    const key = keyOf(effect.call);
    this.#calls.set(key, controller);
    this.#call(effect, controller.signal)
      .catch((error: unknown) => this.#lose(error))
      .finally(() => {
        this.#calls.delete(key);
        this.#handOn();
      });
  }

  async #call(effect: CallToolEffect, signal: AbortSignal): Promise<void> {
    const { execution, deps } = this.#options;
    const { call, tool, args } = effect;
    if (!(await this.#cleared(effect, signal))) return;
    const onProgress = this.#progress.ofCall;
    const outcome = await deps.tools.call(
      {
        ...tool,
        namespace: execution.metadata.namespace ?? '',
        args,
        key: stepKey(execution, call.step),
        ...(onProgress !== undefined && { onProgress }),
      },
      signal,
    );
    this.#dispatch({ type: 'outcome', at: deps.clock.now(), call, outcome });
  }

  /** Waits for what must be acknowledged before the call; false when it is not to be made any more. */
  async #cleared({ call, after }: CallToolEffect, signal: AbortSignal): Promise<boolean> {
    const { created, deps } = this.#options;
    try {
      if (after === 'create') await abortable(created, signal);
      if (after === 'status') await abortable(this.#recorder.flush(), signal);
      signal.throwIfAborted(); // it may have been aborted just after what it waited for came
      return !this.#over.signal.aborted;
    } catch {
      // Aborted; or the create or the write failed, which has ended the run here.
      const at = deps.clock.now();
      const aborted: ToolOutcome = { kind: 'aborted' };
      const cancelled = this.#state.cancelBy !== undefined;
      this.#dispatch(cancelled ? { type: 'outcome', at, call, outcome: aborted } : { type: 'withdrawn', at, call });
      return false;
    }
  }

  /** One timer, for whatever is due next. */
  #arm(): void {
    this.#timer.abort();
    const due = dueAt(this.#run, this.#state);
    if (due === undefined) return;
    const { clock } = this.#options.deps;
    this.#timer = new AbortController();
    clock.sleep(Math.max(0, due - clock.now()), this.#timer.signal).then(
      () => this.#dispatch({ type: 'tick', at: clock.now() }),
      () => {}, // something else came first
    );
  }

  /** Answers the caller as soon as design §4 lets it, and ends when the last record is acknowledged. */
  #finish(status: WorkflowExecutionStatus): void {
    if (this.#finishing) return; // the end was too large to be recorded and has just become another
    this.#finishing = true;
    const { created } = this.#options;
    if (!this.#hadEffects) created.then((stored) => this.#ended.resolve({ ...stored, status })).catch(() => {});
    this.#recorder.flush().then(
      (stored) => {
        this.#recorded.resolve(stored);
        this.#ended.resolve(stored);
        this.#over.abort();
      },
      (error: unknown) => this.#lose(error),
    );
  }

  /** Gives up what is in flight; what is known by then may still be recorded, for a while. */
  #leave(): void {
    this.#dispatch({ type: 'stop', at: this.#options.deps.clock.now() });
    for (const call of this.#calls.values()) call.abort();
    this.#options.deps.clock.sleep(HAND_ON_GRACE_MS, this.#over.signal).then(
      () => this.#lose(handedOn()),
      () => {},
    );
    this.#handOn();
  }

  /** Ends here once a run that starts nothing more has nothing in flight. */
  #handOn(): void {
    const { stopping, status } = this.#state;
    if (this.#over.signal.aborted || !stopping || this.#calls.size > 0 || isFinal(status?.phase)) return;
    this.#recorder.flush().then(
      () => this.#lose(handedOn()),
      (error: unknown) => this.#lose(error),
    );
  }

  /** Ends the drive without an end of the run: nothing more is written, and whoever waits is told why. */
  #lose(cause: unknown): void {
    if (this.#over.signal.aborted) return;
    const { log } = this.#options.deps;
    // Whoever stops us also ends the create and the write that are under way.
    const error = this.#state.stopping && !(cause instanceof RunLostError) ? handedOn(cause) : cause;
    if (error instanceof RunLostError) log.info({ why: error.why, error: describeError(error) }, 'run given away');
    else log.error({ error: describeError(error) }, 'run broken off');
    this.#over.abort(error);
    this.#timer.abort();
    for (const call of this.#calls.values()) call.abort();
    this.#ended.reject(error);
    this.#recorded.reject(error);
  }
}

function handedOn(cause?: unknown): RunLostError {
  const message = 'the operator is stopping; the run goes on from its record when one takes it up';
  return new RunLostError('handed-on', message, { cause });
}

function keyOf({ step, attempt }: CallId): string {
  return `${step}#${attempt}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The same for every attempt at a step of this run, never for another run's. A name that we made is unique for ever; one
 * that a person chose may be used again after a delete, so there the uid speaks.
 */
function stepKey({ metadata: { namespace = '', name, uid } }: WorkflowExecution, step: string): string {
  return `${namespace}/${UUID.test(name) ? name : (uid ?? name)}/${step}`;
}
