import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import fc from 'fast-check';
import { type Outcome, startWorkQueue, TerminalError, type WorkQueue } from '../../src/kube/work-queue.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { createFakeClock, type FakeClock, settle } from '../support/fake-clock.ts';

type Reconcile = (key: string, signal: AbortSignal) => Promise<Outcome>;

let clock: FakeClock;
let stop: AbortController;

beforeEach(() => {
  clock = createFakeClock();
  stop = new AbortController();
});
afterEach(() => stop.abort());

function start(reconcile: Reconcile, concurrency = 1): WorkQueue {
  return startWorkQueue({ name: 'test', concurrency, reconcile, clock, log: silentLogger }, stop.signal);
}

/** A reconcile that notes the time of each run, in ms after the start, and does then what `outcomes` says in turn. */
function script(...outcomes: (Outcome | Error)[]): { reconcile: Reconcile; runs: number[] } {
  const from = clock.now();
  const runs: number[] = [];
  const reconcile = async (): Promise<Outcome> => {
    const outcome = outcomes[runs.length] ?? 'done';
    runs.push(clock.now() - from);
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  return { reconcile, runs };
}

/** A reconcile whose runs last until the test ends them. */
function gate(): { reconcile: Reconcile; running: string[]; end: (key: string, outcome?: Outcome) => Promise<void> } {
  const running: string[] = [];
  const open = new Map<string, (outcome: Outcome) => void>();
  return {
    running,
    reconcile: (key) => {
      running.push(key);
      return new Promise((resolve) => open.set(key, resolve));
    },
    end: async (key, outcome = 'done') => {
      running.splice(running.indexOf(key), 1);
      open.get(key)?.(outcome);
      await settle();
    },
  };
}

describe('work queue', () => {
  it('runs a key once, however often it was added', async () => {
    const { reconcile, runs } = script();
    const queue = start(reconcile);
    for (let i = 0; i < 5; i += 1) queue.add('a');
    await queue.idle();
    assert.equal(runs.length, 1);
  });

  it('runs a key once more after, not beside, when it was added while it ran', async () => {
    const { reconcile, running, end } = gate();
    const queue = start(reconcile, 4);
    queue.add('a');
    await settle();
    queue.add('a');
    queue.add('a');
    await settle();
    assert.deepEqual(running, ['a']);
    await end('a');
    assert.deepEqual(running, ['a'], 'the run after');
    await end('a');
    assert.deepEqual(running, []);
    await queue.idle();
  });

  it('works on as many keys at a time as it may, in the order in which they came', async () => {
    const { reconcile, running, end } = gate();
    const queue = start(reconcile, 2);
    for (const key of ['a', 'b', 'c', 'd']) queue.add(key);
    await settle();
    assert.deepEqual(running, ['a', 'b']);
    await end('b');
    assert.deepEqual(running, ['a', 'c']);
    await end('a');
    assert.deepEqual(running, ['c', 'd']);
  });

  it('retries an error after 5 ms, twice as long each time, up to a minute', async () => {
    const { reconcile, runs } = script(...Array.from({ length: 17 }, () => new Error('no')));
    start(reconcile).add('a');
    await clock.advance(5_000_000);
    const gaps = runs.slice(1).map((at, i) => at - (runs[i] ?? 0));
    assert.deepEqual(gaps.slice(0, 4), [5, 10, 20, 40]);
    assert.equal(gaps[13], 5 * 2 ** 13);
    assert.deepEqual(gaps.slice(14), [60_000, 60_000, 60_000]);
  });

  it('forgets the failures of a key after a success', async () => {
    const no = new Error('no');
    const { reconcile, runs } = script(no, no, { after: 1_000 }, no);
    start(reconcile).add('a');
    await clock.advance(2_000);
    assert.deepEqual(runs, [0, 5, 15, 1_015, 1_020]);
  });

  it('counts the failures of each key by itself', async () => {
    const runs: string[] = [];
    const from = clock.now();
    const queue = start(async (key) => {
      runs.push(`${key}@${clock.now() - from}`);
      throw new Error('no');
    });
    queue.add('a');
    await clock.advance(8);
    queue.add('b');
    await clock.advance(6);
    assert.deepEqual(runs, ['a@0', 'a@5', 'b@8', 'b@13']);
  });

  it('does not retry a terminal error until the key is added again', async () => {
    const { reconcile, runs } = script(new TerminalError('the spec is not valid'));
    const queue = start(reconcile);
    queue.add('a');
    await clock.advance(2_000_000);
    assert.deepEqual(runs, [0]);
    queue.add('a');
    await queue.idle();
    assert.equal(runs.length, 2);
  });

  it('treats a reconcile that throws before its first await as any failure', async () => {
    let runs = 0;
    const queue = start(() => {
      runs += 1;
      throw new Error('no');
    });
    queue.add('a');
    await clock.advance(5);
    assert.equal(runs, 2);
  });

  it('runs a delayed key at the earliest of its times, once', async () => {
    const { reconcile, runs } = script();
    const queue = start(reconcile);
    queue.addAfter('a', 500);
    queue.addAfter('a', 100);
    queue.addAfter('a', 300);
    await clock.advance(1_000);
    assert.deepEqual(runs, [100]);
  });

  it('runs a delayed key at once when it is added, and the delay is settled', async () => {
    const { reconcile, runs } = script();
    const queue = start(reconcile);
    queue.addAfter('a', 100);
    await clock.advance(40);
    queue.add('a');
    await clock.advance(1_000);
    assert.deepEqual(runs, [40]);
  });

  it('keeps a delay that was asked for during a run when the run asks for a later one', async () => {
    const { reconcile, running, end } = gate();
    const queue = start(reconcile);
    queue.add('a');
    await settle();
    queue.addAfter('a', 100);
    await end('a', { after: 500 });
    await clock.advance(99);
    assert.deepEqual(running, []);
    await clock.advance(1);
    assert.deepEqual(running, ['a']);
  });

  it('sleeps once for all delayed keys', async () => {
    const order: string[] = [];
    const queue = start(async (key) => {
      order.push(key);
      return 'done';
    });
    for (let i = 0; i < 1_000; i += 1) queue.addAfter(`k${i}`, 2_000 - i);
    await settle();
    assert.equal(clock.sleepers, 1);
    await clock.advance(2_000);
    assert.deepEqual(
      order,
      Array.from({ length: 1_000 }, (_, i) => `k${999 - i}`),
    );
    assert.equal(clock.sleepers, 0);
  });

  it('goes on in the same task when an outcome asks for no delay', async () => {
    const { reconcile, runs } = script({ after: 0 }, { after: -5 });
    const queue = start(reconcile);
    queue.add('a');
    await queue.idle();
    assert.deepEqual(runs, [0, 0, 0]);
  });

  it('is idle while keys are only delayed', async () => {
    const queue = start(script().reconcile);
    await queue.idle();
    queue.addAfter('a', 1_000);
    await queue.idle();
  });
});

describe('work queue, stopped', () => {
  it('starts nothing more, tells the runs, and is idle when they have ended', async () => {
    const signals: AbortSignal[] = [];
    const { reconcile, running, end } = gate();
    const queue = start((key, signal) => {
      signals.push(signal);
      return reconcile(key, signal);
    });
    queue.add('a');
    queue.add('b');
    queue.addAfter('c', 100);
    await settle();
    let idle = false;
    const stopped = queue.idle().then(() => {
      idle = true;
    });
    queue.add('a');
    stop.abort();
    await settle();
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [true],
    );
    assert.equal(clock.sleepers, 0, 'no timer is left');
    assert.ok(!idle, 'a still runs');
    await end('a', { after: 100 });
    await stopped;
    queue.add('d');
    queue.addAfter('e', 1);
    await clock.advance(1_000);
    assert.deepEqual(running, []);
    assert.equal(clock.sleepers, 0);
  });

  it('does not retry what fails because of the stop', async () => {
    const queue = start(
      (_, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    );
    queue.add('a');
    await settle();
    stop.abort();
    await queue.idle();
    assert.equal(clock.sleepers, 0);
  });
});

const keys = fc.constantFrom('a', 'b', 'c');
type Act =
  | { readonly act: 'add'; readonly key: string }
  | { readonly act: 'addAfter'; readonly key: string; readonly ms: number }
  | { readonly act: 'advance'; readonly ms: number };
const acts: fc.Arbitrary<Act> = fc.oneof(
  fc.record({ act: fc.constant('add'), key: keys }),
  fc.record({ act: fc.constant('addAfter'), key: keys, ms: fc.integer({ min: -1, max: 50 }) }),
  fc.record({ act: fc.constant('advance'), ms: fc.integer({ min: 0, max: 60 }) }),
);
interface Run {
  readonly lasts: number;
  readonly outcome: 'done' | 'after' | 'error';
}
const runs: fc.Arbitrary<Run> = fc.record({
  lasts: fc.integer({ min: 0, max: 30 }),
  outcome: fc.constantFrom('done', 'after', 'error'),
});

/** A reconcile that follows a script, and what was wrong about how it was called. */
class Worker {
  readonly faults: string[] = []; // what a reconcile throws goes to the queue, not to the test
  /** Key → when its last run began and when it was last wanted, in the order of things. */
  readonly began = new Map<string, number>();
  readonly wanted = new Map<string, number>();
  readonly #running = new Set<string>();
  readonly #script: Run[];
  readonly #concurrency: number;
  readonly #clock: FakeClock;
  #order = 0;

  constructor(script: readonly Run[], concurrency: number, time: FakeClock) {
    this.#script = [...script];
    this.#concurrency = concurrency;
    this.#clock = time;
  }

  want(key: string): void {
    this.wanted.set(key, ++this.#order);
  }

  async reconcile(key: string, signal: AbortSignal): Promise<Outcome> {
    if (this.#running.has(key)) this.faults.push(`${key} is worked on twice at a time`);
    this.#running.add(key);
    if (this.#running.size > this.#concurrency) this.faults.push(`${this.#running.size} at a time`);
    this.began.set(key, ++this.#order);
    const { lasts, outcome } = this.#script.shift() ?? { lasts: 0, outcome: 'done' };
    if (lasts > 0) await this.#clock.sleep(lasts, signal);
    this.#running.delete(key);
    if (outcome === 'error') throw new Error('no');
    return outcome === 'after' ? { after: 20 } : 'done';
  }
}

describe('work queue, whatever comes', () => {
  const many = { maxLength: 40, size: 'max' } as const;
  const concurrencies = fc.integer({ min: 1, max: 3 });

  it('runs each key after its last addition, never twice at a time, never more than it may', async () => {
    const property = async (todo: Act[], script: Run[], concurrency: number) => {
      const worker = new Worker(script, concurrency, clock);
      const own = new AbortController();
      const reconcile: Reconcile = (key, signal) => worker.reconcile(key, signal);
      const queue = startWorkQueue({ name: 'test', concurrency, reconcile, clock, log: silentLogger }, own.signal);
      for (const act of todo) {
        if (act.act === 'advance') {
          await clock.advance(act.ms);
          continue;
        }
        if (act.act === 'add') queue.add(act.key);
        else queue.addAfter(act.key, act.ms);
        worker.want(act.key);
      }
      await clock.advance(2_000_000_000);
      await queue.idle();
      assert.deepEqual(worker.faults, []);
      for (const [key, at] of worker.wanted) {
        assert.ok((worker.began.get(key) ?? 0) > at, `${key} did not run after it was added`);
      }
      own.abort();
      await settle();
      assert.equal(clock.sleepers, 0);
    };
    await fc.assert(fc.asyncProperty(fc.array(acts, many), fc.array(runs, many), concurrencies, property), {
      numRuns: 300,
    });
  });
});
