import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ForbiddenError, GoneError, UnavailableError } from '../../src/kube/errors.ts';
import { type Change, ObjectStore } from '../../src/kube/object-store.ts';
import { type Input, initialState, type State, step } from '../../src/kube/reflector-state.ts';
import { isLater, versionOf } from '../../src/kube/resource-version.ts';
import { type ConfigMap, ModelServer } from '../support/model-server.ts';

const gone = new GoneError('too old', 410, 'Expired');
const away = new UnavailableError('connection reset', 0, '', 'none');
const failed = (error: unknown): Input<ConfigMap> => ({ kind: 'failed', error });
const page = (resourceVersion: string, token?: string): Input<ConfigMap> => ({
  kind: 'page',
  page: { items: [], resourceVersion, ...(token !== undefined && { continue: token }) },
});
const bookmark = (resourceVersion: string): Input<ConfigMap> => ({
  kind: 'event',
  event: { type: 'BOOKMARK', resourceVersion },
});

/** The state after `inputs`, each of which comes `apart` ms after the one before; jitter takes nothing off. */
function after(inputs: readonly Input<ConfigMap>[], apart = 10): State<ConfigMap> {
  let now = 1_000_000;
  let state = initialState<ConfigMap>();
  for (const input of inputs) {
    now += apart;
    state = step(state, input, { now, random: 0 }).state;
    if (state.kind === 'waiting') now += state.ms;
  }
  return state;
}

describe('reflector state: lists', () => {
  it('asks page after page and shows nothing of the list before it is whole', () => {
    const server = new ModelServer();
    const objects = ['a', 'b', 'c', 'd', 'e'].map((name) => server.put(name));
    const moment = { now: 0, random: 0 };
    let state = initialState<ConfigMap>();
    for (const length of [2, 4]) {
      const token = state.kind === 'listing' ? state.continue : undefined;
      const partial = step(state, { kind: 'page', page: server.page(2, token) }, moment);
      assert.deepEqual(partial.effects, []);
      state = partial.state;
      assert.equal(state.kind === 'listing' && state.pages.flat().length, length);
    }
    const token = state.kind === 'listing' ? state.continue : undefined;
    const whole = step(state, { kind: 'page', page: server.page(2, token) }, moment);
    assert.deepEqual(whole.effects, [{ kind: 'replace', objects, resourceVersion: '13' }]);
    assert.equal(whole.state.kind === 'watching' && whole.state.resourceVersion, '13');
  });

  it('begins again at once when a page has expired, with a delay when that happens again', () => {
    const restarted = after([page('5', 'token'), failed(gone)]);
    assert.deepEqual(restarted, { ...initialState(), restarted: true });
    const again = after([page('5', 'token'), failed(gone), page('6', 'token'), failed(gone)]);
    assert.equal(again.kind === 'waiting' && again.next, 'list');
  });

  it('tries again with a delay, from the first page, after any other failure', () => {
    const state = after([page('5', 'token'), failed(away)]);
    assert.equal(state.kind === 'waiting' && state.next, 'list');
    const next = after([page('5', 'token'), failed(away), { kind: 'waited' }]);
    assert.deepEqual(next.kind === 'listing' && [next.pages, next.continue], [[], undefined]);
  });
});

describe('reflector state: watches', () => {
  it('goes on from the last event or bookmark when a watch ends', () => {
    const state = after([page('5'), bookmark('7'), { kind: 'ended' }], 2_000);
    assert.equal(state.kind === 'watching' && state.resourceVersion, '7');
  });

  it('goes on from the last event after a delay when a watch breaks', () => {
    const state = after([page('5'), bookmark('7'), failed(away)]);
    assert.deepEqual(state.kind === 'waiting' && state.next, { resourceVersion: '7', fresh: false });
  });

  it('waits before the next watch when a server ends each of them at once', () => {
    const loop: Input<ConfigMap>[] = [];
    let waited = 0;
    for (let i = 0; i < 10; i += 1) {
      loop.push({ kind: 'ended' });
      const state = after([page('5'), ...loop]);
      waited += state.kind === 'waiting' ? state.ms : 0;
      loop.push({ kind: 'waited' });
    }
    assert.ok(waited > 60_000, `ten watches that ended at once took ${waited} ms`);
  });

  it('does not wait after a short watch that brought an event', () => {
    const object = new ModelServer().put('a');
    const state = after([page('5'), { kind: 'event', event: { type: 'ADDED', object } }, { kind: 'ended' }]);
    assert.equal(state.kind, 'watching');
  });

  it('lists at once when its version is too old, whatever failed before', () => {
    const state = after([
      page('5'),
      bookmark('7'),
      failed(away),
      { kind: 'waited' },
      failed(away),
      { kind: 'waited' },
      failed(gone),
    ]);
    assert.equal(state.kind, 'listing');
  });

  it('waits before the list when even the version of the last list is too old', () => {
    const state = after([page('5'), failed(gone)]);
    assert.equal(state.kind === 'waiting' && state.next, 'list');
  });
});

describe('reflector state: failures', () => {
  const delays = (count: number, apart?: number): number[] =>
    Array.from({ length: count }, (_, i) => {
      const failures = Array.from({ length: i + 1 }, () => [failed(away), { kind: 'waited' } as const]).flat();
      const state = after(failures.slice(0, -1), apart);
      return state.kind === 'waiting' ? state.ms : Number.NaN;
    });

  it('doubles the delay from 0.8 s up to 30 s', () => {
    assert.deepEqual(delays(8), [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
  });

  it('begins with 0.8 s again after two minutes of peace', () => {
    assert.deepEqual(delays(3, 119_999 / 2), [800, 1_600, 3_200]);
    assert.deepEqual(delays(3, 60_000), [800, 800, 800]);
  });

  it('takes up to the whole delay off by chance', () => {
    const { state } = step(initialState<ConfigMap>(), failed(away), { now: 0, random: 0.75 });
    assert.equal(state.kind === 'waiting' && state.ms, 200);
  });

  it('never gives up, whatever the error is', () => {
    for (const error of [
      away,
      new ForbiddenError('no', 403, 'Forbidden'),
      new Error('no such file'),
      'text',
      undefined,
    ]) {
      assert.equal(
        after(Array.from({ length: 50 }, () => [failed(error), { kind: 'waited' } as const]).flat()).kind,
        'listing',
      );
    }
  });

  it('lists on demand from every state', () => {
    const ways: Input<ConfigMap>[][] = [[], [page('5', 'token')], [page('5')], [failed(away)]];
    for (const inputs of ways) {
      const state = after([...inputs, { kind: 'relist' }]);
      assert.equal(state.kind === 'listing' && state.pages.length, 0);
    }
  });
});

const names = fc.constantFrom('a', 'b', 'c', 'd', 'e');
type Command =
  | { readonly on: 'server'; readonly act: 'put' | 'remove'; readonly name: string }
  | { readonly on: 'server'; readonly act: 'compact' }
  | { readonly on: 'writer'; readonly act: 'write'; readonly name: string }
  | { readonly on: 'writer'; readonly act: 'answer'; readonly which: number }
  | { readonly on: 'reflector'; readonly act: 'go on' | 'bookmark' | 'end' | 'fail' | 'gone' | 'relist' };

const commands: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ on: fc.constant('server'), act: fc.constantFrom('put', 'remove'), name: names }),
  },
  { weight: 1, arbitrary: fc.constant({ on: 'server', act: 'compact' } as const) },
  { weight: 2, arbitrary: fc.record({ on: fc.constant('writer'), act: fc.constant('write'), name: names }) },
  { weight: 2, arbitrary: fc.record({ on: fc.constant('writer'), act: fc.constant('answer'), which: fc.nat(9) }) },
  { weight: 6, arbitrary: fc.constant({ on: 'reflector', act: 'go on' } as const) },
  {
    weight: 3,
    arbitrary: fc.record({
      on: fc.constant('reflector'),
      act: fc.constantFrom('bookmark', 'end', 'fail', 'gone', 'relist'),
    }),
  },
);

/** A server, a writer whose answers may be late, a reflector's state and store, and a consumer that only hears keys. */
class World {
  readonly server = new ModelServer();
  readonly store = new ObjectStore<ConfigMap>({ uid: (object) => [object.metadata.uid ?? ''] });
  readonly consumer = new Map<string, ConfigMap>();
  readonly answers: ConfigMap[] = [];
  state: State<ConfigMap> = initialState();
  #now = 0;

  perform(command: Command): void {
    switch (command.act) {
      case 'put':
        this.server.put(command.name);
        return;
      case 'remove':
        this.server.remove(command.name);
        return;
      case 'compact':
        this.server.compact();
        return;
      case 'write':
        this.answers.push(this.server.put(command.name));
        return;
      case 'answer':
        for (const object of this.answers.splice(command.which, 1)) this.answer(object);
        return;
      default:
        this.#feed(this.#outcome(command.act));
    }
  }

  answer(object: ConfigMap): void {
    this.#hear(this.store.observe(object));
  }

  /** Until the reflector watches and there is no event left. */
  settle(): void {
    do this.perform({ on: 'reflector', act: 'go on' });
    while (this.state.kind !== 'watching' || isLater(this.server.version, this.state.resourceVersion));
  }

  #outcome(act: 'go on' | 'bookmark' | 'end' | 'fail' | 'gone' | 'relist'): Input<ConfigMap> | undefined {
    if (act === 'relist') return { kind: 'relist' };
    if (this.state.kind === 'waiting') return { kind: 'waited' };
    if (act === 'fail') return failed(away);
    if (act === 'gone') return failed(gone);
    try {
      if (this.state.kind === 'listing') return { kind: 'page', page: this.server.page(2, this.state.continue) };
      if (act === 'end') return { kind: 'ended' };
      const event = this.server.eventAfter(this.state.resourceVersion);
      if (event !== undefined) return { kind: 'event', event };
      return act === 'bookmark' ? bookmark(this.server.version) : undefined;
    } catch (error) {
      return failed(error);
    }
  }

  #feed(input: Input<ConfigMap> | undefined): void {
    this.#now += 100;
    if (input === undefined) return;
    const { state, effects } = step(this.state, input, { now: this.#now, random: 0.5 });
    this.state = state;
    for (const effect of effects) {
      this.#hear(
        effect.kind === 'apply'
          ? this.store.apply(effect.event)
          : this.store.replace(effect.objects, effect.resourceVersion),
      );
    }
  }

  /** Copies what each key says, as a reconcile does, and checks that the announcement fits what was announced before. */
  #hear(changes: readonly Change[]): void {
    for (const { key, kind } of changes) {
      const before = this.consumer.get(key);
      const [namespace = '', name = ''] = key.split('/');
      const now = this.store.get(namespace, name);
      if (kind === 'deleted') {
        assert.ok(before, `${key} was deleted without having been there`);
        assert.notEqual(now?.metadata.uid, before.metadata.uid, `${key} is deleted and still there`);
        this.consumer.delete(key);
        continue;
      }
      assert.ok(now, `${key} is ${kind} and not there`);
      assert.equal(before === undefined, kind === 'added', `${key} is ${kind}`);
      if (before !== undefined) {
        assert.equal(now.metadata.uid, before.metadata.uid, `${key} was made anew and is called changed`);
        assert.ok(isLater(versionOf(now), versionOf(before)), `${key} went back from ${versionOf(before)}`);
      }
      this.consumer.set(key, now);
    }
  }
}

const byName = (objects: Iterable<ConfigMap>): ConfigMap[] =>
  [...objects].sort((a, b) => a.metadata.name.localeCompare(b.metadata.name));

describe('reflector state and store, together', () => {
  it('end at the truth of the server and announce every change, whatever happens in whatever order', () => {
    fc.assert(
      fc.property(fc.array(commands, { maxLength: 80, size: 'max' }), (run) => {
        const world = new World();
        for (const command of run) {
          world.perform(command);
          assert.deepEqual(byName(world.consumer.values()), byName(world.store.list()), 'a change was not announced');
        }
        world.settle();
        for (const late of world.answers) world.answer(late);
        const truth = byName(world.server.objects);
        assert.deepEqual(byName(world.store.list()), truth);
        assert.deepEqual(byName(world.store.list('default')), truth);
        assert.deepEqual(byName(world.consumer.values()), truth);
        for (const object of truth) assert.deepEqual(world.store.by('uid', object.metadata.uid ?? ''), [object]);
      }),
      { numRuns: 2_000 },
    );
  });
});
