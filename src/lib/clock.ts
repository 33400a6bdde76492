import { setTimeout as delay } from 'node:timers/promises';

/** Time, injected: nothing but `systemClock` reads the machine's own. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`; rejects with the signal's reason when that aborts first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** Node fires a longer timer at once, so a longer sleep is made of several. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  async sleep(ms, signal) {
    try {
      for (let left = ms; left > 0; left -= LONGEST_TIMER_MS) {
        await delay(Math.min(left, LONGEST_TIMER_MS), undefined, { signal });
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    }
    signal.throwIfAborted();
  },
};

/** RFC 3339 with milliseconds: step times and durations would be 0 without them. */
export function toTimestamp(ms: number): string {
  return new Date(ms).toISOString();
}
