import { Agent, buildConnector, type Dispatcher, ProxyAgent } from 'undici';
import type { TlsMaterial } from './kubeconfig.ts';

/** The connection could not be made, so nothing was sent: the request may be made again whatever it does. */
export class ConnectError extends Error {
  override name = 'ConnectError';
}

export interface AgentOptions {
  readonly tls: TlsMaterial;
  readonly connectTimeoutMs: number;
  readonly pingIntervalMs: number;
  /** `http:`, `https:` or `socks5:`; from the kubeconfig's `proxy-url`. */
  readonly proxyUrl?: string | undefined;
}

/**
 * The one pool that all requests and watches share: with HTTP/2 they are streams of one or two connections. There is no
 * `connections` limit on purpose: beyond 100 streams, one connection would let the watches starve the calls.
 */
export function createAgent({ tls, connectTimeoutMs, pingIntervalMs, proxyUrl }: AgentOptions): Dispatcher {
  const options = {
    allowH2: true,
    keepAliveTimeout: 60_000,
    // Finds a peer that is gone although its TCP connection seems to stand.
    h2Options: { pingInterval: pingIntervalMs },
  };
  // What fails behind a proxy is not known to have failed before it was sent; so it is not retried.
  if (proxyUrl !== undefined)
    return new ProxyAgent({ ...options, uri: proxyUrl, requestTls: tls, connectTimeout: connectTimeoutMs });
  const connector = buildConnector({
    ...tls,
    allowH2: true,
    preferH2: true,
    timeout: connectTimeoutMs,
    keepAlive: true,
    // Below the idle time-outs of load balancers (60 s), as client-go has it.
    keepAliveInitialDelay: 30_000,
  });
  return new Agent({
    ...options,
    connect: (target, callback) =>
      // Returned, though the type does not say so: by it undici ends an attempt that no request waits for any more.
      connector(target, (error, socket) =>
        error === null || error === undefined
          ? callback(null, socket)
          : callback(new ConnectError('cannot connect', { cause: error }), null),
      ),
  });
}
