import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 50;

/** Repeats a check until it does not throw, for what gives no event to await; at the end it throws what the check threw. */
export async function eventually<T>(check: () => T | Promise<T>, limitMs = 20_000): Promise<T> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await delay(POLL_MS);
  }
}
