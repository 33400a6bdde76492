/** Aborts when somebody stops this program (Ctrl-C, `kill`, a closed terminal), so that it ends what it started. Once a signal. */
export function interruptSignal(): AbortSignal {
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => interrupted.abort(new Error(`stopped by ${name}`)));
  }
  return interrupted.signal;
}
