import { formatDuration } from '../../src/lib/duration.ts';

const TERMINAL_MS = 1_000;
const LOG_MS = 30_000;

/** Where progress is written: `process.stderr`, or what a test collects. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** A line that says what is going on and for how long: kept up to date on a terminal, repeated now and then in a log. */
export function startProgress(text: string, stream: ProgressStream): { end(outcome: string): void } {
  const started = performance.now();
  const elapsed = (): string => formatDuration(Math.floor((performance.now() - started) / 1_000) * 1_000);
  const show = (state: string): void => {
    stream.write(stream.isTTY ? `\r\x1b[K${text}: ${state}` : `${text}: ${state}\n`);
  };
  show('started');
  const timer = setInterval(() => show(elapsed()), stream.isTTY ? TERMINAL_MS : LOG_MS);
  return {
    end(outcome) {
      clearInterval(timer);
      show(`${outcome} after ${elapsed()}`);
      if (stream.isTTY) stream.write('\n');
    },
  };
}
