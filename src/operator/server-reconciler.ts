import type { MCPServer, MCPServerStatus } from '../api/mcp-server.ts';
import { splitKey } from '../api/object.ts';
import type { ResourceClient } from '../kube/client.ts';
import type { Store } from '../kube/store.ts';
import type { Outcome } from '../kube/work-queue.ts';
import { type Clock, toTimestamp } from '../lib/clock.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { sameStatus, withConditions } from './conditions.ts';

export interface ServerReconcilerDeps {
  readonly servers: Store<MCPServer>;
  readonly client: ResourceClient<MCPServer>;
  readonly upstreams: Upstreams;
  /** Judges the Workflows anew that name this server. */
  readonly onServer: (key: string) => void;
  readonly clock: Clock;
}

/** Keeps a connection for each MCPServer, and its status as that connection is. */
export function createServerReconciler(
  deps: ServerReconcilerDeps,
): (key: string, signal: AbortSignal) => Promise<Outcome> {
  return async (key, signal) => {
    const { namespace, name } = splitKey(key);
    const server = deps.servers.get(namespace, name);
    if (server === undefined || server.metadata.deletionTimestamp !== undefined) {
      deps.upstreams.remove(key);
      deps.onServer(key);
      return 'done';
    }
    deps.upstreams.set(server);
    deps.onServer(key);
    const status = statusOf(deps, key, server);
    if (!sameStatus(server.status, status)) await deps.client.replaceStatus({ ...server, status }, signal);
    return 'done';
  };
}

function statusOf({ upstreams, clock }: ServerReconcilerDeps, key: string, server: MCPServer): MCPServerStatus {
  const { ready, ...known } = upstreams.status(key);
  const { generation } = server.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const condition = { type: 'Ready', ...ready, ...observed };
  const conditions = withConditions(server.status?.conditions ?? [], [condition], toTimestamp(clock.now()));
  return { ...known, ...observed, conditions };
}
