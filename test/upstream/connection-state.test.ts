import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import {
  type ConnectionInput,
  type ConnectionState,
  faultOfState,
  RECONNECT,
  STABLE_MS,
  step,
  WANTED_MS,
} from '../../src/upstream/connection-state.ts';

const FAULT = { reason: 'ConnectionFailed', message: 'cannot be reached' };

/** What the shell would have running after the effects so far. */
interface World {
  attempt: boolean;
  session: boolean;
  /** When the timer fires. */
  wakeAt: number | undefined;
}

/** Inputs that the shell can give in this world: none of an attempt that does not run, or of a session that is not there. */
function possible(input: ConnectionInput, state: ConnectionState, world: World): boolean {
  switch (input.type) {
    case 'connected':
    case 'failed':
      return world.attempt;
    case 'answered':
      return state.kind === 'ready' && state.probing;
    case 'suspected':
    case 'lost':
    case 'sessionLost':
      return world.session;
    default:
      return true;
  }
}

const inputs: fc.Arbitrary<ConnectionInput> = fc.oneof(
  { weight: 1, arbitrary: fc.constant<ConnectionInput>({ type: 'configured' }) },
  { weight: 1, arbitrary: fc.constant<ConnectionInput>({ type: 'unusable', fault: FAULT }) },
  { weight: 6, arbitrary: fc.constant<ConnectionInput>({ type: 'connected' }) },
  { weight: 6, arbitrary: fc.constant<ConnectionInput>({ type: 'failed', fault: FAULT }) },
  { weight: 4, arbitrary: fc.constant<ConnectionInput>({ type: 'due' }) },
  { weight: 6, arbitrary: fc.constant<ConnectionInput>({ type: 'wanted' }) },
  { weight: 3, arbitrary: fc.constant<ConnectionInput>({ type: 'suspected' }) },
  { weight: 3, arbitrary: fc.constant<ConnectionInput>({ type: 'answered' }) },
  { weight: 3, arbitrary: fc.constant<ConnectionInput>({ type: 'lost', fault: FAULT }) },
  { weight: 3, arbitrary: fc.constant<ConnectionInput>({ type: 'sessionLost', fault: FAULT }) },
);

/** Gives `input`, performs the effects on the world, and checks it against the state. */
function advance(
  state: ConnectionState,
  input: ConnectionInput,
  now: number,
  random: number,
  world: World,
): ConnectionState {
  if (input.type === 'connected') world.session = true;
  if (input.type === 'connected' || input.type === 'failed') world.attempt = false;
  const next = step(state, input, now, random);
  for (const effect of next.effects) {
    if (effect.type === 'connect') world.attempt = true;
    if (effect.type === 'abandon') world.attempt = false;
    if (effect.type === 'retire') world.session = false;
    if (effect.type === 'wake') world.wakeAt = now + effect.afterMs;
  }
  const { kind } = next.state;
  assert.equal(world.attempt, kind === 'connecting', 'an attempt');
  assert.equal(world.session, kind === 'ready', 'a session');
  return next.state;
}

test('whatever happens, exactly what its state says is running, and it never waits for nothing', () => {
  const random = fc.double({ min: 0, max: 0.999, noNaN: true });
  const moments = fc.record({ input: inputs, afterMs: fc.nat(20_000), random });
  fc.assert(
    fc.property(fc.array(moments, { maxLength: 200 }), (steps) => {
      let state: ConnectionState = { kind: 'idle' };
      const world: World = { attempt: false, session: false, wakeAt: undefined };
      let now = 0;
      for (const { input, afterMs, random } of steps) {
        now += afterMs;
        if (!possible(input, state, world)) continue;
        state = advance(state, input, now, random, world);
        const isReady = state.kind === 'ready' || (state.kind === 'connecting' && state.renewing);
        assert.equal(faultOfState(state) === undefined, isReady);
        if (state.kind !== 'backingOff') continue;
        assert.equal(world.wakeAt, state.until, 'the timer is that of the state');
        assert.ok(state.until >= state.since && state.until - state.since <= RECONNECT.max);
      }
    }),
  );
});

test('once stopped it does nothing more', () => {
  fc.assert(
    fc.property(fc.array(inputs), inputs, (before, after) => {
      let state: ConnectionState = { kind: 'idle' };
      for (const input of before) state = step(state, input, 0, 0).state;
      const stopped = step(state, { type: 'stopped' }, 0, 0);
      assert.deepEqual(stopped, { state: { kind: 'stopped' }, effects: [{ type: 'close' }] });
      assert.deepEqual(step(stopped.state, after, 1, 0), { state: { kind: 'stopped' }, effects: [] });
    }),
  );
});

test('however often it is wanted, attempts are some time apart', () => {
  let state: ConnectionState = step({ kind: 'idle' }, { type: 'configured' }, 0, 0).state;
  let attempts = 1;
  let wakeAt = Number.POSITIVE_INFINITY;
  const take = (input: ConnectionInput, now: number): void => {
    const next = step(state, input, now, 0);
    state = next.state;
    for (const effect of next.effects) {
      if (effect.type === 'connect') attempts += 1;
      if (effect.type === 'wake') wakeAt = now + effect.afterMs;
    }
  };
  for (let now = 0; now < 10_000; now += 1) {
    if (state.kind === 'connecting') take({ type: 'failed', fault: FAULT }, now);
    if (now >= wakeAt) {
      wakeAt = Number.POSITIVE_INFINITY;
      take({ type: 'due' }, now);
    }
    take({ type: 'wanted' }, now);
  }
  assert.ok(attempts <= 10_000 / WANTED_MS + 3, `${attempts} attempts in 10 s`);
  assert.ok(attempts >= 10_000 / WANTED_MS - 3, `${attempts} attempts in 10 s`);
});

test('calls that find the server away do not make the wait for it longer', () => {
  const first = step({ kind: 'connecting', failures: 0, renewing: false }, { type: 'failed', fault: FAULT }, 0, 0);
  let state = first.state;
  for (let now = WANTED_MS; now < 20 * WANTED_MS; now += WANTED_MS) {
    state = step(step(state, { type: 'wanted' }, now, 0).state, { type: 'failed', fault: FAULT }, now, 0).state;
  }
  assert.equal(state.kind, 'backingOff');
  assert.equal(state.kind === 'backingOff' && state.until - state.since, RECONNECT.base);
});

test('delays grow to 10 s, and start small again after a time that was good', () => {
  let state = step({ kind: 'idle' }, { type: 'configured' }, 0, 0).state;
  const delays: number[] = [];
  for (let n = 0; n < 12; n += 1) {
    const failed = step(state, { type: 'failed', fault: FAULT }, 0, 0);
    delays.push(...failed.effects.flatMap((effect) => (effect.type === 'wake' ? [effect.afterMs] : [])));
    state = step(failed.state, { type: 'due' }, 0, 0).state;
  }
  assert.deepEqual(delays.slice(0, 4), [100, 200, 400, 800]);
  assert.equal(delays.at(-1), 10_000);
  const ready = step(state, { type: 'connected' }, 0, 0).state;
  const lostAt = (now: number) => step(ready, { type: 'lost', fault: FAULT }, now, 0).effects;
  assert.deepEqual(lostAt(STABLE_MS - 1), [{ type: 'retire' }, { type: 'wake', afterMs: 10_000 }]);
  assert.deepEqual(lostAt(STABLE_MS), [{ type: 'retire' }, { type: 'wake', afterMs: 100 }]);
});

test('field case 21 (B): a lost session is renewed at once and stays ready; when that repeats, it is not ready', () => {
  const ready = step(step({ kind: 'idle' }, { type: 'configured' }, 0, 0).state, { type: 'connected' }, 0, 0).state;
  const lost: ConnectionInput = { type: 'sessionLost', fault: { reason: 'SessionLost', message: 'forgot us' } };
  const renewing = step(ready, lost, 10, 0);
  assert.deepEqual(renewing.effects, [{ type: 'retire' }, { type: 'connect' }]);
  assert.equal(faultOfState(renewing.state), undefined);
  const again = step(step(renewing.state, { type: 'connected' }, 20, 0).state, lost, 30, 0);
  assert.equal(again.state.kind, 'backingOff');
  assert.equal(faultOfState(again.state)?.reason, 'SessionLost');
});
