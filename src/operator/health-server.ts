import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface HealthOptions {
  readonly host: string;
  readonly port: number;
  /** Why it is not ready, in a few words; undefined when it is. */
  readonly notReady: () => string | undefined;
}

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * `/healthz` (the process answers) and `/readyz`, for probes. On a listener of its own, so that a kubelet reaches it while
 * the endpoint listens on loopback only (docs/decisions/0006).
 */
export async function startHealthServer({ host, port, notReady }: HealthOptions): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const reason = request.url === '/readyz' ? notReady() : undefined;
    const known = request.url === '/healthz' || request.url === '/readyz';
    const status = known ? (reason === undefined ? 200 : 503) : 404;
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' });
    response.end(known ? `${reason ?? 'ok'}\n` : 'not found\n');
  });
  await listen(server, host, port);
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen(port, host, () => {
    server.off('error', reject);
    resolve();
  });
  await promise;
}
