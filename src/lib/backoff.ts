export interface Backoff {
  /** Upper bound of the first delay, ms. */
  readonly base: number;
  readonly factor: number;
  /** Upper bound of any delay, ms. */
  readonly max: number;
  /** Share of the delay that is random, 0 (none) to 1 (full jitter). */
  readonly jitter: number;
}

/** The delay in ms before retry number `attempt` (0 for the first). `random` gives [0, 1). */
export function backoffDelay(backoff: Backoff, attempt: number, random: () => number = Math.random): number {
  const bound = Math.min(backoff.max, backoff.base * backoff.factor ** attempt);
  return bound * (1 - backoff.jitter * random());
}
