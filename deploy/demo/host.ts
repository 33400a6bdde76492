import { Client, type JSONRPCMessage, StreamableHTTPClientTransport, type Tool } from '@modelcontextprotocol/client';
import {
  type CreateTaskResultV2,
  type DetailedTaskV2,
  isCreateTaskResultV2,
  isDetailedTaskV2,
} from '@modelcontextprotocol/ext-tasks/core/v2';
import { z } from 'zod';

const TASKS = 'io.modelcontextprotocol/tasks';
const PROTOCOL = '2026-07-28';
const INFO = { name: 'convoke-demo-host', version: '1.0.0' };
const CAPABILITIES = { extensions: { [TASKS]: {} } };

export interface ToolAnswer {
  readonly structuredContent?: unknown;
  readonly content?: readonly { readonly type: string; readonly text?: string }[];
  readonly isError?: boolean;
}

export type Answer = { readonly result: ToolAnswer } | { readonly task: CreateTaskResultV2 };

/** An MCP host as an agent or IDE has one: the SDK's client, and the Tasks extension. */
export interface Host {
  readonly server: { readonly name: string; readonly version: string };
  readonly extensions: readonly string[];
  tools(): Promise<Tool[]>;
  call(name: string, args: Record<string, unknown>): Promise<Answer>;
  task(taskId: string): Promise<DetailedTaskV2>;
  cancel(taskId: string): Promise<void>;
  close(): Promise<void>;
}

/** Connects in revision 2026-07-28 and declares the tasks extension with each call. */
export async function connectHost(url: string): Promise<Host> {
  const client = new Client(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode: 'auto' } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const raw = await startRawLane(url);
  const { name = '', version = '' } = client.getServerVersion() ?? {};
  return {
    server: { name, version },
    extensions: Object.keys(client.getServerCapabilities()?.extensions ?? {}),
    tools: async () => (await client.listTools({}, { cacheMode: 'refresh' })).tools,
    async call(tool, args) {
      const result = await raw.request('tools/call', { name: tool, arguments: args });
      return isCreateTaskResultV2(result) ? { task: result } : { result: result as ToolAnswer };
    },
    async task(taskId) {
      const answer = await client.request({ method: 'tasks/get', params: { taskId } }, z.looseObject({}));
      const task = { resultType: 'complete', ...answer };
      if (!isDetailedTaskV2(task)) throw new Error(`not a task: ${JSON.stringify(answer)}`);
      return task;
    },
    async cancel(taskId) {
      await client.request({ method: 'tasks/cancel', params: { taskId } }, z.looseObject({}));
    },
    async close() {
      await raw.close();
      await client.close();
    },
  };
}

/** The SDK's client takes no task for an answer to `tools/call`; its transport does. */
async function startRawLane(url: string): Promise<{
  request(method: string, params: Record<string, unknown>): Promise<unknown>;
  close(): Promise<void>;
}> {
  const transport = new StreamableHTTPClientTransport(new URL(url));
  const waiting = new Map<string | number, PromiseWithResolvers<unknown>>();
  transport.onmessage = (message: JSONRPCMessage) => {
    if (!('id' in message) || 'method' in message || message.id === undefined) return;
    const pending = waiting.get(message.id);
    waiting.delete(message.id);
    if ('error' in message) pending?.reject(new Error(`${message.error.code}: ${message.error.message}`));
    else pending?.resolve(message.result);
  };
  await transport.start();
  let count = 0;
  return {
    async request(method, params) {
      const id = `raw-${count++}`;
      const pending = Promise.withResolvers<unknown>();
      waiting.set(id, pending);
      const _meta = {
        'io.modelcontextprotocol/protocolVersion': PROTOCOL,
        'io.modelcontextprotocol/clientInfo': INFO,
        'io.modelcontextprotocol/clientCapabilities': CAPABILITIES,
      };
      transport.send({ jsonrpc: '2.0', id, method, params: { ...params, _meta } }).catch(pending.reject);
      return pending.promise;
    },
    close: () => transport.close(),
  };
}
