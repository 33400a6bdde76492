import type { TestContext } from 'node:test';
import { type Dispatcher, request } from 'undici';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import type { JsonObject, JsonValue } from '../../src/lib/json.ts';
import type { Logger } from '../../src/lib/log.ts';
import { type Endpoint, type EndpointOptions, startEndpoint } from '../../src/mcp/endpoint.ts';
import type { CatalogTool } from '../../src/mcp/ports.ts';
import { MemoryCatalog, MemoryRuns } from './memory-world.ts';

/** An endpoint over real HTTP, on ports in memory, for one test. */
export interface Scene {
  readonly endpoint: Endpoint;
  readonly url: string;
  readonly catalog: MemoryCatalog;
  readonly runs: MemoryRuns;
  readonly logs: LogRecord[];
  /** A 2026-07-28 request, from a client without extensions unless it says otherwise. */
  rpc(method: string, params?: JsonObject, options?: RpcOptions): Promise<Reply>;
}

export interface LogRecord {
  readonly level: string;
  readonly message: string;
  readonly keys: Record<string, unknown>;
}

export interface RpcOptions {
  readonly tasks?: boolean;
  readonly meta?: JsonObject;
  readonly headers?: Record<string, string>;
  readonly path?: string;
  readonly signal?: AbortSignal;
}

export interface Reply {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly text: string;
  /** The JSON-RPC messages, in order; the answer is the last. */
  readonly messages: JsonObject[];
  readonly result: JsonObject;
  readonly error: { code: number; message: string; data?: JsonValue };
}

export const TASKS = 'io.modelcontextprotocol/tasks';
export const PROTOCOL = '2026-07-28';
const PREFIX = 'io.modelcontextprotocol';

export interface SceneOptions extends Partial<EndpointOptions> {
  readonly clock?: Clock;
}

export async function startScene(
  t: TestContext,
  tools: readonly CatalogTool[],
  { clock = systemClock, ...options }: SceneOptions = {},
): Promise<Scene> {
  const catalog = new MemoryCatalog(tools);
  const runs = new MemoryRuns();
  const logs: LogRecord[] = [];
  const lifetime = new AbortController();
  const endpoint = await startEndpoint(
    {
      catalog,
      runs,
      clock,
      ids: { newId: () => crypto.randomUUID() },
      log: recorder(logs),
      options: {
        host: '127.0.0.1',
        port: 0,
        auth: 'none',
        allowedHosts: [],
        allowedOrigins: [],
        ownNamespace: 'team-a',
        version: '1.2.3',
        gracePeriodMs: 200,
        shutdownGraceMs: 2_000,
        ...options,
      },
    },
    lifetime.signal,
  );
  t.after(() => lifetime.abort());
  const rpc: Scene['rpc'] = async (method, params = {}, { tasks = false, meta = {}, headers, path, signal } = {}) => {
    const capabilities = tasks ? { extensions: { [TASKS]: {} } } : {};
    const _meta = {
      [`${PREFIX}/protocolVersion`]: PROTOCOL,
      [`${PREFIX}/clientCapabilities`]: capabilities,
      [`${PREFIX}/clientInfo`]: { name: 'raw', version: '0' },
      ...meta,
    };
    const name = method === 'tools/call' ? params.name : params.taskId;
    return post(
      new URL(path ?? '/mcp', endpoint.url),
      { jsonrpc: '2.0', id: 7, method, params: { _meta, ...params } },
      {
        ...(signal !== undefined && { signal }),
        headers: {
          'mcp-protocol-version': PROTOCOL,
          'mcp-method': method,
          ...(typeof name === 'string' && { 'mcp-name': name }),
          ...headers,
        },
      },
    );
  };
  return { endpoint, url: endpoint.url, catalog, runs, logs, rpc };
}

export async function post(
  url: URL | string,
  body: unknown,
  options: { headers?: Record<string, string>; signal?: AbortSignal; dispatcher?: Dispatcher } = {},
): Promise<Reply> {
  const { headers, ...rest } = options;
  const response = await request(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...rest,
  });
  const text = await response.body.text();
  const messages = messagesOf(response.headers['content-type'], text);
  const answer = messages.at(-1) ?? {};
  return {
    status: response.statusCode,
    headers: response.headers,
    text,
    messages,
    result: answer.result as JsonObject,
    error: answer.error as Reply['error'],
  };
}

function messagesOf(contentType: string | string[] | undefined, text: string): JsonObject[] {
  if (text === '') return [];
  if (!String(contentType).startsWith('text/event-stream')) return [JSON.parse(text) as JsonObject];
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice('data: '.length)) as JsonObject);
}

function recorder(logs: LogRecord[]): Logger {
  const at =
    (level: string) =>
    (keys: object, message: string): void => {
      logs.push({ level, message, keys: { ...keys } });
    };
  const log: Logger = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => log,
  };
  return log;
}
