import { Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import type { MCPServerStatus } from '../api/mcp-server.ts';
import { abortable } from '../lib/abort.ts';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import { isJsonObject, type JsonObject } from '../lib/json.ts';
import type { Logger } from '../lib/log.ts';
import { type Failure, failure, notResponding } from './failure.ts';
import { currentExchange } from './http.ts';
import { type Answer, Lane, type LaneRequest, tooLarge } from './lane.ts';
import { listTools, type ToolList } from './tool-list.ts';

/** What a server says of itself, in the words and bounds of MCPServerStatus. */
export type ServerFacts = Pick<MCPServerStatus, 'protocolVersion' | 'serverInfo' | 'extensions'>;

export interface SessionOptions {
  readonly transport: Transport;
  /** Ends what the transport does not end by itself. */
  readonly release: () => Promise<void>;
  /** How we call ourselves. */
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Bound on each question of ours; calls have none. */
  readonly timeoutMs: number;
  /** Bound on finding out the era of the server, which for stdio is a process of its own. */
  readonly eraTimeoutMs: number;
  readonly limitBytes: number;
  /** The server says that its tools changed, or may have said so while we could not hear it. */
  readonly onToolsChanged: (session: Session) => void;
  /** Something broke, which may mean that the server is gone. */
  readonly onTrouble: (session: Session) => void;
  /** The transport is gone: its process ended. */
  readonly onClosed: (session: Session) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Between attempts to listen for changes. */
const LISTEN: Backoff = { base: 500, factor: 2, max: 30_000, jitter: 0.5 };
/** The list is read when changes of it are heard, but not later than this. */
const HEAR_MS = 1_000;
/** A server that is gone need not be told goodbye. */
const BYE_MS = 1_000;
const MAX_TEXT = 256;
const MAX_EXTENSIONS = 64;
const MAX_SETTINGS = 4_096;

/**
 * One conversation with a server: negotiated once, never re-established (that is another session). The SDK's Client does
 * the handshake and hears notifications; everything that is asked goes through the lane.
 */
export class Session {
  readonly facts: ServerFacts;
  readonly #options: SessionOptions;
  readonly #client: Client;
  readonly #lane: Lane;
  readonly #lifetime: AbortController;
  readonly #isModern: boolean;
  /** Resolves when changes of the tools are heard, or cannot be. */
  readonly #hears: Promise<void>;
  #closing: Promise<void> | undefined;

  private constructor(options: SessionOptions, client: Client, lane: Lane, lifetime: AbortController) {
    this.#options = options;
    this.#client = client;
    this.#lane = lane;
    this.#lifetime = lifetime;
    this.#isModern = client.getProtocolEra() === 'modern';
    this.facts = factsOf(client);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#hears = promise;
    if (this.#isModern && client.getServerCapabilities()?.tools?.listChanged === true) void this.#listen(resolve);
    else resolve();
  }

  /** @throws whatever the SDK or undici throw; the signal's reason when that aborts. Then nothing is left behind. */
  static open(options: SessionOptions, signal: AbortSignal): Promise<Session> {
    // What runs for as long as the session does belongs to no call, not even to the one that made us connect.
    return currentExchange.run(undefined, () => Session.#open(options, signal));
  }

  static async #open(options: SessionOptions, signal: AbortSignal): Promise<Session> {
    const { transport, clientInfo, timeoutMs, eraTimeoutMs, limitBytes, log } = options;
    const client = new Client(clientInfo, {
      versionNegotiation: { mode: 'auto', probe: { timeoutMs: eraTimeoutMs } },
      inputRequired: { autoFulfill: false },
    });
    // Its list is read after this, so what is heard before counts for nothing.
    let session: Session | undefined;
    client.setNotificationHandler('notifications/tools/list_changed', () => {
      if (session !== undefined) options.onToolsChanged(session);
    });
    const lifetime = new AbortController();
    let closing: Promise<void> | undefined;
    const onAbort = (): void => {
      closing = transport.close().catch(() => {});
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await abortable(client.connect(transport, { timeout: timeoutMs }), signal);
    } catch (error) {
      await (closing ?? transport.close().catch(() => {}));
      await options.release();
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
    const protocolVersion = client.getNegotiatedProtocolVersion() ?? '';
    const envelope =
      client.getProtocolEra() === 'modern' ? { protocolVersion, clientInfo: { ...clientInfo } } : undefined;
    const lane = new Lane({ transport, envelope, limitBytes });
    const deliver = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (!lane.take(message)) deliver?.(message, extra);
    };
    client.onerror = (error) => {
      log.debug({ error: describeError(error) }, 'upstream transport');
      // Over stdio there is no telling which answer it was; the SDK ends the process after it.
      if (error.message.startsWith('ReadBuffer exceeded')) lane.fail(tooLarge(limitBytes));
      if (!lifetime.signal.aborted && session !== undefined) options.onTrouble(session);
    };
    client.onclose = () => {
      lane.fail(failure('broken', 'ConnectionClosed', 'ended before it answered'));
      if (!lifetime.signal.aborted && session !== undefined) options.onClosed(session);
    };
    session = new Session(options, client, lane, lifetime);
    return session;
  }

  request(request: LaneRequest, signal: AbortSignal): Promise<Answer> {
    return this.#lane.request(request, signal);
  }

  /** Asks for all tools. `aborted`: no answer in time. */
  async listTools(signal: AbortSignal): Promise<ToolList | Exclude<Answer, { kind: 'result' }>> {
    if (this.#client.getServerCapabilities()?.tools === undefined) return { tools: new Map(), warnings: [] };
    await abortable(this.#hears, AbortSignal.any([signal, AbortSignal.timeout(HEAR_MS)])).catch(() => {});
    const bound = AbortSignal.any([signal, AbortSignal.timeout(this.#options.timeoutMs)]);
    return listTools((cursor) =>
      this.#lane.request({ method: 'tools/list', params: cursor === undefined ? {} : { cursor } }, bound),
    );
  }

  /** Why it does not answer; undefined when it does, whatever it says. */
  async probe(): Promise<Failure | undefined> {
    const { timeoutMs } = this.#options;
    const signal = AbortSignal.any([this.#lifetime.signal, AbortSignal.timeout(timeoutMs)]);
    const answer = await this.#lane.request({ method: this.#isModern ? 'server/discover' : 'ping' }, signal);
    if (answer.kind === 'aborted') return notResponding(timeoutMs);
    return answer.kind === 'failure' && answer.failure.nature !== 'busy' ? answer.failure : undefined;
  }

  /** Takes part in nothing new, and closes after the last request that is open; resolves then. */
  async retire(): Promise<void> {
    this.#lifetime.abort();
    await new Promise<void>((resolve) => this.#lane.whenIdle(resolve));
    await this.close();
  }

  /** Breaks off what is open. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { transport, release } = this.#options;
    this.#lifetime.abort();
    this.#lane.fail(failure('broken', 'ConnectionClosed', 'was disconnected before it answered'));
    if (transport instanceof StreamableHTTPClientTransport) {
      // A 2025-era server would keep the session for as long as it runs.
      await abortable(transport.terminateSession(), AbortSignal.timeout(BYE_MS)).catch(() => {});
    }
    await this.#client.close().catch(() => {});
    await release();
  }

  async #listen(hears: () => void): Promise<void> {
    const { clock, timeoutMs, onToolsChanged, onTrouble, log } = this.#options;
    const { signal } = this.#lifetime;
    let isFirst = true;
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        const subscription = await this.#client.listen({ toolsListChanged: true }, { signal, timeout: timeoutMs });
        failures = 0;
        hears();
        if (!isFirst) onToolsChanged(this);
        isFirst = false;
        await abortable(subscription.closed, signal);
        onTrouble(this);
      } catch (error) {
        if (!signal.aborted) log.debug({ error: describeError(error) }, 'cannot listen for changes of the tools');
      }
      hears();
      await clock.sleep(backoffDelay(LISTEN, failures), signal).catch(() => {});
    }
  }
}

function factsOf(client: Client): ServerFacts {
  const protocolVersion = client.getNegotiatedProtocolVersion();
  const info = client.getServerVersion();
  const extensions = client.getServerCapabilities()?.extensions;
  return {
    ...(protocolVersion !== undefined && { protocolVersion }),
    ...(info !== undefined && {
      serverInfo: { name: info.name.slice(0, MAX_TEXT), version: info.version.slice(0, MAX_TEXT) },
    }),
    ...(isJsonObject(extensions) && { extensions: boundedExtensions(extensions) }),
  };
}

/** A status has room for what servers advertise, not for whatever one may send. */
function boundedExtensions(extensions: JsonObject): Record<string, JsonObject> {
  const entries = Object.entries(extensions).filter((entry): entry is [string, JsonObject] => {
    const [name, settings] = entry;
    return name.length <= MAX_TEXT && isJsonObject(settings) && JSON.stringify(settings).length <= MAX_SETTINGS;
  });
  return Object.fromEntries(entries.slice(0, MAX_EXTENSIONS));
}
