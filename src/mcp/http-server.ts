import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** node:http on one side, `Response` on the other. Knows nothing of MCP. */

export interface HttpRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Aborts when the exchange is over: answered, or the client is gone. */
  readonly signal: AbortSignal;
  /** To be called once. @throws BodyTooLargeError */
  text(): Promise<string>;
}

export interface HttpServer {
  readonly port: number;
  /** Accepts no more connections; resolves when what is being answered is answered. */
  drain(): Promise<void>;
  /** Cuts what is left. */
  destroy(): Promise<void>;
}

/** As that of the SDK. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;
/** A body beyond the limit is read on, to nowhere, so that the client sees an answer and not a reset; up to this. */
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;

export class BodyTooLargeError extends Error {
  override name = 'BodyTooLargeError';
}

/**
 * No time-out bounds an answer, which may take as long as a run does (field case 68): these bound the request alone, and a
 * connection that is idle, for longer than the proxies before it keep one.
 */
export const HTTP_OPTIONS: ServerOptions = {
  headersTimeout: 60_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 75_000,
  // Nagle's algorithm would hold a short write back until the one before is acknowledged (field case 78).
  noDelay: true,
};

/** @throws what `listen` does, for instance when the port is taken. `answer` must not reject. */
export async function startHttpServer(options: {
  readonly host: string;
  readonly port: number;
  readonly answer: (request: HttpRequest) => Promise<Response>;
}): Promise<HttpServer> {
  const open = new Set<Promise<void>>();
  const server = createServer(HTTP_OPTIONS, (incoming, outgoing) => {
    const exchange = serve(incoming, outgoing, options.answer).finally(() => open.delete(exchange));
    open.add(exchange);
  });
  const listening = Promise.withResolvers<void>();
  server.once('error', listening.reject);
  server.listen(options.port, options.host, listening.resolve);
  await listening.promise;
  server.off('error', listening.reject);
  const closed = new Promise<void>((resolve) => server.once('close', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async drain() {
      if (server.listening) server.close();
      while (open.size > 0) await Promise.all(open);
    },
    async destroy() {
      if (server.listening) server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function serve(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  answer: (request: HttpRequest) => Promise<Response>,
): Promise<void> {
  const over = new AbortController();
  outgoing.once('close', () => over.abort());
  const response = await answer({
    method: incoming.method ?? '',
    path: (incoming.url ?? '').replace(/\?.*$/s, ''),
    headers: incoming.headers,
    signal: over.signal,
    text: () => readText(incoming),
  });
  try {
    await send(response, outgoing);
  } catch {
    // The client left in the middle, or the answer broke off: either way nothing more can be said on this connection.
    outgoing.destroy();
  }
}

async function readText(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
    if (bytes > MAX_DISCARDED_BYTES) break;
  }
  if (bytes <= MAX_BODY_BYTES) return Buffer.concat(chunks).toString('utf8');
  throw new BodyTooLargeError(`the body of a request may have ${MAX_BODY_BYTES} bytes (4 MiB), this one has more`);
}

async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  const headers = Object.fromEntries(response.headers);
  if (outgoing.destroyed) {
    await response.body?.cancel();
    return;
  }
  if (response.body !== null && isEventStream(response)) {
    outgoing.writeHead(response.status, headers);
    outgoing.flushHeaders();
    await pipeline(Readable.fromWeb(response.body), outgoing);
    return;
  }
  // With its length, head and body leave in one write.
  const body = Buffer.from(await response.arrayBuffer());
  outgoing.writeHead(response.status, { ...headers, 'content-length': body.byteLength }).end(body);
}

export function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
}
