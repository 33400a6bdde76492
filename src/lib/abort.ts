import type { Clock } from './clock.ts';

/** A signal that aborts with `parent`, or after `ms` with a `TimeoutError`. Call `clear` when the work is done. */
export function withTimeout(parent: AbortSignal, ms: number): { signal: AbortSignal; clear: () => void } {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new DOMException(`no answer in ${ms} ms`, 'TimeoutError')), ms);
  const clear = (): void => {
    clearTimeout(timer);
    parent.removeEventListener('abort', onAbort);
  };
  const onAbort = (): void => {
    clear();
    controller.abort(parent.reason);
  };
  if (parent.aborted) onAbort();
  else parent.addEventListener('abort', onAbort, { once: true });
  return { signal: controller.signal, clear };
}

/** Settles as `promise` does, or rejects with the signal's reason when that aborts first. The promise itself goes on. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  promise.catch(() => {}); // that nobody waits for it any more is no fault
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Resolves when `work` has settled, however it did, and at the latest after `ms`. The work itself goes on. */
export async function settledWithin(ms: number, work: Promise<unknown>, clock: Clock): Promise<void> {
  const over = new AbortController();
  await Promise.race([Promise.allSettled([work]), clock.sleep(ms, over.signal).catch(() => {})]);
  over.abort();
}
