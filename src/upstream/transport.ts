import { StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import type { MCPServerSpec } from '../api/mcp-server.ts';
import type { Logger } from '../lib/log.ts';
import { createUpstreamHttp, currentExchange } from './http.ts';
import { type ResolveSecret, resolveHeaders, resolveValues } from './named-values.ts';

export interface OpenTransport {
  /** Not started yet. */
  readonly transport: Transport;
  /** Ends what the transport does not end by itself. */
  readonly release: () => Promise<void>;
}

export interface TransportOptions {
  readonly spec: MCPServerSpec;
  /** Where its Secrets are. */
  readonly namespace: string;
  readonly resolveSecret: ResolveSecret;
  readonly timeoutMs: number;
  readonly limitBytes: number;
  readonly log: Logger;
}

const CONNECT_MS = 10_000;
/** How often the stream of one call is resumed when it breaks (2025-era servers that number their events). */
const CALL_RESUMES = 3;
/** Room for the envelope of the largest answer. */
const SLACK_BYTES = 64 * 1024;
const MAX_LOG_TEXT = 2_000;

/** @throws ValueError, TypeError when the url is none */
export function openTransport(options: TransportOptions): Promise<OpenTransport> {
  return options.spec.type === 'stdio' ? openStdio(options) : openHttp(options);
}

async function openHttp(options: TransportOptions): Promise<OpenTransport> {
  const { spec, namespace, resolveSecret, timeoutMs, limitBytes } = options;
  const url = new URL(spec.url ?? '');
  const http = await createUpstreamHttp({
    resolveHeaders: () => resolveHeaders(spec.headers ?? [], namespace, resolveSecret),
    connectTimeoutMs: Math.min(CONNECT_MS, timeoutMs),
    limitBytes,
  });
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: http.fetch,
    redirectPolicy: 'same-origin',
    // The stream on which a 2025-era server speaks unasked is kept up for as long as the session is. A timer of the
    // SDK's own would hold up the end of the process.
    reconnectionOptions: {
      initialReconnectionDelay: 1_000,
      maxReconnectionDelay: 30_000,
      reconnectionDelayGrowFactor: 2,
      maxRetries: Number.MAX_SAFE_INTEGER,
    },
    reconnectionScheduler: (reconnect, delayMs, attempt) => {
      const exchange = currentExchange.getStore();
      if (exchange !== undefined && attempt >= CALL_RESUMES) {
        exchange.broken();
        return undefined;
      }
      const timer = setTimeout(reconnect, delayMs).unref();
      return () => clearTimeout(timer);
    },
  });
  return { transport, release: http.close };
}

async function openStdio({
  spec,
  namespace,
  resolveSecret,
  limitBytes,
  log,
}: TransportOptions): Promise<OpenTransport> {
  const transport = new StdioClientTransport({
    command: spec.command ?? '',
    args: spec.args ?? [],
    env: await resolveValues(spec.env ?? [], namespace, resolveSecret),
    stderr: 'pipe',
    maxBufferSize: limitBytes + SLACK_BYTES,
  });
  transport.stderr?.on('data', (chunk: Buffer) =>
    log.debug({ text: chunk.toString().slice(0, MAX_LOG_TEXT) }, 'upstream stderr'),
  );
  return { transport, release: async () => {} };
}
