import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ResourceClient } from '../../src/kube/client.ts';
import { ForbiddenError, GoneError, UnavailableError } from '../../src/kube/errors.ts';
import type { ChangeKind } from '../../src/kube/object-store.ts';
import { type Reflector, type ReflectorOptions, startReflector } from '../../src/kube/reflector.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { createFakeClock, type FakeClock, settle } from '../support/fake-clock.ts';
import { type ConfigMap, type ModelRequest, ModelServer, modelClient } from '../support/model-server.ts';

const away = new UnavailableError('connection reset', 0, '', 'none');

let clock: FakeClock;
let server: ModelServer;
let stop: AbortController;
let requests: ModelRequest[];
let heard: string[];
/** What happens to the next requests, in turn; afterwards they are served. */
let faults: ((request: ModelRequest) => Promise<void> | void)[];

beforeEach(() => {
  clock = createFakeClock();
  server = new ModelServer();
  stop = new AbortController();
  requests = [];
  heard = [];
  faults = [];
});

const stopped = new Error('stopped');
let running: Reflector<ConfigMap> | undefined;
afterEach(async () => {
  stop.abort(stopped);
  await running?.done;
  assert.equal(clock.sleepers, 0, 'no timer is left');
});

function start(options: Partial<ReflectorOptions<ConfigMap>> = {}): Reflector<ConfigMap> {
  const client = modelClient(server, (request) => {
    requests.push(request);
    return faults.shift()?.(request);
  });
  const onKey = (key: string, change: ChangeKind): void => void heard.push(`${change} ${key}`);
  running = startReflector({ client, onKey, clock, log: silentLogger, ...options }, stop.signal);
  return running;
}

const kinds = (): string => requests.map(({ kind }) => kind).join(' ');
const fails = (error: unknown) => (): void => {
  throw error;
};
/** A request that is not answered until the test, or the end, comes. */
const hangs = ({ signal }: ModelRequest): Promise<void> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));

describe('reflector', () => {
  it('lists in pages, hands out every key, then is in sync, then follows the watch', async () => {
    for (let i = 0; i < 600; i += 1) server.put(`n${i}`);
    const reflector = start();
    let atSync: number | undefined;
    await reflector.synced.then(() => {
      atSync = heard.length;
    });
    assert.equal(atSync, 600);
    assert.equal(reflector.store.size, 600);
    await settle();
    assert.equal(kinds(), 'list list list watch');
    heard.length = 0;
    server.put('n1');
    server.remove('n2');
    server.put('new');
    await settle();
    assert.deepEqual(heard, ['changed default/n1', 'deleted default/n2', 'added default/new']);
    assert.deepEqual(reflector.store.get('default', 'n1'), server.get('n1'));
  });

  it('asks for pages of 250, for bookmarks within 90 s, and for watches of 290 to 590 s', async () => {
    start({ namespace: 'default', labelSelector: 'a=b' });
    await settle();
    const [list, watch] = requests;
    const selectors = { labelSelector: 'a=b' };
    assert.deepEqual(list?.options, { limit: 250, ...selectors });
    const { timeoutSeconds = 0, ...rest } = watch?.options ?? {};
    assert.deepEqual(rest, { resourceVersion: '8', silenceMs: 90_000, ...selectors });
    assert.ok(timeoutSeconds >= 290 && timeoutSeconds < 590 && Number.isInteger(timeoutSeconds), `${timeoutSeconds}`);
    assert.deepEqual(
      requests.map(({ namespace }) => namespace),
      ['default', 'default'],
    );
  });

  it('serves a write of our own at once and announces it once', async () => {
    const reflector = start();
    await reflector.synced;
    reflector.observe(server.put('own'));
    assert.equal(reflector.store.get('default', 'own')?.metadata.resourceVersion, server.version);
    await settle();
    assert.deepEqual(heard, ['added default/own']);
  });

  it('tells subscribers of their key only, after the store has changed, until they leave', async () => {
    const reflector = start();
    await reflector.synced;
    const seen: string[] = [];
    const note = (who: string) => (change: ChangeKind) =>
      void seen.push(`${who} ${change} ${reflector.store.get('default', 'a')?.metadata.resourceVersion}`);
    const leave = reflector.subscribe('default/a', note('first'));
    reflector.subscribe('default/a', note('second'));
    server.put('a');
    server.put('b');
    await settle();
    leave();
    leave();
    server.remove('a');
    await settle();
    assert.deepEqual(seen, ['first added 9', 'second added 9', 'second deleted undefined']);
  });

  it('B6: a handler that throws costs neither another handler nor a later event', async () => {
    const seen: string[] = [];
    const reflector = start({ onKey: fails(new Error('bug')) });
    reflector.subscribe('default/a', fails(new Error('bug')));
    reflector.subscribe('default/a', (change) => void seen.push(change));
    server.put('a');
    await reflector.synced;
    server.put('a');
    server.remove('a');
    await settle();
    assert.deepEqual(seen, ['added', 'changed', 'deleted']);
    assert.equal(kinds(), 'list watch');
  });

  it('knows when the server last answered as it should', async () => {
    const reflector = start();
    const from = clock.now();
    assert.deepEqual([reflector.lastSync, reflector.lastContact], [undefined, undefined]);
    await reflector.synced;
    await clock.advance(5_000);
    server.put('a');
    await settle();
    assert.deepEqual([reflector.lastSync, reflector.lastContact], [from, from + 5_000]);
    await clock.advance(5_000);
    faults = Array.from({ length: 3 }, () => fails(away));
    server.breakWatches(away);
    await settle();
    assert.equal(reflector.lastContact, from + 5_000);
    await clock.advance(60_000);
    server.endWatches();
    await settle();
    assert.deepEqual([reflector.lastSync, reflector.lastContact], [from, from + 70_000]);
  });
});

describe('reflector, when things fail', () => {
  it('B5: goes on after every kind of failure, in lists and in watches', async () => {
    const errors = [away, new ForbiddenError('no', 403, 'Forbidden'), new TypeError('terminated'), 'a thrown text'];
    faults = errors.map(fails);
    const reflector = start();
    await clock.advance(30_000);
    await reflector.synced;
    assert.equal(kinds(), 'list list list list list watch');
    faults = errors.map(fails);
    server.breakWatches(away);
    await clock.advance(300_000);
    server.put('a');
    await settle();
    assert.deepEqual(heard, ['added default/a']);
    assert.equal(kinds(), 'list list list list list watch watch watch watch watch watch');
  });

  it('B10: credentials that cannot be read are a failure as any other', async () => {
    const real = modelClient(server);
    let broken = true;
    const client: ResourceClient<ConfigMap> = {
      ...real,
      watch: (...args) => {
        if (broken) throw new Error('ENOENT: no such file, open token'); // before there is anything to iterate
        return real.watch(...args);
      },
    };
    const reflector = start({ client });
    await clock.advance(60_000);
    broken = false;
    await clock.advance(60_000);
    server.put('a');
    await settle();
    assert.equal(reflector.store.size, 1);
  });

  it('field case 59 (E): sees what was deleted and made anew while its watch was gone', async () => {
    for (const name of ['gone', 'anew', 'same']) server.put(name);
    const reflector = start();
    await reflector.synced;
    await settle();
    heard.length = 0;
    faults = [fails(away)];
    server.breakWatches(away);
    server.remove('gone');
    server.remove('anew');
    server.put('anew');
    server.put('brief');
    server.remove('brief');
    server.compact();
    await clock.advance(5_000);
    assert.deepEqual(heard, ['deleted default/gone', 'deleted default/anew', 'added default/anew']);
    assert.equal(kinds(), 'list watch watch watch list watch');
  });

  it('begins a list again when a page has expired', async () => {
    for (let i = 0; i < 300; i += 1) server.put(`n${i}`);
    faults = [
      () => {},
      () => {
        server.remove('n0');
        server.compact();
      },
    ];
    const reflector = start();
    await reflector.synced;
    await settle();
    assert.equal(kinds(), 'list list list list watch');
    assert.deepEqual(
      requests.map(({ options }) => options.continue !== undefined),
      [false, true, false, true, false],
    );
    assert.equal(reflector.store.size, 299);
  });

  it('does not hammer a server that ends or refuses every watch at once', async () => {
    const reflector = start();
    await reflector.synced;
    faults = Array.from({ length: 10_000 }, () => fails(new GoneError('too old', 410, 'Expired')));
    server.breakWatches(away);
    await clock.advance(600_000);
    assert.ok(requests.length > 20 && requests.length < 200, `${requests.length} requests in 10 minutes`);
  });
});

describe('reflector, stopped or told to list', () => {
  it('B2: ends without an error during a watch', async () => {
    const reflector = start();
    await reflector.synced;
    await settle();
    stop.abort(stopped);
    await reflector.done;
    assert.equal(kinds(), 'list watch');
  });

  it('B4: asks for nothing more when it is stopped during a list', async () => {
    let answer = (): void => {};
    faults = [
      () =>
        new Promise((resolve) => {
          answer = resolve; // a list that does not heed its signal
        }),
    ];
    const reflector = start();
    await settle();
    stop.abort(stopped);
    answer();
    await reflector.done;
    await assert.rejects(reflector.synced, stopped);
    assert.equal(kinds(), 'list');
    assert.equal(reflector.store.size, 0);
  });

  it('B4: asks for nothing more when it is stopped during a delay', async () => {
    faults = [fails(away)];
    const reflector = start();
    await settle();
    assert.equal(clock.sleepers, 1);
    stop.abort(stopped);
    await reflector.done;
    assert.equal(clock.sleepers, 0);
    await clock.advance(60_000);
    assert.equal(kinds(), 'list');
  });

  it('asks for nothing at all when it was stopped before it began', async () => {
    stop.abort(stopped);
    const reflector = start();
    await reflector.done;
    assert.equal(kinds(), '');
  });

  it('B3: lists on demand from whatever it does, and never does two things at a time', async () => {
    const real = modelClient(server, (request) => {
      requests.push(request);
      return faults.shift()?.(request);
    });
    let open = 0;
    let most = 0;
    const counted = async <R>(request: () => Promise<R>): Promise<R> => {
      most = Math.max(most, ++open);
      return request().finally(() => {
        open -= 1;
      });
    };
    const client: ResourceClient<ConfigMap> = {
      ...real,
      list: (...args) => counted(() => real.list(...args)),
      async *watch(...args) {
        most = Math.max(most, ++open);
        try {
          yield* real.watch(...args);
        } finally {
          open -= 1;
        }
      },
    };
    faults = [hangs];
    const reflector = start({ client });
    await settle();
    reflector.relist(); // while a list hangs
    await reflector.synced;
    await settle();
    reflector.relist(); // while a watch is open
    reflector.relist();
    await settle();
    server.breakWatches(away);
    await settle();
    assert.equal(clock.sleepers, 1);
    reflector.relist(); // while it waits
    await settle();
    assert.equal(clock.sleepers, 0);
    assert.equal(kinds(), 'list list watch list watch list watch');
    assert.deepEqual([open, most], [1, 1]);
    server.put('a');
    await settle();
    assert.deepEqual(heard, ['added default/a']);
  });
});
