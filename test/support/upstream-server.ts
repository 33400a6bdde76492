import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server as HttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type NodeIncomingMessageLike, toNodeHandler } from '@modelcontextprotocol/node';
import { Server as LegacyServer } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
} from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, ProtocolError, Server } from '@modelcontextprotocol/server';
import { STEP_KEY_META } from '../../src/api/constants.ts';
import type { JsonObject } from '../../src/lib/json.ts';

/** A real MCP server over streamable HTTP whose tools a test writes. */
export interface UpstreamServer {
  readonly url: string;
  readonly port: number;
  /** Every `tools/call` that reached a handler, in order. */
  readonly calls: readonly UpstreamCall[];
  /** Every HTTP request, in order. */
  readonly requests: readonly UpstreamRequest[];
  /** Resolves with call number `n` (1 for the first) of `tool` once it is there. */
  called(tool: string, n?: number): Promise<UpstreamCall>;
  /** Resolves when somebody has a stream on which it is told of changes. */
  listening(): Promise<void>;
  /** Replaces the tools, and tells those who listen. */
  setTools(tools: Record<string, UpstreamTool>): Promise<void>;
  /** Looks at each request before MCP does; one for which it gives `true` is answered (or left hanging) by it. */
  intercept: ((request: UpstreamRequest, response: ServerResponse) => boolean) | undefined;
  /** Sessions are gone, as after a restart (2025 only). Calls that run go on, but their answers reach nobody. */
  forgetSessions(): void;
  /** Cuts every connection and stops listening; `startUpstream({ port })` brings it back. */
  close(): Promise<void>;
}

export interface UpstreamTool {
  readonly description?: string;
  readonly annotations?: JsonObject;
  /** Default: `{ type: 'object' }`. Sent as it is, however wrong. */
  readonly inputSchema?: unknown;
  readonly outputSchema?: unknown;
  /** Text becomes one text block. What it throws is a JSON-RPC error -32603, an `RpcFault` one of its own. */
  readonly handler: (args: JsonObject, context: UpstreamContext) => HandlerResult | Promise<HandlerResult>;
}

type HandlerResult = string | Record<string, unknown>;

export interface UpstreamContext {
  /** Aborts when the caller cancels. */
  readonly signal: AbortSignal;
  /** Of the step, from `_meta`. */
  readonly key: string | undefined;
  /** Sends a progress notification, when the caller asked for them. */
  progress(progress: number, total?: number, message?: string): Promise<void>;
}

export interface UpstreamCall {
  readonly tool: string;
  readonly args: JsonObject;
  readonly key: string | undefined;
  /** The caller asked for progress notifications. */
  readonly wantsProgress: boolean;
  readonly signal: AbortSignal;
}

export interface UpstreamRequest {
  readonly method: string;
  readonly headers: IncomingMessage['headers'];
  /** Parsed; undefined when there is none. */
  readonly body: { readonly id?: unknown; readonly method?: string; readonly params?: JsonObject } | undefined;
}

/** Thrown by a handler: the JSON-RPC error to answer. */
export class RpcFault extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export interface UpstreamOptions {
  readonly tools?: Record<string, UpstreamTool>;
  /** `modern` speaks 2026-07-28 only; `2025` is a server of the 1.x SDK with sessions. */
  readonly era?: 'modern' | '2025';
  /** Default: any that is free. */
  readonly port?: number;
  /** Tools a page of `tools/list`; default: all. */
  readonly pageSize?: number;
  readonly extensions?: Record<string, JsonObject>;
}

const INFO = { name: 'scripted', version: '1.2.3' };

export async function startUpstream(options: UpstreamOptions = {}): Promise<UpstreamServer> {
  const { era = 'modern', port = 0, pageSize = Number.POSITIVE_INFINITY, extensions } = options;
  let tools = options.tools ?? {};
  const calls: UpstreamCall[] = [];
  const requests: UpstreamRequest[] = [];
  const waiters = new Set<() => void>();
  let streams = 0;
  const script: Script = {
    list: (cursor) => listPage(tools, cursor, pageSize),
    async call(name, args, context, wantsProgress) {
      const tool = tools[name];
      if (tool === undefined) throw new RpcFault(-32602, `Unknown tool: ${name}`);
      calls.push({ tool: name, args, key: context.key, wantsProgress, signal: context.signal });
      for (const wake of waiters) wake();
      const result = await tool.handler(args, context);
      return typeof result === 'string' ? { content: [{ type: 'text', text: result }] } : result;
    },
  };
  const capabilities = { tools: { listChanged: true }, ...(extensions !== undefined && { extensions }) };
  const mcp = era === 'modern' ? modernEndpoint(script, capabilities) : legacyEndpoint(script, capabilities);

  const http = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy());
  });
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await readText(request);
    const body = text === '' ? undefined : JSON.parse(text);
    const seen: UpstreamRequest = { method: request.method ?? '', headers: request.headers, body };
    requests.push(seen);
    if (upstream.intercept?.(seen, response) === true) return;
    if (request.method === 'GET' || body?.method === 'subscriptions/listen') {
      // Whoever is answered with headers hears what comes from then on.
      const writeHead = response.writeHead.bind(response) as (...args: unknown[]) => ServerResponse;
      response.writeHead = (...args: unknown[]) => {
        streams += 1;
        for (const wake of waiters) wake();
        return writeHead(...args);
      };
    }
    await mcp.handle(request, response, body);
  };
  // Longer than any test: an idle connection is never what fails.
  http.keepAliveTimeout = 60_000;
  http.listen(port, '127.0.0.1');
  await once(http, 'listening');
  const actual = (http.address() as AddressInfo).port;

  const upstream: UpstreamServer = {
    url: `http://127.0.0.1:${actual}/mcp`,
    port: actual,
    calls,
    requests,
    intercept: undefined,
    async called(tool, n = 1) {
      for (;;) {
        const call = calls.filter((each) => each.tool === tool)[n - 1];
        if (call !== undefined) return call;
        await next(waiters);
      }
    },
    async listening() {
      while (streams === 0) await next(waiters);
    },
    async setTools(replacement) {
      tools = replacement;
      await mcp.toolsChanged();
    },
    forgetSessions: () => mcp.forgetSessions(),
    close: () => closeHttp(http),
  };
  return upstream;
}

interface Script {
  list(cursor: string | undefined): { tools: Record<string, unknown>[]; nextCursor?: string };
  call(
    name: string,
    args: JsonObject,
    context: UpstreamContext,
    wantsProgress: boolean,
  ): Promise<Record<string, unknown>>;
}

interface Endpoint {
  handle(request: IncomingMessage, response: ServerResponse, body: unknown): Promise<void>;
  toolsChanged(): Promise<void>;
  forgetSessions(): void;
}

function listPage(
  tools: Record<string, UpstreamTool>,
  cursor: string | undefined,
  pageSize: number,
): { tools: Record<string, unknown>[]; nextCursor?: string } {
  const start = cursor === undefined ? 0 : Number(cursor);
  const all = Object.entries(tools).map(([name, { handler: _, inputSchema = { type: 'object' }, ...rest }]) => ({
    name,
    inputSchema,
    ...rest,
  }));
  const end = start + pageSize;
  return { tools: all.slice(start, end), ...(end < all.length && { nextCursor: String(end) }) };
}

function modernEndpoint(script: Script, capabilities: Record<string, unknown>): Endpoint {
  const handler = createMcpHandler(
    () => {
      const server = new Server(INFO, { capabilities });
      server.setRequestHandler('tools/list', (request) => script.list(request.params?.cursor) as never);
      server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
        const meta = mcpReq._meta ?? {};
        const token = meta.progressToken;
        const context: UpstreamContext = {
          signal: mcpReq.signal,
          key: meta[STEP_KEY_META] as string | undefined,
          async progress(progress, total, message) {
            if (token === undefined) return;
            const update = { progressToken: token, progress, ...(total !== undefined && { total }) };
            await mcpReq.notify({
              method: 'notifications/progress',
              params: { ...update, ...(message !== undefined && { message }) },
            });
          },
        };
        try {
          const args = (params.arguments ?? {}) as JsonObject;
          return (await script.call(params.name, args, context, token !== undefined)) as never;
        } catch (error) {
          throw error instanceof RpcFault ? new ProtocolError(error.code, error.message, error.data) : error;
        }
      });
      return server;
    },
    { legacy: 'reject' },
  );
  const nodeHandler = toNodeHandler(handler);
  return {
    handle: (request, response, body) => nodeHandler(request as NodeIncomingMessageLike, response, body),
    toolsChanged: async () => handler.notify.toolsChanged(),
    forgetSessions: () => {},
  };
}

function legacyEndpoint(script: Script, capabilities: Record<string, unknown>): Endpoint {
  const sessions = new Map<string, { server: LegacyServer; transport: StreamableHTTPServerTransport }>();
  const open = async (): Promise<StreamableHTTPServerTransport> => {
    const server = new LegacyServer(INFO, { capabilities });
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => {
        sessions.set(id, { server, transport });
      },
    });
    server.setRequestHandler(ListToolsRequestSchema, ({ params }) => script.list(params?.cursor) as never);
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
      const token = params._meta?.progressToken;
      const context: UpstreamContext = {
        signal: extra.signal,
        key: params._meta?.[STEP_KEY_META] as string | undefined,
        async progress(progress, total, message) {
          if (token === undefined) return;
          const update = { progressToken: token, progress, total, message };
          await extra.sendNotification({ method: 'notifications/progress', params: update });
        },
      };
      try {
        const args = (params.arguments ?? {}) as JsonObject;
        return (await script.call(params.name, args, context, token !== undefined)) as CallToolResult;
      } catch (error) {
        if (error instanceof RpcFault) throw new McpError(error.code, error.message, error.data);
        throw new McpError(ErrorCode.InternalError, String(error));
      }
    });
    await server.connect(transport as never);
    return transport;
  };
  return {
    async handle(request, response, body) {
      const id = request.headers['mcp-session-id'];
      const known = typeof id === 'string' ? sessions.get(id)?.transport : undefined;
      if (id !== undefined && known === undefined) {
        const error = { code: -32001, message: 'Session not found' };
        response.writeHead(404, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ jsonrpc: '2.0', error, id: null }));
        return;
      }
      await (known ?? (await open())).handleRequest(request, response, body);
    },
    async toolsChanged() {
      await Promise.all([...sessions.values()].map(({ server }) => server.sendToolListChanged()));
    },
    forgetSessions: () => sessions.clear(),
  };
}

/** Resolves with the next call or stream. */
async function next(waiters: Set<() => void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  waiters.add(resolve);
  await promise;
  waiters.delete(resolve);
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

async function closeHttp(http: HttpServer): Promise<void> {
  if (!http.listening) return;
  http.close();
  http.closeAllConnections();
  await once(http, 'close');
}
