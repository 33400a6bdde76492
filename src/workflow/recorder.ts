import { isDeepStrictEqual } from 'node:util';
import type { WorkflowExecution, WorkflowExecutionStatus } from '../api/workflow-execution.ts';
import { ConflictError, NotFoundError, TooLargeError } from '../kube/errors.ts';
import { abortable } from '../lib/abort.ts';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import type { ExecutionStore } from './ports.ts';
import { jsonBytes } from './values.ts';

/** A status that nobody waits for is written after so long, with whatever came after it (field case 74). */
const IDLE_WRITE_MS = 1000;

/** For a writer beside us that never rests (field case 61). */
const CONFLICT_BACKOFF: Backoff = { base: 20, factor: 2, max: 1000, jitter: 0.5 };

/** This replica drives the run no longer. Its record stands as it is, or is gone. */
export class RunLostError extends Error {
  override name = 'RunLostError';
  readonly why: 'claimed' | 'deleted' | 'handed-on';

  constructor(why: 'claimed' | 'deleted' | 'handed-on', message: string, options?: ErrorOptions) {
    super(message, options);
    this.why = why;
  }
}

export interface RecorderParts {
  /** The execution as it is stored, once it is. */
  readonly created: Promise<WorkflowExecution>;
  readonly runner: string;
  readonly store: ExecutionStore;
  readonly clock: Clock;
  readonly log: Logger;
  /** A newer version was read, with a spec that may have changed. */
  readonly onRead: (execution: WorkflowExecution) => void;
  /** The status does not fit; has to `save` a smaller one. */
  readonly onTooLarge: (bytes: number) => void;
  /** The write failed for good; so will those after it. */
  readonly onFailure: (error: unknown) => void;
}

type Acknowledged = (stored: WorkflowExecution) => void;

/**
 * The one writer of an execution's status: at most one write is under way, each on the resourceVersion of the last, and
 * what was saved meanwhile goes into the next. Fences itself (design §4): it writes nothing over another runner's claim.
 */
export class Recorder {
  readonly #parts: RecorderParts;
  readonly #signal: AbortSignal;
  #stored: WorkflowExecution | undefined;
  #status: WorkflowExecutionStatus | undefined;
  /** How many statuses were saved, how many of them are to be written now, and how many are acknowledged. */
  #saved = 0;
  #due = 0;
  #acknowledged = 0;
  /** Of what did not fit a small record was made already. */
  #tooLarge = false;
  #waiting: { saved: number; notify: Acknowledged }[] = [];
  #writing: Promise<void> | undefined;
  #idle: AbortController | undefined;

  constructor(parts: RecorderParts, signal: AbortSignal) {
    this.#parts = parts;
    this.#signal = signal;
  }

  /** Takes `status` for the next write; `notify` is called once it, or a later one, is acknowledged. */
  save(status: WorkflowExecutionStatus, notify: Acknowledged): void {
    this.#status = status;
    this.#saved++;
    this.#waiting.push({ saved: this.#saved, notify });
    this.#idle ??= this.#flushLater();
  }

  /** Resolves with the object as stored when everything that was saved until now is acknowledged. */
  async flush(): Promise<WorkflowExecution> {
    const target = this.#saved;
    this.#due = target;
    while (this.#acknowledged < target) {
      this.#writing ??= this.#write().finally(() => {
        this.#writing = undefined;
      });
      await this.#writing;
    }
    return this.#stored ?? this.#parts.created;
  }

  #flushLater(): AbortController {
    const idle = new AbortController();
    this.#parts.clock
      .sleep(IDLE_WRITE_MS, AbortSignal.any([idle.signal, this.#signal]))
      .then(() => {
        this.#idle = undefined;
        return this.flush();
      })
      .catch(() => {}); // written before its time, or `onFailure` has said it
    return idle;
  }

  async #write(): Promise<void> {
    try {
      this.#stored ??= await abortable(this.#parts.created, this.#signal);
      for (let failures = 0; this.#acknowledged < this.#due; ) {
        const saved = this.#saved;
        const written = await this.#attempt(this.#stored, failures);
        failures = written ? 0 : failures + 1;
        if (written) this.#acknowledge(saved, this.#stored);
      }
    } catch (error) {
      this.#parts.onFailure(error);
      throw error;
    }
  }

  /** One PUT of the newest status; false when it has to be tried again on what is stored now, or with what is saved now. */
  async #attempt(base: WorkflowExecution, failures: number): Promise<boolean> {
    const { store, clock, onTooLarge } = this.#parts;
    const status = this.#status;
    if (failures > 1) await clock.sleep(backoffDelay(CONFLICT_BACKOFF, failures), this.#signal);
    this.#signal.throwIfAborted();
    try {
      this.#stored = await store.writeStatus({ ...base, ...(status !== undefined && { status }) }, this.#signal);
      return true;
    } catch (error) {
      if (error instanceof NotFoundError) throw deleted();
      if (error instanceof ConflictError) this.#stored = await this.#reread(base);
      else if (error instanceof TooLargeError && !this.#tooLarge) {
        this.#tooLarge = true;
        onTooLarge(jsonBytes(status));
      } else throw error;
      return false;
    }
  }

  async #reread(base: WorkflowExecution): Promise<WorkflowExecution> {
    const { store, runner, onRead, log } = this.#parts;
    const { name, namespace = '', uid } = base.metadata;
    const read = await store.read(namespace, name, this.#signal).catch((error: unknown) => {
      throw error instanceof NotFoundError ? deleted() : error;
    });
    if (read.metadata.uid !== uid) throw deleted();
    const other = read.status?.runner?.id;
    // A claim of ours may have been carried out although its answer was lost: then the runner is us.
    if (other !== runner && !isDeepStrictEqual(read.status, base.status)) {
      throw new RunLostError('claimed', `the run was taken over by ${other ?? 'another writer of its status'}`);
    }
    log.debug({ resourceVersion: read.metadata.resourceVersion }, 'execution changed under its runner; writing again');
    onRead(read);
    return read;
  }

  #acknowledge(saved: number, stored: WorkflowExecution): void {
    this.#acknowledged = saved;
    if (saved === this.#saved) {
      this.#idle?.abort();
      this.#idle = undefined;
    }
    const done = this.#waiting.filter((entry) => entry.saved <= saved);
    this.#waiting = this.#waiting.filter((entry) => entry.saved > saved);
    for (const { notify } of done) notify(stored);
  }
}

function deleted(): RunLostError {
  return new RunLostError('deleted', 'the execution was deleted');
}
