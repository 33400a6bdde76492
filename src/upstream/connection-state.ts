import { type Backoff, backoffDelay } from '../lib/backoff.ts';

/**
 * The life of the connection to one MCPServer, as a pure function; src/upstream/connection.ts performs the effects. It
 * knows no transport and no timer: times are milliseconds given with each input.
 */
export type ConnectionState =
  /** There is nothing to connect to: no spec yet, or one that may not be used. */
  | { readonly kind: 'idle'; readonly fault?: Fault }
  /** An attempt is under way. `renewing`: the server is there and only forgot our session, so it still counts as ready. */
  | { readonly kind: 'connecting'; readonly failures: number; readonly fault?: Fault; readonly renewing: boolean }
  /** `failures` are kept until it has held for a while, so that one that breaks at once is not retried at once. */
  | { readonly kind: 'ready'; readonly failures: number; readonly since: number; readonly probing: boolean }
  | {
      readonly kind: 'backingOff';
      readonly failures: number;
      readonly fault: Fault;
      readonly since: number;
      readonly until: number;
    }
  | { readonly kind: 'stopped' };

/** Why it is not ready. */
export interface Fault {
  /** One word for a machine. */
  readonly reason: string;
  /** The rest of the sentence `MCPServer "x" …`; fit for a client: no address. */
  readonly message: string;
  /** For an admin: the inner text, which may hold addresses. */
  readonly detail?: string;
}

export type ConnectionInput =
  /** There is a spec, or another one. */
  | { readonly type: 'configured' }
  /** The spec may not be used. */
  | { readonly type: 'unusable'; readonly fault: Fault }
  | { readonly type: 'connected' }
  | { readonly type: 'failed'; readonly fault: Fault }
  /** The time that `wake` asked for has come. */
  | { readonly type: 'due' }
  /** A call waits for it. */
  | { readonly type: 'wanted' }
  /** A call failed in a way that may mean that the server is gone, or it was quiet for long. */
  | { readonly type: 'suspected' }
  /** The probe was answered. */
  | { readonly type: 'answered' }
  /** It is certain that the server is gone. */
  | { readonly type: 'lost'; readonly fault: Fault }
  | { readonly type: 'sessionLost'; readonly fault: Fault }
  | { readonly type: 'stopped' };

export type ConnectionEffect =
  /** Start an attempt; an earlier one is given up. */
  | { readonly type: 'connect' }
  /** Give up the attempt under way. */
  | { readonly type: 'abandon' }
  /** The session takes no new calls, and closes after the last one it has. */
  | { readonly type: 'retire' }
  | { readonly type: 'probe' }
  /** Bring `due` in so many ms, instead of what was asked for before. */
  | { readonly type: 'wake'; readonly afterMs: number }
  /** Everything ends now. */
  | { readonly type: 'close' };

export interface Transition {
  readonly state: ConnectionState;
  readonly effects: readonly ConnectionEffect[];
}

export const RECONNECT: Backoff = { base: 100, factor: 2, max: 10_000, jitter: 0.5 };
/** However many calls want it, attempts are at least so far apart. */
export const WANTED_MS = 200;
/** A connection that held for so long starts over with its failures. */
export const STABLE_MS = 10_000;

/** @param random [0, 1), for jitter */
export function step(state: ConnectionState, input: ConnectionInput, now: number, random: number): Transition {
  if (state.kind === 'stopped') return { state, effects: [] };
  switch (input.type) {
    case 'stopped':
      return { state: { kind: 'stopped' }, effects: [{ type: 'close' }] };
    case 'configured':
      return { state: connecting(0), effects: [...leave(state), { type: 'connect' }] };
    case 'unusable':
      return { state: { kind: 'idle', fault: input.fault }, effects: [...leave(state)] };
  }
  switch (state.kind) {
    case 'idle':
      return { state, effects: [] };
    case 'connecting':
      return whileConnecting(state, input, now, random);
    case 'ready':
      return whileReady(state, input, now, random);
    case 'backingOff':
      return whileBackingOff(state, input, now);
  }
}

type In<Kind extends ConnectionState['kind']> = Extract<ConnectionState, { kind: Kind }>;

function whileConnecting(state: In<'connecting'>, input: ConnectionInput, now: number, random: number): Transition {
  if (input.type === 'connected') {
    return { state: { kind: 'ready', failures: state.failures, since: now, probing: false }, effects: [] };
  }
  return input.type === 'failed' ? backOff(state.failures, input.fault, now, random) : { state, effects: [] };
}

function whileReady(state: In<'ready'>, input: ConnectionInput, now: number, random: number): Transition {
  const failures = now - state.since >= STABLE_MS ? 0 : state.failures;
  switch (input.type) {
    case 'suspected':
      return state.probing
        ? { state, effects: [] }
        : { state: { ...state, probing: true }, effects: [{ type: 'probe' }] };
    case 'answered':
      return { state: { ...state, probing: false }, effects: [] };
    case 'sessionLost':
      if (failures === 0) return { state: connecting(1, true), effects: [{ type: 'retire' }, { type: 'connect' }] };
      return withRetire(backOff(failures, input.fault, now, random));
    case 'lost':
      return withRetire(backOff(failures, input.fault, now, random));
    default:
      return { state, effects: [] };
  }
}

function whileBackingOff(state: In<'backingOff'>, input: ConnectionInput, now: number): Transition {
  const attempt = (failures: number): Transition => ({
    state: connecting(failures, false, state.fault),
    effects: [{ type: 'connect' }],
  });
  if (input.type === 'due') return attempt(state.failures);
  if (input.type !== 'wanted') return { state, effects: [] };
  // An attempt for the sake of a call takes the place of the last one: calls that fail do not make the backoff longer.
  const failures = Math.max(0, state.failures - 1);
  const until = Math.max(now, state.since + WANTED_MS);
  if (until === now) return attempt(failures);
  if (until >= state.until) return { state, effects: [] };
  return { state: { ...state, failures, until }, effects: [{ type: 'wake', afterMs: until - now }] };
}

function connecting(failures: number, renewing = false, fault?: Fault): ConnectionState {
  return { kind: 'connecting', failures, renewing, ...(fault !== undefined && { fault }) };
}

function backOff(failures: number, fault: Fault, now: number, random: number): Transition {
  const afterMs = backoffDelay(RECONNECT, failures, () => random);
  const state = { kind: 'backingOff', failures: failures + 1, fault, since: now, until: now + afterMs } as const;
  return { state, effects: [{ type: 'wake', afterMs }] };
}

function withRetire({ state, effects }: Transition): Transition {
  return { state, effects: [{ type: 'retire' }, ...effects] };
}

/** What a change of the spec ends. A timer that is still set brings a `due` that nobody needs any more. */
function leave(state: ConnectionState): readonly ConnectionEffect[] {
  if (state.kind === 'ready') return [{ type: 'retire' }];
  return state.kind === 'connecting' ? [{ type: 'abandon' }] : [];
}

const CONNECTING: Fault = { reason: 'Connecting', message: 'is not connected yet' };

/** Why a connection in this state is not ready; undefined when it is. */
export function faultOfState(state: ConnectionState): Fault | undefined {
  switch (state.kind) {
    case 'ready':
      return undefined;
    case 'connecting':
      return state.renewing ? undefined : (state.fault ?? CONNECTING);
    case 'idle':
      return state.fault ?? CONNECTING;
    case 'backingOff':
      return state.fault;
    case 'stopped':
      return { reason: 'Stopped', message: 'is not connected any more' };
  }
}
