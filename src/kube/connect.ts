import packageJson from '../../package.json' with { type: 'json' };
import type { KubeClient } from './client.ts';
import type { Cluster } from './kubeconfig.ts';
import { createResourceClient } from './resource-client.ts';
import { Transport, type TransportOptions } from './transport.ts';

/** A client of that cluster. No connection is made before the first request. */
export function connect(cluster: Cluster, options: Partial<TransportOptions> = {}): KubeClient {
  const transport = new Transport(cluster, { userAgent: `convoke/${packageJson.version}`, ...options });
  return {
    resource: (type) => createResourceClient(transport, type),
    raw: (method, path, { body, signal } = {}) =>
      transport.call({ method, path, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }, signal),
    close: () => transport.close(),
  };
}
