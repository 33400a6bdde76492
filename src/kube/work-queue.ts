import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';

/** No more to do until the key is added again, or a run after that many milliseconds. */
export type Outcome = 'done' | { readonly after: number };

/** Thrown by a reconcile for what no retry can mend: logged, and not tried again until the key is added. */
export class TerminalError extends Error {
  override name = 'TerminalError';
}

export interface WorkQueueOptions {
  /** For the log. */
  readonly name: string;
  /** How many keys are worked on at a time. */
  readonly concurrency: number;
  /** Brings the world to what the objects say. An error that it throws is retried with backoff. */
  readonly reconcile: (key: string, signal: AbortSignal) => Promise<Outcome>;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface WorkQueue {
  /** Runs the key soon: once, however often it is added before; once more after, when it is being worked on. */
  add(key: string): void;
  /**
   * Runs the key in `ms` at the latest. The earliest of all pending times wins, and a run settles them all: what a
   * reconcile still waits for, it asks for again by its outcome.
   */
  addAfter(key: string, ms: number): void;
  /** Resolves when nothing runs and nothing is due; after a stop, when the last run has ended. Delays do not count. */
  idle(): Promise<void>;
}

/**
 * As controller-runtime's, but up to a minute instead of 1,000 s: after a long outage of the API server nothing waits about
 * as long again. Per key, so without jitter.
 */
const BACKOFF: Backoff = { base: 5, factor: 2, max: 60_000, jitter: 0 };

/**
 * A queue of keys for a level-triggered reconcile, after controller-runtime's: no key is worked on twice at a time.
 * When `signal` aborts, nothing starts any more and the runs get that same signal.
 */
export function startWorkQueue(options: WorkQueueOptions, signal: AbortSignal): WorkQueue {
  return new RunningQueue(options, signal);
}

class RunningQueue implements WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #log: Logger;
  readonly #signal: AbortSignal;
  /** A key is in at most one of these two; it may be in `#delayed` besides. */
  readonly #due = new Set<string>();
  readonly #running = new Set<string>();
  /** Running, and to run once more. */
  readonly #again = new Set<string>();
  /** Key → when it is due, ms since the epoch. */
  readonly #delayed = new Map<string, number>();
  readonly #failures = new Map<string, number>();
  #idlers: (() => void)[] = [];
  #pumpIsScheduled = false;
  /** The one sleep for the earliest of `#delayed`. */
  #alarm: { readonly at: number; readonly controller: AbortController } | undefined;

  constructor(options: WorkQueueOptions, signal: AbortSignal) {
    this.#options = options;
    this.#log = options.log.child({ queue: options.name });
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#stop(), { once: true });
  }

  add(key: string): void {
    if (this.#signal.aborted) return;
    this.#delayed.delete(key);
    if (this.#running.has(key)) {
      this.#again.add(key);
      return;
    }
    this.#due.add(key);
    this.#schedulePump();
  }

  addAfter(key: string, ms: number): void {
    if (ms <= 0) {
      this.add(key);
      return;
    }
    if (this.#signal.aborted || this.#due.has(key) || this.#again.has(key)) return;
    const at = this.#options.clock.now() + ms;
    const pending = this.#delayed.get(key);
    if (pending !== undefined && pending <= at) return;
    this.#delayed.set(key, at);
    this.#setAlarm(at);
  }

  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#idlers.push(resolve);
    return promise;
  }

  #isIdle(): boolean {
    return this.#running.size === 0 && this.#due.size === 0;
  }

  /** After the current task of the event loop, so that a key which is added several times in it runs once. */
  #schedulePump(): void {
    if (this.#pumpIsScheduled) return;
    this.#pumpIsScheduled = true;
    queueMicrotask(() => {
      this.#pumpIsScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    for (const key of this.#due) {
      if (this.#running.size >= this.#options.concurrency) return;
      this.#due.delete(key);
      this.#running.add(key);
      void this.#run(key);
    }
    if (!this.#isIdle()) return;
    const idlers = this.#idlers;
    this.#idlers = [];
    for (const resolve of idlers) resolve();
  }

  async #run(key: string): Promise<void> {
    try {
      const outcome = await this.#options.reconcile(key, this.#signal);
      this.#failures.delete(key);
      if (outcome !== 'done') this.addAfter(key, outcome.after);
    } catch (error) {
      if (!this.#signal.aborted) this.#onFailure(key, error);
    }
    this.#running.delete(key);
    if (this.#again.delete(key)) this.#due.add(key);
    this.#pump();
  }

  #onFailure(key: string, error: unknown): void {
    if (error instanceof TerminalError) {
      this.#failures.delete(key);
      this.#log.error({ key, error: describeError(error) }, 'reconcile failed for good');
      return;
    }
    const attempt = this.#failures.get(key) ?? 0;
    const retryInMs = backoffDelay(BACKOFF, attempt);
    this.#failures.set(key, attempt + 1);
    this.#log.warn({ key, attempt: attempt + 1, retryInMs, error: describeError(error) }, 'reconcile failed');
    this.addAfter(key, retryInMs);
  }

  #setAlarm(at: number): void {
    if (this.#alarm !== undefined && this.#alarm.at <= at) return;
    this.#alarm?.controller.abort();
    const controller = new AbortController();
    this.#alarm = { at, controller };
    void this.#options.clock.sleep(at - this.#options.clock.now(), controller.signal).then(
      () => this.#onAlarm(),
      () => {}, // aborted: an earlier alarm took its place, or the queue has stopped
    );
  }

  #onAlarm(): void {
    this.#alarm = undefined;
    const now = this.#options.clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const [key, at] of this.#delayed) {
      if (at <= now) this.add(key);
      else next = Math.min(next, at);
    }
    if (next !== Number.POSITIVE_INFINITY) this.#setAlarm(next);
  }

  #stop(): void {
    this.#alarm?.controller.abort();
    this.#alarm = undefined;
    this.#due.clear();
    this.#again.clear();
    this.#delayed.clear();
    this.#pump();
  }
}
