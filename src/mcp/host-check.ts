import type { IncomingHttpHeaders } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { validateHostHeader, validateOriginHeader } from '@modelcontextprotocol/server';

export interface HostOptions {
  /** What the endpoint listens on; accepted as Host, as are the loopback names. */
  readonly host: string;
  /** Further names of this endpoint, without ports: an ingress, a Service's DNS names. */
  readonly allowedHosts: readonly string[];
  /** Names of the websites whose pages may call it. */
  readonly allowedOrigins: readonly string[];
}

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];

/**
 * The check of Host and Origin (basic/transports/streamable-http, "Security"): a page that rebinds its own name to this
 * address would pass for a local client. Gives the reason of a refusal. A missing Origin passes: only browsers send it.
 * @throws RangeError for an option that is no host name.
 */
export function createHostCheck(options: HostOptions): (headers: IncomingHttpHeaders) => string | undefined {
  const hosts = [...LOOPBACK, hostOfUrl(options.host), ...options.allowedHosts.map(asHostname)];
  const origins = [...LOOPBACK, ...options.allowedOrigins.map(asHostname)];
  return ({ host, origin }) => {
    const byHost = validateHostHeader(host, hosts);
    if (!byHost.ok) return `${byHost.message}. The operator accepts the names of --allowed-hosts and loopback.`;
    const byOrigin = validateOriginHeader(origin, origins);
    if (!byOrigin.ok) return `${byOrigin.message}. The operator accepts the names of --allowed-origins and loopback.`;
    return undefined;
  };
}

/** As a URL has it: an IPv6 address in brackets. */
export function hostOfUrl(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}

export function isLoopback(host: string): boolean {
  const family = isIP(host);
  return family === 0 ? host === 'localhost' : LOOPBACK_ADDRESSES.check(host, family === 6 ? 'ipv6' : 'ipv4');
}

const LOOPBACK_ADDRESSES = new BlockList();
LOOPBACK_ADDRESSES.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK_ADDRESSES.addAddress('::1', 'ipv6');

/** As the header's name is compared: lower case, punycode, without the port. */
function asHostname(name: string): string {
  const url = URL.parse(`http://${hostOfUrl(name)}`);
  if (url === null || url.hostname === '' || url.pathname !== '/') {
    throw new RangeError(
      `"${name}" is not a host name: expected for instance mcp.example.com, without scheme and path`,
    );
  }
  return url.hostname;
}
