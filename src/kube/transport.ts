import { isDeepStrictEqual } from 'node:util';
import type { Dispatcher } from 'undici';
import { abortable, withTimeout } from '../lib/abort.ts';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { JsonValue } from '../lib/json.ts';
import { ConnectError, createAgent } from './agent.ts';
import { KubeError, UnavailableError } from './errors.ts';
import type { Cluster, Credentials, TlsMaterial } from './kubeconfig.ts';
import { statusError } from './status-error.ts';

export interface TransportOptions {
  /** `name/version`, which audit logs and priority levels tell clients by; up to the `/` it is the field manager. */
  readonly userAgent: string;
  /** Bound of a call with all its retries, ms. The API server itself gives up a write after 34 s. Default 38000. */
  readonly callTimeoutMs?: number;
  /** The same for a list. Default 60000. */
  readonly listTimeoutMs?: number;
  /** Default 10000. */
  readonly connectTimeoutMs?: number;
  /** A connection whose peer leaves a PING unanswered for so long is given up, and what runs on it fails. Default 15000. */
  readonly pingIntervalMs?: number;
  /** Delays between attempts, beyond what the server demands (Retry-After). */
  readonly backoff?: Backoff;
  readonly clock?: Clock;
  /** [0, 1), for jitter. */
  readonly random?: () => number;
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With its query. */
  readonly path: string;
  readonly body?: string;
  /** Default `application/json`. */
  readonly contentType?: string;
}

const DEFAULT_BACKOFF: Backoff = { base: 250, factor: 2, max: 5_000, jitter: 0.5 };
/** Attempts after the first. Nothing but 429 and a connection that could not be made is repeated, so all methods may be. */
const MAX_RETRIES = 4;
/** A server that wants to be left alone for longer is reported instead of waited for. */
const LONGEST_RETRY_AFTER_MS = 30_000;

/** An attempt that brought no 2xx; `retryAfterMs` is given when it may be repeated. */
interface Refusal {
  readonly error: KubeError;
  readonly retryAfterMs: number | undefined;
}

/** Requests to one API server on one shared pool of connections. */
export class Transport {
  readonly #cluster: Cluster;
  readonly #options: Required<TransportOptions>;
  readonly #origin: string;
  /** Path of the server's URL, which gateways such as Rancher's have. */
  readonly #prefix: string;
  #agent: Dispatcher | undefined;
  #tls: TlsMaterial | undefined;
  /** Agents that no request starts on any more, until their last watch has ended. */
  readonly #closing = new Set<Promise<unknown>>();
  #closed = false;

  constructor(cluster: Cluster, options: TransportOptions) {
    this.#cluster = cluster;
    const url = new URL(cluster.server);
    this.#origin = url.origin;
    this.#prefix = url.pathname === '/' ? '' : url.pathname;
    this.#options = {
      callTimeoutMs: 38_000,
      listTimeoutMs: 60_000,
      connectTimeoutMs: 10_000,
      pingIntervalMs: 15_000,
      backoff: DEFAULT_BACKOFF,
      clock: systemClock,
      random: Math.random,
      ...options,
    };
  }

  /** The text of the answer's body. @throws an error of errors.ts; the signal's reason when that aborts. */
  async call(request: ApiRequest, signal = new AbortController().signal, list = false): Promise<string> {
    const { callTimeoutMs, listTimeoutMs } = this.#options;
    const timeout = withTimeout(signal, list ? listTimeoutMs : callTimeoutMs);
    try {
      const answer = await this.#exchange(request, timeout.signal);
      return await abortable(answer.body.text(), timeout.signal);
    } catch (error) {
      throw signal.aborted ? signal.reason : this.failure(request, error);
    } finally {
      timeout.clear();
    }
  }

  /** The answer's body as it comes: a watch. Breaks off after `silenceMs` without a byte; map that with `failure`. */
  async open(request: ApiRequest, silenceMs: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    try {
      const answer = await this.#exchange(request, signal, silenceMs);
      return answer.body;
    } catch (error) {
      throw signal.aborted ? signal.reason : this.failure(request, error);
    }
  }

  /** What happened to `request`, as an error of errors.ts. */
  failure(request: ApiRequest, error: unknown): KubeError {
    if (error instanceof KubeError) return error;
    const outcome = request.method === 'GET' || error instanceof ConnectError ? 'none' : 'unknown';
    const message = `${describe(request)}: ${this.#cluster.server}: ${describeError(error)}`;
    return new UnavailableError(message, 0, '', outcome, { cause: error });
  }

  /** Resolves when all that is under way has ended; a watch ends when its owner aborts it. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#retire();
    await Promise.all(this.#closing);
  }

  /** Resolves with a 2xx answer, its body not yet read. */
  async #exchange(request: ApiRequest, signal: AbortSignal, silenceMs?: number): Promise<Dispatcher.ResponseData> {
    let mayRenew = true;
    for (let attempt = 0; ; attempt += 1) {
      const credentials = await abortable(this.#cluster.credentials(), signal);
      const result = await this.#attempt(request, credentials, signal, silenceMs);
      if (!('error' in result)) return result;
      const { error, retryAfterMs } = result;
      if (error.status === 401 && mayRenew) {
        mayRenew = false;
        if ((await abortable(this.#cluster.renew(credentials), signal)) === credentials) throw error;
        continue;
      }
      if (retryAfterMs === undefined || retryAfterMs > LONGEST_RETRY_AFTER_MS || attempt >= MAX_RETRIES) throw error;
      // Never before the server's time; some of ours on top, so that clients it has sent away do not return together.
      const delay = retryAfterMs + backoffDelay(this.#options.backoff, attempt, this.#options.random);
      // Out of time while waiting: what the server said tells more than that.
      await this.#options.clock.sleep(delay, signal).catch(() => Promise.reject(error));
    }
  }

  async #attempt(
    request: ApiRequest,
    credentials: Credentials,
    signal: AbortSignal,
    silenceMs: number | undefined,
  ): Promise<Dispatcher.ResponseData | Refusal> {
    if (this.#closed) throw new UnavailableError(`${describe(request)}: the client is closed`, 0, '', 'none');
    const { body, contentType = 'application/json' } = request;
    try {
      const exchange = this.#agentFor(credentials.tls).request({
        origin: this.#origin,
        path: this.#prefix + request.path,
        method: request.method,
        headers: {
          accept: 'application/json',
          'user-agent': this.#options.userAgent,
          ...credentials.headers,
          ...(body === undefined ? {} : { 'content-type': contentType }),
        },
        ...(body === undefined ? {} : { body }),
        ...(silenceMs === undefined ? {} : { headersTimeout: silenceMs, bodyTimeout: silenceMs }),
        // A write ends by itself, or at its own time-out; see `leavable`.
        signal: body === undefined ? signal : AbortSignal.timeout(this.#options.callTimeoutMs),
      });
      const answer = body === undefined ? await exchange : await leavable(exchange, signal);
      return answer.statusCode >= 200 && answer.statusCode < 300 ? answer : await refusal(request, answer);
    } catch (error) {
      if (error instanceof ConnectError) return { error: this.failure(request, error), retryAfterMs: 0 };
      throw error;
    }
  }

  /** The pool for these certificates: a new one when they were rotated, the old one ends with its last request. */
  #agentFor(tls: TlsMaterial): Dispatcher {
    if (this.#agent === undefined || (tls !== this.#tls && !isDeepStrictEqual(tls, this.#tls))) {
      this.#retire();
      const { connectTimeoutMs, pingIntervalMs } = this.#options;
      this.#agent = createAgent({ tls, connectTimeoutMs, pingIntervalMs, proxyUrl: this.#cluster.proxyUrl });
    }
    this.#tls = tls;
    return this.#agent;
  }

  #retire(): void {
    const agent = this.#agent;
    this.#agent = undefined;
    if (agent === undefined) return;
    const done = (): boolean => this.#closing.delete(closing);
    const closing: Promise<unknown> = agent.close().then(done, done);
    this.#closing.add(closing);
  }
}

/**
 * A write whose caller leaves is left to end by itself. To reset its stream while the body is on its way can drive node's
 * HTTP/2 into sending for ever, at full CPU and without an end of memory (seen with node 24.21; nodejs/node#52952 is alike).
 */
async function leavable(
  exchange: Promise<Dispatcher.ResponseData>,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  try {
    return await abortable(exchange, signal);
  } catch (error) {
    exchange.then((answer) => answer.body.dump()).catch(() => {});
    throw error;
  }
}

function describe(request: ApiRequest): string {
  return `${request.method} ${request.path}`;
}

async function refusal(request: ApiRequest, answer: Dispatcher.ResponseData): Promise<Refusal> {
  const text = await answer.body.text();
  let body: JsonValue = text;
  try {
    body = JSON.parse(text);
  } catch {
    // Not from the API server itself: a proxy's or a load balancer's page. Its text is what there is to show.
  }
  const error = statusError(describe(request), answer.statusCode, body, request.method !== 'GET');
  return { error, retryAfterMs: answer.statusCode === 429 ? retryAfter(answer.headers['retry-after']) : undefined };
}

/** The API server sends seconds; the date that HTTP also allows counts as absent. */
function retryAfter(header: string | string[] | undefined): number {
  const seconds = Number(header);
  return seconds > 0 ? seconds * 1_000 : 0;
}
