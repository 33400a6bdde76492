import { pino } from 'pino';

/** Structured log. Messages are constant texts; what varies goes into the keys (`execution`, `server`, `key`, …). */
export interface Logger {
  debug(keys: object, message: string): void;
  info(keys: object, message: string): void;
  warn(keys: object, message: string): void;
  error(keys: object, message: string): void;
  child(keys: object): Logger;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Writes JSON lines to stderr, so that stdout stays free for what a command prints. */
export function createLogger(level: LogLevel, base: object = {}): Logger {
  return pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ fd: 2, sync: true }));
}

export const silentLogger: Logger = createLogger('silent');
