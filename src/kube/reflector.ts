import type { KubeObject } from '../api/object.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { ResourceClient } from './client.ts';
import { type Change, type ChangeKind, type Indexes, ObjectStore } from './object-store.ts';
import { type Effect, type Input, initialState, type State, step } from './reflector-state.ts';
import type { Store } from './store.ts';

const PAGE_SIZE = 250;
const SILENCE_MS = 90_000;
/** Each watch lasts 290 to 590 s, as long as chance will, so that those of many replicas do not end together. */
const WATCH_SECONDS = { least: 290, spread: 300 };

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: ResourceClient<T>;
  /** Undefined: all namespaces. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string;
  readonly indexes?: Indexes<T>;
  /** Called after the store has changed; to enqueue the key, no more. What it throws is logged. */
  readonly onKey: (key: string, change: ChangeKind) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Reflector<T extends KubeObject> {
  readonly store: Store<T>;
  /** Resolves after the first full list, its keys handed out; rejects with the signal's reason when stopped before. */
  readonly synced: Promise<void>;
  /** Resolves when the signal has aborted and nothing runs any more. */
  readonly done: Promise<void>;
  /** When the last full list was complete, ms since the epoch. */
  readonly lastSync: number | undefined;
  /** When the server last answered as it should: a page, an event, a bookmark, an orderly end of a watch. */
  readonly lastContact: number | undefined;
  /** Puts in what a write of our own was answered, so that it is served before the watch has it. Late answers do no harm. */
  observe(object: T): void;
  /** Calls `listener` at each change of one object, until the returned function is called. */
  subscribe(key: string, listener: (change: ChangeKind) => void): () => void;
  /** Lists anew at once. */
  relist(): void;
}

/** Mirrors a type of resource into a store until `signal` aborts, whatever becomes of the API server meanwhile. */
export function startReflector<T extends KubeObject>(options: ReflectorOptions<T>, signal: AbortSignal): Reflector<T> {
  return new RunningReflector(options, signal);
}

class RunningReflector<T extends KubeObject> implements Reflector<T> {
  readonly store: ObjectStore<T>;
  readonly synced: Promise<void>;
  readonly done: Promise<void>;
  lastSync: number | undefined;
  lastContact: number | undefined;
  readonly #options: ReflectorOptions<T>;
  readonly #log: Logger;
  readonly #listeners = new Map<string, Set<(change: ChangeKind) => void>>();
  readonly #firstSync = Promise.withResolvers<void>();
  #state: State<T> = initialState();
  /** Ends the state's action for the sake of `relist`. */
  #interruption = new AbortController();

  constructor(options: ReflectorOptions<T>, signal: AbortSignal) {
    this.#options = options;
    this.#log = options.log.child({ resource: options.client.type.plural });
    this.store = new ObjectStore(options.indexes);
    this.synced = this.#firstSync.promise;
    this.synced.catch(() => {}); // whoever awaits it sees the rejection; that nobody does is no fault
    this.done = this.#run(signal);
  }

  observe(object: T): void {
    this.#announce(this.store.observe(object));
  }

  subscribe(key: string, listener: (change: ChangeKind) => void): () => void {
    const listeners = this.#listeners.get(key) ?? new Set();
    this.#listeners.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(key) === listeners) this.#listeners.delete(key);
    };
  }

  relist(): void {
    this.#interruption.abort();
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#interruption = new AbortController();
      const interrupted = this.#interruption.signal;
      await this.#act(AbortSignal.any([signal, interrupted]));
      if (interrupted.aborted) this.#feed({ kind: 'relist' });
    }
    this.#firstSync.reject(signal.reason);
  }

  /** Does what the state says, to its end, and feeds what comes of it. */
  async #act(signal: AbortSignal): Promise<void> {
    for await (const input of this.#perform(this.#state, signal)) {
      if (signal.aborted) return;
      this.#feed(input);
    }
  }

  async *#perform(state: State<T>, signal: AbortSignal): AsyncGenerator<Input<T>, void> {
    const { client, namespace, clock } = this.#options;
    try {
      switch (state.kind) {
        case 'listing': {
          const token = state.continue !== undefined && { continue: state.continue };
          const page = await client.list(namespace, { limit: PAGE_SIZE, ...token, ...this.#selector() }, signal);
          yield { kind: 'page', page };
          return;
        }
        case 'watching': {
          const { resourceVersion } = state;
          const timeoutSeconds = WATCH_SECONDS.least + Math.floor(Math.random() * WATCH_SECONDS.spread);
          const watch = { resourceVersion, timeoutSeconds, silenceMs: SILENCE_MS, ...this.#selector() };
          for await (const event of client.watch(namespace, watch, signal)) yield { kind: 'event', event };
          yield { kind: 'ended' };
          return;
        }
        case 'waiting':
          await clock.sleep(state.ms, signal);
          yield { kind: 'waited' };
      }
    } catch (error) {
      yield { kind: 'failed', error };
    }
  }

  #selector(): { labelSelector?: string } {
    const { labelSelector } = this.#options;
    return labelSelector === undefined ? {} : { labelSelector };
  }

  #feed(input: Input<T>): void {
    const before = this.#state;
    const now = this.#options.clock.now();
    const { state, effects } = step(before, input, { now, random: Math.random() });
    this.#state = state;
    if (input.kind === 'page' || input.kind === 'event' || input.kind === 'ended') this.lastContact = now;
    if (input.kind === 'failed') this.#logFailure(before, input.error);
    for (const effect of effects) this.#carryOut(effect, now);
  }

  #carryOut(effect: Effect<T>, now: number): void {
    if (effect.kind === 'apply') {
      this.#announce(this.store.apply(effect.event));
      return;
    }
    const { objects, resourceVersion } = effect;
    this.#announce(this.store.replace(objects, resourceVersion));
    this.lastSync = now;
    this.#firstSync.resolve();
    this.#log.debug({ objects: objects.length, resourceVersion }, 'listed');
  }

  #logFailure(during: State<T>, error: unknown): void {
    const { kind, retry } = this.#state;
    const retryInMs = this.#state.kind === 'waiting' ? Math.round(this.#state.ms) : 0;
    const keys = { during: during.kind, next: kind, failures: retry.failures, retryInMs, error: describeError(error) };
    this.#log.warn(keys, 'list or watch failed');
  }

  #announce(changes: readonly Change[]): void {
    for (const { key, kind } of changes) {
      this.#tell(() => this.#options.onKey(key, kind), key);
      for (const listener of [...(this.#listeners.get(key) ?? [])]) this.#tell(() => listener(kind), key);
    }
  }

  /** A handler that throws must not cost the reflector its life. */
  #tell(handler: () => void, key: string): void {
    try {
      handler();
    } catch (error) {
      this.#log.error({ key, error: describeError(error) }, 'handler of a change failed');
    }
  }
}
