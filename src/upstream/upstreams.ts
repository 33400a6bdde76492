import type { MCPServer } from '../api/mcp-server.ts';
import { keyOf, splitKey } from '../api/object.ts';
import { withTimeout } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import type { ToolCaller, ToolRef } from '../workflow/ports.ts';
import { callTool, PATIENCE_MS } from './call.ts';
import { Connection, type UpstreamStatus } from './connection.ts';
import type { ResolveSecret } from './named-values.ts';

export interface UpstreamsOptions {
  readonly resolveSecret: ResolveSecret;
  /** Whether servers of type stdio may be run. */
  readonly allowStdio: boolean;
  /** Of this program; servers are told. */
  readonly version: string;
  /** Of one answer, after decompression. Default 8 MiB. */
  readonly limitBytes?: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** The status of the MCPServer `namespace/name` is another than before. */
  readonly onChange: (key: string) => void;
}

/** One connection for each MCPServer, made and kept in the background: none ever waits for another. */
export interface Upstreams {
  /** Connects, or connects anew when the spec is another one than before. */
  set(server: MCPServer): void;
  /** Disconnects; calls that run there end as `unknown`. */
  remove(key: string): void;
  status(key: string): UpstreamStatus;
  readonly caller: ToolCaller;
  /** Why `tool` cannot be called now, naming server or tool; fit for a client. Undefined when it can. */
  missing(namespace: string, tool: ToolRef): string | undefined;
  /**
   * As `missing`, when a call is there that needs these tools: servers that are not connected are tried at once and waited
   * for, two seconds at most. Gives the first fault.
   */
  reach(namespace: string, tools: readonly ToolRef[], signal: AbortSignal): Promise<string | undefined>;
  /** After the abort of the signal: resolves when every connection is closed and every process has ended. */
  readonly done: Promise<void>;
}

const LIMIT_BYTES = 8 * 1024 * 1024;

export function startUpstreams(options: UpstreamsOptions, signal: AbortSignal): Upstreams {
  const { resolveSecret, allowStdio, version, limitBytes = LIMIT_BYTES, clock, log, onChange } = options;
  const connections = new Map<string, Connection>();
  const stopping = new Set<Promise<void>>();
  const find = (namespace: string, server: string): Connection | undefined => connections.get(`${namespace}/${server}`);

  const remove = (key: string): void => {
    const connection = connections.get(key);
    if (connection === undefined) return;
    connections.delete(key);
    const stopped = connection.stop().finally(() => stopping.delete(stopped));
    stopping.add(stopped);
  };
  const missing = (namespace: string, { server, tool }: ToolRef): string | undefined => {
    const connection = find(namespace, server);
    if (connection === undefined) return `MCPServer "${server}" does not exist`;
    const { fault } = connection;
    if (fault !== undefined) return `MCPServer "${server}" ${fault.message}`;
    return connection.tool(tool) === undefined ? `MCPServer "${server}" has no tool "${tool}"` : undefined;
  };
  const { promise: done, resolve } = Promise.withResolvers<void>();
  const stopAll = (): void => {
    for (const key of [...connections.keys()]) remove(key);
    resolve(Promise.all(stopping).then(() => {}));
  };
  if (signal.aborted) stopAll();
  else signal.addEventListener('abort', stopAll, { once: true });

  return {
    set(server) {
      if (signal.aborted) return;
      const key = keyOf(server);
      let connection = connections.get(key);
      if (connection === undefined) {
        connection = new Connection({
          namespace: splitKey(key).namespace,
          resolveSecret,
          allowStdio,
          clientInfo: { name: 'convoke', version },
          limitBytes,
          clock,
          log: log.child({ server: key }),
          // One that was removed has nothing to say any more.
          onChange: () => connections.has(key) && onChange(key),
        });
        connections.set(key, connection);
      }
      connection.update(server.spec);
    },
    remove,
    status: (key) =>
      connections.get(key)?.status ?? { ready: { status: 'Unknown', reason: 'NotKnown', message: 'is not known' } },
    caller: {
      describe: (namespace, { server, tool }) => find(namespace, server)?.describe(tool),
      async call(call, stop) {
        const connection = find(call.namespace, call.server);
        if (connection !== undefined) return callTool(connection, call, stop, log.child({ server: call.server }));
        const message = `MCPServer "${call.server}" does not exist (tool "${call.tool}")`;
        return { kind: 'unavailable', message };
      },
    },
    missing,
    async reach(namespace, tools, stop) {
      const patience = withTimeout(stop, PATIENCE_MS);
      await Promise.all(tools.map(({ server }) => find(namespace, server)?.session(patience.signal)));
      patience.clear();
      return tools.map((tool) => missing(namespace, tool)).find((fault) => fault !== undefined);
    },
    done,
  };
}
