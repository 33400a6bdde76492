import { AsyncLocalStorage } from 'node:async_hooks';
import { isDeepStrictEqual } from 'node:util';
import type { FetchLike } from '@modelcontextprotocol/client';
import { Agent, buildConnector, Headers, type RequestInit, Response, fetch as undiciFetch } from 'undici';
import { ConnectError } from '../kube/agent.ts';

/** What the HTTP side tells the request on whose behalf it works, and which the SDK's transport does not pass on. */
export interface Exchange {
  /** The answer comes as a stream of events, so it is not over when its headers are there. */
  streaming: boolean;
  /** The answer is above the limit. */
  tooLarge(): void;
  /** The answer broke off and could not be resumed. */
  broken(): void;
}

/** Set around each request of a lane, for whatever is done on its behalf; requests of the SDK's own have none. */
export const currentExchange = new AsyncLocalStorage<Exchange | undefined>();

/** An answer, or one event of a stream, was above the limit. */
export class TooLargeError extends Error {
  override name = 'TooLargeError';
}

export interface UpstreamHttp {
  readonly fetch: FetchLike;
  /** Breaks every connection. */
  close(): Promise<void>;
}

export interface UpstreamHttpOptions {
  /** Headers of the spec; asked again when the server answers 401. */
  readonly resolveHeaders: () => Promise<Record<string, string>>;
  readonly connectTimeoutMs: number;
  /** Of one answer or event, after decompression. */
  readonly limitBytes: number;
}

/**
 * The HTTP client of one session. HTTP/1.1, so that the end of a request is the end of its connection alone. It has no
 * time-out of its own once connected: a call may be silent for as long as its step allows.
 */
export async function createUpstreamHttp(options: UpstreamHttpOptions): Promise<UpstreamHttp> {
  const agent = createAgent(options.connectTimeoutMs);
  let headers = await options.resolveHeaders();
  const send = (url: string | URL, init: RequestInit, own: Record<string, string>): Promise<Response> =>
    undiciFetch(url, { ...init, headers: merged(own, init.headers), dispatcher: agent });

  const fetch = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    let response = await send(url, init, headers);
    if (response.status === 401) {
      const renewed = await options.resolveHeaders();
      if (!isDeepStrictEqual(renewed, headers)) {
        // Refused for who we are, so not carried out: it may be sent again as who we are now.
        headers = renewed;
        await response.body?.cancel();
        response = await send(url, init, headers);
      }
    }
    return limited(response, options.limitBytes);
  };
  // The types of undici and of Node describe the same classes (Node's are undici's), each in its own words.
  return { fetch: fetch as unknown as FetchLike, close: () => agent.destroy() };
}

function createAgent(connectTimeoutMs: number): Agent {
  const connector = buildConnector({
    allowH2: false,
    timeout: connectTimeoutMs,
    keepAlive: true,
    // Below the idle time-outs of load balancers (60 s): a call that is silent for long keeps its connection.
    keepAliveInitialDelay: 30_000,
  });
  return new Agent({
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (target, callback) =>
      connector(target, (error, socket) =>
        error === null || error === undefined
          ? callback(null, socket)
          : callback(new ConnectError('cannot connect', { cause: error }), null),
      ),
  });
}

function merged(own: Record<string, string>, protocol: RequestInit['headers']): Headers {
  const headers = new Headers(own);
  for (const [name, value] of new Headers(protocol as Record<string, string>)) headers.set(name, value);
  return headers;
}

function limited(response: Response, limitBytes: number): Response {
  const exchange = currentExchange.getStore();
  const streaming = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  if (exchange !== undefined) exchange.streaming = streaming;
  if (response.body === null) return response;
  let bytes = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      const end = streaming ? endOfLastEvent(chunk) : 0;
      bytes = end === 0 ? bytes + chunk.length : chunk.length - end;
      if (bytes <= limitBytes) return controller.enqueue(chunk);
      exchange?.tooLarge();
      controller.error(new TooLargeError(`above ${limitBytes} bytes`));
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(limit), { status, statusText, headers });
}

/** Index after the last blank line, 0 when there is none. One that two chunks share is counted with the next event. */
function endOfLastEvent(chunk: Uint8Array): number {
  const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  const [lf, crlf] = [bytes.lastIndexOf('\n\n'), bytes.lastIndexOf('\r\n\r\n')];
  return Math.max(lf === -1 ? 0 : lf + 2, crlf === -1 ? 0 : crlf + 4);
}
