import { isDeepStrictEqual } from 'node:util';
import type { MCPServerSpec, MCPServerStatus } from '../api/mcp-server.ts';
import type { Condition } from '../api/object.ts';
import { abortable } from '../lib/abort.ts';
import { toTimestamp } from '../lib/clock.ts';
import type { ToolDescription } from '../workflow/ports.ts';
import { type AttemptOptions, attemptSession } from './attempt.ts';
import {
  type ConnectionEffect,
  type ConnectionInput,
  type ConnectionState,
  type Fault,
  faultOfState,
  step,
} from './connection-state.ts';
import type { Failure } from './failure.ts';
import type { ServerFacts, Session } from './session.ts';
import type { ListedTool, ToolList } from './tool-list.ts';

/** What goes into the status of the MCPServer; `ready` becomes its condition. */
export type UpstreamStatus = Omit<MCPServerStatus, 'observedGeneration' | 'conditions'> & {
  readonly ready: Pick<Condition, 'status' | 'reason' | 'message'>;
};

export interface ConnectionOptions extends Omit<AttemptOptions, 'onToolsChanged' | 'onTrouble' | 'onClosed'> {
  readonly allowStdio: boolean;
  /** `status` is another than before. */
  readonly onChange: () => void;
}

/** How often a server is asked whether it is still there. */
const PROBE_MS = 30_000;
/** Every so many probes its tools are read instead, whatever it tells or does not tell of changes. */
const PROBES_A_LIST = 10;
const MAX_ERROR = 2_048;
const SHOWN_WARNINGS = 3;
const NO_TOOLS: ToolList = { tools: new Map(), warnings: [] };

/** The connection to one MCPServer: performs the effects of connection-state.ts, and keeps what is known of the server. */
export class Connection {
  readonly #options: ConnectionOptions;
  #spec: MCPServerSpec | undefined;
  #state: ConnectionState = { kind: 'idle' };
  /** Resolves when the state is another. */
  #changed = Promise.withResolvers<void>();
  #session: Session | undefined;
  /** All that are not closed, those included that only end their last calls. */
  readonly #sessions = new Set<Session>();
  #attempt = new AbortController();
  readonly #attempts = new Set<Promise<void>>();
  #timer = new AbortController();
  /** Ends the watch over the current session. */
  #watch = new AbortController();
  #isListing = false;
  #listAgain = false;
  #facts: ServerFacts = {};
  #list = NO_TOOLS;
  #lastConnected: string | undefined;
  #lastError: string | undefined;
  #published: UpstreamStatus;
  #closed: Promise<unknown> = Promise.resolve();

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#published = this.status;
  }

  /** Connects anew when the spec is another one. */
  update(spec: MCPServerSpec): void {
    if (isDeepStrictEqual(spec, this.#spec)) return;
    this.#spec = spec;
    this.#facts = {};
    this.#list = NO_TOOLS;
    this.#lastError = undefined;
    if (spec.type === 'stdio' && !this.#options.allowStdio) {
      const message = 'is of type stdio, which this operator runs only with --allow-stdio';
      this.#feed({ type: 'unusable', fault: { reason: 'StdioNotAllowed', message } });
    } else {
      this.#feed({ type: 'configured' });
    }
  }

  /** Breaks off what is open; resolves when nothing is left of it. */
  async stop(): Promise<void> {
    this.#feed({ type: 'stopped' });
    await this.#closed;
  }

  get status(): UpstreamStatus {
    return {
      ...this.#facts,
      ...(this.#list.tools.size > 0 && { tools: [...this.#list.tools].map(([name, { hash }]) => ({ name, hash })) }),
      ...(this.#lastConnected !== undefined && { lastConnected: this.#lastConnected }),
      ...(this.#lastError !== undefined && { lastError: this.#lastError }),
      ready: this.#ready(),
    };
  }

  /** Why it is not ready; undefined when it is. */
  get fault(): Fault | undefined {
    return faultOfState(this.#state);
  }

  /** What the server's list says of the tool, also while it is not ready. */
  tool(name: string): ListedTool | undefined {
    return this.#list.tools.get(name);
  }

  /** As the port has it: nothing while the server is not ready. */
  describe(name: string): ToolDescription | undefined {
    return this.fault === undefined ? this.tool(name) : undefined;
  }

  /** The session to call on. One that is not there is tried for at once, and waited for until `signal` aborts. */
  async session(signal: AbortSignal): Promise<Session | undefined> {
    while (!signal.aborted) {
      if (this.#session !== undefined) return this.#session;
      if (this.#state.kind === 'idle' || this.#state.kind === 'stopped') return undefined;
      this.#feed({ type: 'wanted' });
      await abortable(this.#changed.promise, signal).catch(() => {});
    }
    return undefined;
  }

  /** A request on `session` failed: what that says of the server. */
  observe(session: Session, { nature, fault }: Failure): void {
    if (session !== this.#session || nature === 'busy') return;
    if (nature === 'unreachable') this.#feed({ type: 'lost', fault });
    else if (nature === 'sessionLost') this.#feed({ type: 'sessionLost', fault });
    else this.#feed({ type: 'suspected' });
  }

  #feed(input: ConnectionInput): void {
    const before = this.#state;
    const { state, effects } = step(before, input, this.#options.clock.now(), Math.random());
    this.#state = state;
    if ('fault' in input && this.fault !== undefined) this.#note(input.fault);
    for (const effect of effects) this.#perform(effect);
    if (state === before) return;
    const changed = this.#changed;
    this.#changed = Promise.withResolvers();
    changed.resolve();
    this.#publish();
  }

  #note({ reason, message, detail }: Fault): void {
    const error = (detail === undefined ? message : `${message}: ${detail}`).slice(0, MAX_ERROR);
    if (error !== this.#lastError) this.#options.log.warn({ reason, error }, 'upstream not ready');
    this.#lastError = error;
  }

  #publish(): void {
    const { status } = this;
    if (isDeepStrictEqual(status, this.#published)) return;
    this.#published = status;
    this.#options.onChange();
  }

  #perform(effect: ConnectionEffect): void {
    switch (effect.type) {
      case 'connect':
        this.#startAttempt();
        break;
      case 'abandon':
        this.#attempt.abort();
        break;
      case 'wake':
        void this.#wake(effect.afterMs);
        break;
      case 'probe':
        if (this.#session !== undefined) void this.#probe(this.#session);
        break;
      case 'retire':
        this.#retire();
        break;
      case 'close':
        this.#closed = this.#close();
        break;
    }
  }

  #startAttempt(): void {
    if (this.#spec === undefined) return;
    this.#attempt.abort();
    this.#timer.abort();
    this.#attempt = new AbortController();
    const attempt = this.#connect(this.#spec, this.#attempt.signal).finally(() => this.#attempts.delete(attempt));
    this.#attempts.add(attempt);
  }

  async #connect(spec: MCPServerSpec, signal: AbortSignal): Promise<void> {
    const outcome = await attemptSession(
      spec,
      {
        ...this.#options,
        onToolsChanged: (session) => session === this.#session && void this.#relist(),
        onTrouble: (session) => session === this.#session && this.#feed({ type: 'suspected' }),
        onClosed: (session) =>
          this.observe(session, { nature: 'unreachable', fault: { reason: 'ConnectionClosed', message: 'has ended' } }),
      },
      signal,
    );
    if (outcome.kind === 'failed') {
      if (!signal.aborted) this.#feed({ type: 'failed', fault: outcome.fault });
    } else if (signal.aborted) {
      await outcome.session.close();
    } else {
      this.#begin(outcome.session, outcome.list);
    }
  }

  #begin(session: Session, list: ToolList): void {
    const { clock, log } = this.#options;
    this.#session = session;
    this.#sessions.add(session);
    this.#facts = session.facts;
    this.#lastConnected = toTimestamp(clock.now());
    this.#watch = new AbortController();
    log.info({ ...session.facts, tools: list.tools.size }, 'upstream connected');
    this.#setList(list);
    this.#feed({ type: 'connected' });
    void this.#watchOver(this.#watch.signal);
  }

  async #watchOver(signal: AbortSignal): Promise<void> {
    for (let probes = 1; ; probes += 1) {
      await this.#options.clock.sleep(PROBE_MS, signal).catch(() => {});
      if (signal.aborted) return;
      if (probes % PROBES_A_LIST === 0) await this.#relist();
      else this.#feed({ type: 'suspected' });
    }
  }

  async #wake(afterMs: number): Promise<void> {
    this.#timer.abort();
    this.#timer = new AbortController();
    const { signal } = this.#timer;
    await this.#options.clock.sleep(afterMs, signal).catch(() => {});
    if (!signal.aborted) this.#feed({ type: 'due' });
  }

  async #probe(session: Session): Promise<void> {
    const failure = await session.probe();
    if (session !== this.#session) return;
    if (failure === undefined) this.#feed({ type: 'answered' });
    else if (failure.nature === 'sessionLost') this.#feed({ type: 'sessionLost', fault: failure.fault });
    else this.#feed({ type: 'lost', fault: failure.fault });
  }

  /** One at a time; what changes meanwhile is read after it. */
  async #relist(): Promise<void> {
    this.#listAgain = true;
    if (this.#isListing) return;
    this.#isListing = true;
    while (this.#listAgain && this.#session !== undefined) {
      this.#listAgain = false;
      const session = this.#session;
      const list = await session.listTools(this.#watch.signal);
      if (session !== this.#session) continue;
      if (!('kind' in list)) this.#setList(list);
      else if (list.kind === 'failure') this.observe(session, list.failure);
      else this.#feed({ type: 'suspected' });
    }
    this.#isListing = false;
  }

  #setList(list: ToolList): void {
    this.#list = list;
    for (const warning of list.warnings) this.#options.log.warn({ warning }, 'upstream tool list');
    if (this.#state.kind === 'ready') this.#publish();
  }

  #retire(): void {
    const session = this.#session;
    this.#session = undefined;
    this.#watch.abort();
    if (session !== undefined) void session.retire().finally(() => this.#sessions.delete(session));
  }

  async #close(): Promise<void> {
    this.#session = undefined;
    this.#watch.abort();
    this.#timer.abort();
    this.#attempt.abort();
    await Promise.all([...this.#attempts, ...[...this.#sessions].map((session) => session.close())]);
  }

  #ready(): UpstreamStatus['ready'] {
    const { fault } = this;
    if (fault !== undefined) {
      const message = fault.detail === undefined ? fault.message : `${fault.message}: ${fault.detail}`;
      return { status: 'False', reason: fault.reason, message: message.slice(0, MAX_ERROR) };
    }
    const { tools, warnings } = this.#list;
    const shown = warnings.slice(0, SHOWN_WARNINGS);
    const more = warnings.length > shown.length ? [`${warnings.length - shown.length} more in the log`] : [];
    const message = [`${tools.size} ${tools.size === 1 ? 'tool' : 'tools'}`, ...shown, ...more].join('; ');
    return { status: 'True', reason: 'Connected', message: message.slice(0, MAX_ERROR) };
  }
}
