/** Narrows what was caught. A thrown non-Error keeps its text. */
export function ensureError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** For our own logs: the message and those of its causes. Never sent to a client. */
export function describeError(thrown: unknown): string {
  const parts: string[] = [];
  for (let error: unknown = thrown; error !== undefined && parts.length < 5; ) {
    parts.push(ensureError(error).message);
    error = error instanceof Error ? error.cause : undefined;
  }
  return parts.join(': ');
}
