import type { Clock } from '../../src/lib/clock.ts';

export interface FakeClock extends Clock {
  /** Moves time on, wakes each sleeper at its own time, and lets what it sets off run before the next one wakes. */
  advance(ms: number): Promise<void>;
  /** How many sleep. */
  readonly sleepers: number;
}

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

/** Time that stands still until a test moves it. */
export function createFakeClock(start = Date.UTC(2026, 11, 1)): FakeClock {
  let now = start;
  const sleepers = new Set<Sleeper>();
  return {
    now: () => now,
    async sleep(ms, signal) {
      signal.throwIfAborted();
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const sleeper: Sleeper = { at: now + ms, wake: resolve };
      const onAbort = (): void => reject(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      sleepers.add(sleeper);
      try {
        await promise;
      } finally {
        sleepers.delete(sleeper);
        signal.removeEventListener('abort', onAbort);
      }
    },
    async advance(ms) {
      const until = now + ms;
      for (;;) {
        await settle();
        const next = [...sleepers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        now = Math.max(now, next.at);
        next.wake();
      }
      now = until;
    },
    get sleepers() {
      return sleepers.size;
    },
  };
}

/** Lets every promise that can go on without time or IO go on. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
