import { EventEmitter, once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { constants, createSecureServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { Agent, type Dispatcher } from 'undici';
import type { KubeClient } from '../../src/kube/client.ts';
import { connect } from '../../src/kube/connect.ts';
import { loadCluster } from '../../src/kube/kubeconfig.ts';
import type { TransportOptions } from '../../src/kube/transport.ts';
import { loopbackCertificates } from './certificates.ts';
import { startTcpRelay, type TcpRelay } from './tcp-relay.ts';

/**
 * A proxy before a real API server that does to requests, answers and connections whatever a test asks. Between client
 * and proxy: a TCP relay, then TLS with HTTP/2 (or plain HTTP/1.1). Authorization is passed on as the client sends it.
 */
export interface ApiProxy {
  readonly url: string;
  /** Names the proxy, with the target's token inline and `caFile` by its path. */
  readonly kubeconfigPath: string;
  readonly caFile: string;
  /** A client of the proxy; the test closes it, after its watches. */
  client(options?: Partial<TransportOptions>): KubeClient;
  /** Requests that arrive from now on and match meet `fault`: at most `times` of them, until disposed. Oldest rule first. */
  fault(match: Match, fault: Fault, times?: number): FaultInForce;
  /** Every request so far, in the order of arrival. */
  readonly requests: readonly ProxiedRequest[];
  /** Watches whose answer has begun and not ended, oldest first. */
  readonly watches: readonly ProxiedWatch[];
  /** TCP: count, cut, freeze. */
  readonly relay: TcpRelay;
  /** What `probe` gives, as soon as it is neither undefined nor false. Rejects after 30 s. */
  until<T>(probe: () => T | undefined | false): Promise<T>;
  /** New connections see another certificate, and `caFile` holds it. */
  rotateCertificate(): Promise<void>;
  close(): Promise<void>;
}

export interface Match {
  readonly method?: string;
  /** Matched against path and query. */
  readonly path?: RegExp;
  readonly where?: (request: ProxiedRequest) => boolean;
}

export type Fault =
  /** The API server does not see the request. `message` and `reason` become a Status object, `body` goes as it is. */
  | { readonly answer: FaultAnswer }
  /** Passed on when this resolves. */
  | { readonly hold: Promise<unknown> }
  /** Never answered; the API server does not see it. */
  | { readonly hang: true }
  /** The stream (HTTP/1.1: the connection) is cut: `request` before the API server sees it, `answer` after it has answered. */
  | { readonly cut: 'request' | 'answer' }
  /** Cut in the answer's body, after so many bytes. */
  | { readonly cutAfter: number };

export interface FaultAnswer {
  readonly status: number;
  readonly reason?: string;
  readonly message?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface FaultInForce extends Disposable {
  readonly hits: number;
}

export interface ProxiedRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** HTTP version between client and proxy. */
  readonly version: string;
}

export interface ProxiedWatch {
  readonly request: ProxiedRequest;
  /** Cuts it, in mid-body. */
  cut(): void;
  /** Ends it as the API server does when its time is over. */
  end(): void;
  /** Swallows whatever comes from now on. */
  silence(): void;
  /** Puts bytes into it. */
  write(bytes: string | Uint8Array): void;
}

/** Node serves HTTP/1.1 and HTTP/2 with the same calls; only the latter has a stream. */
type Response = ServerResponse & { readonly stream?: ServerHttp2Stream };
interface Rule {
  readonly match: Match;
  readonly fault: Fault;
  left: number;
  hits: number;
}

const UNTIL_MS = 30_000;
/** Of one connection, so not passed on. HTTP/2 forbids them. */
const HOP_BY_HOP = /^(:.*|connection|keep-alive|transfer-encoding|host|content-length)$/;

/** @param target a TestCluster, for instance. @param options `plain`: HTTP/1.1 without TLS */
export async function startApiProxy(
  target: { readonly url: string; readonly token: string },
  options: { readonly plain?: boolean } = {},
): Promise<ApiProxy> {
  const requests: ProxiedRequest[] = [];
  const watches: ProxiedWatch[] = [];
  const rules: Rule[] = [];
  const events = new EventEmitter().setMaxListeners(0);
  const changed = (): boolean => events.emit('changed');
  const upstream = new Agent({ connect: { rejectUnauthorized: false }, headersTimeout: 0, bodyTimeout: 0 });

  const serve = async (incoming: IncomingMessage, response: Response): Promise<void> => {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const request = await toProxied(incoming);
    const fault = faultFor(request, rules);
    requests.push(request);
    changed();
    if (fault !== undefined && (await instead(fault, response))) return;
    const reply = await forward(upstream, target.url, request, gone.signal);
    if (fault !== undefined && 'cut' in fault) return cut(response);
    const limit = fault !== undefined && 'cutAfter' in fault ? fault.cutAfter : Number.POSITIVE_INFINITY;
    await relayAnswer(request, reply, response, limit);
  };

  /** Until the body has ended, been cut, or the client has gone. */
  const relayAnswer = async (
    request: ProxiedRequest,
    reply: Dispatcher.ResponseData,
    response: Response,
    limit: number,
  ): Promise<void> => {
    let silent = false;
    let passed = 0;
    begin(response, reply.statusCode, endToEnd(reply.headers));
    const watch: ProxiedWatch = {
      request,
      cut: () => cut(response),
      end: () => void response.end(),
      silence: () => {
        silent = true;
      },
      write: (bytes) => write(response, bytes),
    };
    if (/[?&]watch=true/.test(request.path) && reply.statusCode === 200) {
      watches.push(watch);
      response.on('close', () => {
        watches.splice(watches.indexOf(watch), 1);
        changed();
      });
      changed();
    }
    for await (const chunk of reply.body as AsyncIterable<Uint8Array>) {
      if (silent || response.writableEnded) continue;
      write(response, chunk.subarray(0, limit - passed));
      passed += chunk.length;
      if (passed >= limit) return cut(response);
    }
    if (!silent) response.end();
  };

  const handler = (request: object, response: object): void => {
    // The client, or the API server, has gone: so does the other side.
    serve(request as IncomingMessage, response as Response).catch(() => cut(response as Response));
  };
  let certificate = 0;
  const secure = options.plain
    ? undefined
    : createSecureServer({ allowHTTP1: true, ...loopbackCertificates[0] }, handler);
  const server = secure ?? createServer(handler);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const relay = await startTcpRelay((server.address() as AddressInfo).port, { changed });

  const folder = await mkdtemp(join(tmpdir(), 'convoke-api-proxy-'));
  const caFile = join(folder, 'ca.crt');
  const kubeconfigPath = join(folder, 'kubeconfig');
  const url = `${options.plain ? 'http' : 'https'}://127.0.0.1:${relay.port}`;
  await writeFile(caFile, loopbackCertificates[0].cert);
  await writeFile(kubeconfigPath, kubeconfig(url, options.plain ? undefined : caFile, target.token), { mode: 0o600 });

  return {
    url,
    kubeconfigPath,
    caFile,
    client: (transport) => connect(loadCluster({ kubeconfig: kubeconfigPath }), transport),
    fault(match, fault, times = Number.POSITIVE_INFINITY) {
      const rule: Rule = { match, fault, left: times, hits: 0 };
      rules.push(rule);
      return {
        get hits() {
          return rule.hits;
        },
        [Symbol.dispose]: () => {
          rule.left = 0;
        },
      };
    },
    requests,
    watches,
    relay,
    async until(probe) {
      const signal = AbortSignal.timeout(UNTIL_MS);
      for (;;) {
        const found = probe();
        if (found !== undefined && found !== false) return found;
        await once(events, 'changed', { signal });
      }
    },
    async rotateCertificate() {
      certificate = 1 - certificate;
      const next = loopbackCertificates[certificate] ?? loopbackCertificates[0];
      secure?.setSecureContext({ key: next.key, cert: next.cert });
      await writeFile(caFile, next.cert);
    },
    async close() {
      await relay.close();
      server.close();
      await once(server, 'close');
      await upstream.destroy();
      await rm(folder, { recursive: true });
    },
  };
}

/** Whether the API server is not to see the request. */
async function instead(fault: Fault, response: Response): Promise<boolean> {
  if ('hold' in fault) await fault.hold;
  if ('answer' in fault) answer(response, fault.answer);
  if ('cut' in fault && fault.cut === 'request') cut(response);
  return 'hang' in fault || 'answer' in fault || ('cut' in fault && fault.cut === 'request');
}

function faultFor(request: ProxiedRequest, rules: readonly Rule[]): Fault | undefined {
  const rule = rules.find(({ match, left }) => left > 0 && matches(request, match));
  if (rule === undefined) return undefined;
  rule.left -= 1;
  rule.hits += 1;
  return rule.fault;
}

function matches(request: ProxiedRequest, { method, path, where }: Match): boolean {
  return (
    (method === undefined || method === request.method) &&
    (path === undefined || path.test(request.path)) &&
    (where === undefined || where(request))
  );
}

async function toProxied(incoming: IncomingMessage): Promise<ProxiedRequest> {
  const { method = '', url = '', headers, httpVersion } = incoming;
  return { method, path: url, headers, body: (await buffer(incoming)).toString(), version: httpVersion };
}

function forward(
  upstream: Dispatcher,
  origin: string,
  { method, path, headers, body }: ProxiedRequest,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  return upstream.request({
    origin,
    path,
    method: method as Dispatcher.HttpMethod,
    headers: endToEnd(headers),
    ...(body === '' ? {} : { body }),
    signal,
  });
}

function endToEnd(headers: IncomingHttpHeaders): Record<string, string> {
  const kept = Object.entries(headers).filter(([name]) => !HOP_BY_HOP.test(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, String(value)]));
}

function answer(response: Response, { status, reason, message, headers = {}, body }: FaultAnswer): void {
  const text =
    body ?? JSON.stringify({ apiVersion: 'v1', kind: 'Status', status: 'Failure', code: status, reason, message });
  begin(response, status, { 'content-type': 'application/json', ...headers });
  write(response, text);
  response.end();
}

function begin(response: Response, status: number, headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.statusCode = status;
  response.flushHeaders();
}

function write(response: Response, bytes: string | Uint8Array): void {
  if (!response.writableEnded && !response.destroyed) response.write(bytes);
}

function cut(response: Response): void {
  if (response.stream !== undefined) response.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  else response.socket?.resetAndDestroy();
}

/** JSON is YAML. */
function kubeconfig(server: string, caFile: string | undefined, token: string): string {
  const name = 'proxy';
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, ...(caFile === undefined ? {} : { 'certificate-authority': caFile }) } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: 'default' } }],
    'current-context': name,
  });
}
