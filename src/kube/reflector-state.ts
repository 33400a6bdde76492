import type { KubeObject } from '../api/object.ts';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import type { ListPage, WatchEvent } from './client.ts';
import { GoneError } from './errors.ts';
import { versionOf } from './resource-version.ts';

/**
 * The life of a reflector as a pure function, after kube-rs's `watcher.rs`. The state says what to do now (ask for a
 * page, watch, wait); the shell (reflector.ts) does it, feeds what came of it to `step`, and carries out the effects
 * on the store. Nothing here ends it: every failure is retried.
 */
export type State<T> = { readonly retry: Retry } & (Listing<T> | Watching | Waiting);

export interface Listing<T> {
  readonly kind: 'listing';
  /** The pages so far, kept aside until the list is whole. */
  readonly pages: readonly (readonly T[])[];
  /** Token of the page to ask for; absent for the first. */
  readonly continue?: string;
  /** Whether this list began because the one before had expired under way. */
  readonly restarted: boolean;
}

export interface Watching {
  readonly kind: 'watching';
  /** Where this watch, or the next, goes on. */
  readonly resourceVersion: string;
  /** Whether `resourceVersion` is still the list's own. */
  readonly fresh: boolean;
  readonly openedAt: number;
  /** Whether this watch has not delivered anything yet. */
  readonly quiet: boolean;
}

export interface Waiting {
  readonly kind: 'waiting';
  readonly ms: number;
  readonly next: 'list' | Pick<Watching, 'resourceVersion' | 'fresh'>;
}

export interface Retry {
  /** Delays in a row without `HEALTHY_MS` of peace between them. */
  readonly failures: number;
  /** When the last delay ended, ms since the epoch. */
  readonly resumedAt: number;
}

/** What came of the state's action. `relist` is the trigger from outside. */
export type Input<T> =
  | { readonly kind: 'page'; readonly page: ListPage<T> }
  | { readonly kind: 'event'; readonly event: WatchEvent<T> }
  | { readonly kind: 'ended' }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'waited' }
  | { readonly kind: 'relist' };

export type Effect<T> =
  | { readonly kind: 'replace'; readonly objects: readonly T[]; readonly resourceVersion: string }
  | { readonly kind: 'apply'; readonly event: WatchEvent<T> };

export interface Step<T> {
  readonly state: State<T>;
  readonly effects: readonly Effect<T>[];
}

/** The time of the input in ms since the epoch, and a random number in [0, 1) for it. */
export interface Moment {
  readonly now: number;
  readonly random: number;
}

const BACKOFF: Backoff = { base: 800, factor: 2, max: 30_000, jitter: 1 };
const HEALTHY_MS = 120_000;
/** A watch that ends sooner without an event counts as a failure: a server that ends each at once must not be hammered. */
const SHORT_WATCH_MS = 1_000;

export function initialState<T>(): State<T> {
  return list({ failures: 0, resumedAt: 0 });
}

/** An input that does not belong to the state's action changes nothing. */
export function step<T extends KubeObject>(state: State<T>, input: Input<T>, moment: Moment): Step<T> {
  if (input.kind === 'relist') return { state: list(state.retry), effects: [] };
  switch (state.kind) {
    case 'listing':
      if (input.kind === 'page') return onPage(state, input.page, moment);
      if (input.kind === 'failed') return { state: onListFailure(state, input.error, moment), effects: [] };
      break;
    case 'watching':
      if (input.kind === 'event') return onEvent(state, input.event);
      if (input.kind === 'ended') return { state: onWatchEnd(state, moment), effects: [] };
      if (input.kind === 'failed') return { state: onWatchFailure(state, input.error, moment), effects: [] };
      break;
    case 'waiting':
      if (input.kind === 'waited') return { state: onWaited(state, moment), effects: [] };
  }
  return { state, effects: [] };
}

function onPage<T>(state: State<T> & Listing<T>, page: ListPage<T>, moment: Moment): Step<T> {
  const pages = [...state.pages, page.items];
  if (page.continue !== undefined) return { state: { ...state, pages, continue: page.continue }, effects: [] };
  // All pages show one moment of the server, so the last one's resourceVersion is that of the whole list.
  const { resourceVersion } = page;
  return {
    state: watch(state.retry, { resourceVersion, fresh: true }, moment),
    effects: [{ kind: 'replace', objects: pages.flat(), resourceVersion }],
  };
}

/** A list that expired under way begins again at once, but only once: where each expires, slower is right. */
function onListFailure<T>(state: State<T> & Listing<T>, error: unknown, moment: Moment): State<T> {
  const expired = error instanceof GoneError && state.continue !== undefined;
  return expired && !state.restarted ? { ...list(state.retry), restarted: true } : wait(state.retry, 'list', moment);
}

function onEvent<T extends KubeObject>(state: State<T> & Watching, event: WatchEvent<T>): Step<T> {
  const resourceVersion = event.type === 'BOOKMARK' ? event.resourceVersion : versionOf(event.object);
  const quiet = state.quiet && event.type === 'BOOKMARK';
  return { state: { ...state, resourceVersion, fresh: false, quiet }, effects: [{ kind: 'apply', event }] };
}

function onWatchEnd<T>(state: State<T> & Watching, moment: Moment): State<T> {
  const short = state.quiet && moment.now - state.openedAt < SHORT_WATCH_MS;
  return short ? wait(state.retry, state, moment) : watch(state.retry, state, moment);
}

/**
 * A version that is too old calls for a list at once, unless it is the list's own: that would go round and round.
 * Silence is a failure like any other: after 90 s of it, a delay of less than a second does not matter.
 */
function onWatchFailure<T>(state: State<T> & Watching, error: unknown, moment: Moment): State<T> {
  if (!(error instanceof GoneError)) return wait(state.retry, state, moment);
  return state.fresh ? wait(state.retry, 'list', moment) : list(state.retry);
}

function onWaited<T>({ retry, next }: State<T> & Waiting, moment: Moment): State<T> {
  return next === 'list' ? list(retry) : watch(retry, next, moment);
}

function list<T>(retry: Retry): State<T> & Listing<T> {
  return { kind: 'listing', retry, pages: [], restarted: false };
}

function watch<T>(
  retry: Retry,
  { resourceVersion, fresh }: Pick<Watching, 'resourceVersion' | 'fresh'>,
  { now }: Moment,
): State<T> {
  return { kind: 'watching', retry, resourceVersion, fresh, openedAt: now, quiet: true };
}

function wait<T>(retry: Retry, goal: Waiting['next'], { now, random }: Moment): State<T> {
  const failures = now - retry.resumedAt >= HEALTHY_MS ? 0 : retry.failures;
  const ms = backoffDelay(BACKOFF, failures, () => random);
  const next = goal === 'list' ? goal : { resourceVersion: goal.resourceVersion, fresh: goal.fresh };
  return { kind: 'waiting', retry: { failures: failures + 1, resumedAt: now + ms }, ms, next };
}
