import type { Clock } from '../lib/clock.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Logger } from '../lib/log.ts';
import type { Catalog, Runs } from './ports.ts';

/** What answering a request takes, the same for all of them. */
export interface Services {
  readonly catalog: Catalog;
  readonly runs: Runs;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  /** How long a call under `taskBehavior: auto` waits for the end before it answers with a task. */
  readonly gracePeriodMs: number;
  /** Tools on a page of `tools/list`. */
  readonly pageSize: number;
  /** Of this program, as clients see it. */
  readonly version: string;
  /** Aborts when this replica stops: a call that waits is answered, its run goes on elsewhere. */
  readonly stopped: AbortSignal;
}

/** One request's view: whose it is and which tools there are. Nothing is remembered from one request to the next. */
export interface Scope extends Services {
  readonly namespace: string;
  readonly subject: string;
}

/** 2026-07-28, or the 2025 revisions, which know no extensions. */
export type Era = 'modern' | 'legacy';

/** What this request says of its client. */
export interface Caller {
  readonly era: Era;
  /** This request declares io.modelcontextprotocol/tasks. */
  readonly hasTasks: boolean;
  /** Present when the client asked for progress. Gives nothing back and never fails: a client that left is no fault. */
  readonly onProgress?: (progress: { progress: number; total?: number; message?: string }) => void;
  /** Aborts when the client is gone, and after the answer was sent. */
  readonly signal: AbortSignal;
}
