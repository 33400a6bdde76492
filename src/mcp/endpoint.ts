import { preloadSchemas } from '@modelcontextprotocol/server';
import { settledWithin } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Logger } from '../lib/log.ts';
import { createHostCheck, type HostOptions, hostOfUrl, isLoopback } from './host-check.ts';
import { startHttpServer } from './http-server.ts';
import type { Catalog, Runs } from './ports.ts';
import { createRequestHandler } from './request-handler.ts';

export interface EndpointOptions extends HostOptions {
  /** 0 takes a free one. */
  readonly port: number;
  readonly auth: 'none';
  /** The one that `/mcp` serves; any other is at `/namespaces/<name>/mcp`. */
  readonly ownNamespace: string;
  readonly version: string;
  /** How long a call under `taskBehavior: auto` waits for the end before it answers with a task. */
  readonly gracePeriodMs: number;
  /** What the stop of the whole operator may take; half of it is for calls to end by themselves. */
  readonly shutdownGraceMs: number;
  /** Tools on a page of `tools/list`; default 100. */
  readonly pageSize?: number;
  /** Longest silence on a connection that waits for an answer; default 10 s, below the usual limits of proxies. */
  readonly keepAliveMs?: number;
  /** Open `subscriptions/listen` streams that this replica takes; default 1024. */
  readonly maxSubscriptions?: number;
}

export interface EndpointDeps {
  readonly catalog: Catalog;
  readonly runs: Runs;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly options: EndpointOptions;
}

export interface Endpoint {
  /** Of the own namespace. */
  readonly url: string;
  readonly port: number;
  /** Accepts nothing new, lets calls end by themselves within a bound, then answers the rest that it stops. */
  close(): Promise<void>;
}

/** For the answers of calls that a stop has cut short to get out. */
const FLUSH_MS = 1_000;

/**
 * The MCP endpoint over HTTP (design §7). Stateless: each request has a server of its own, and nothing is kept after it.
 * When `signal` aborts, everything is cut at once.
 * @throws RangeError for options that must not be served with, and what `listen` throws.
 */
export async function startEndpoint(deps: EndpointDeps, signal: AbortSignal): Promise<Endpoint> {
  const { options, clock } = deps;
  if (!isLoopback(options.host)) {
    throw new RangeError(
      `--auth=none lets everyone call who can connect, so it listens on loopback only: --host=${options.host} is not, use 127.0.0.1, ::1 or localhost`,
    );
  }
  const stopped = new AbortController();
  const { gracePeriodMs, version, pageSize = 100, keepAliveMs = 10_000 } = options;
  const { ownNamespace, maxSubscriptions = 1_024 } = options;
  const handler = createRequestHandler({
    services: { ...deps, gracePeriodMs, pageSize, version, stopped: stopped.signal },
    ownNamespace,
    refusalOf: createHostCheck(options),
    keepAliveMs,
    maxSubscriptions,
  });
  preloadSchemas();
  const http = await startHttpServer({ host: options.host, port: options.port, answer: handler.answer });

  const cut = (): void => {
    handler.close();
    stopped.abort();
    void http.destroy();
  };
  if (signal.aborted) cut();
  signal.addEventListener('abort', cut, { once: true });

  const stop = async (): Promise<void> => {
    handler.close();
    const drained = http.drain();
    await settledWithin(options.shutdownGraceMs / 2, drained, clock);
    stopped.abort();
    await settledWithin(FLUSH_MS, drained, clock);
    await http.destroy();
    signal.removeEventListener('abort', cut);
  };
  let done: Promise<void> | undefined;
  return {
    url: `http://${hostOfUrl(options.host)}:${http.port}/mcp`,
    port: http.port,
    close() {
      done ??= stop();
      return done;
    },
  };
}
