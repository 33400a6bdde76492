import { type JSONRPCRequest, type Result, Server, type ServerContext } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { invalidParams, toProtocolError } from './errors.ts';
import type { Era, Scope } from './scope.ts';
import { cancelTask, getTask, updateTask } from './task-methods.ts';
import { callTool } from './tools-call.ts';
import { listTools } from './tools-list.ts';
import { callerOf, projected, TASKS_EXTENSION, withoutAddedContent } from './wire.ts';

type Handler = (request: JSONRPCRequest, ctx: ServerContext) => Promise<Result>;

/** A client may keep a list that long; `tools/list_changed` tells those who listen sooner. */
const LIST_TTL_MS = 5_000;

const LIST_PARAMS = z.object({ cursor: z.string().optional() });
const CALL_PARAMS = z.object({ name: z.string(), arguments: z.record(z.string(), z.json()).optional() });
const TASK_PARAMS = z.object({ taskId: z.string() });

/** The SDK registers these, and reports params that do not fit with a plain Error. */
const SDK_METHODS: ReadonlySet<string> = new Set(['initialize', 'ping', 'server/discover']);

/** A server for one request (reference: the low-level `Server`, since `McpServer` can neither page nor raise -32021). */
export function createServer(scope: Scope, era: Era): Server {
  const server = new GuardedServer(scope, era);
  server.setRequestHandler('tools/list', { params: LIST_PARAMS }, ({ cursor }) => ({
    ...listTools(scope, cursor),
  }));
  server.setRequestHandler('tools/call', { params: CALL_PARAMS }, async (call, ctx) =>
    projected(server, await callTool(scope, call, callerOf(ctx, era))),
  );
  if (era === 'legacy') return server;
  // Whether or not the extension is advertised now: a task outlives the Workflow that it came from.
  server.setRequestHandler('tasks/get', { params: TASK_PARAMS }, async ({ taskId }, ctx) => ({
    ...(await getTask(scope, taskId, callerOf(ctx, era))),
  }));
  server.setRequestHandler('tasks/cancel', { params: TASK_PARAMS }, ({ taskId }, ctx) =>
    cancelTask(scope, taskId, callerOf(ctx, era)),
  );
  // The SDK lifts inputResponses out of the params of every request.
  server.setRequestHandler('tasks/update', { params: TASK_PARAMS }, ({ taskId }, ctx) =>
    updateTask(scope, taskId, ctx.mcpReq.inputResponses, callerOf(ctx, era)),
  );
  return server;
}

/** Lets no message out that was not written for a client: the SDK would send that of any Error (reference B.4). */
class GuardedServer extends Server {
  readonly #scope: Scope;

  constructor(scope: Scope, era: Era) {
    const someTask = scope.catalog.tools(scope.namespace).some(({ taskBehavior }) => taskBehavior !== 'never');
    super(
      { name: 'convoke', version: scope.version },
      {
        capabilities:
          era === 'legacy'
            ? { tools: {} }
            : { tools: { listChanged: true }, ...(someTask && { extensions: { [TASKS_EXTENSION]: {} } }) },
        cacheHints: { 'tools/list': { ttlMs: LIST_TTL_MS, cacheScope: 'private' } },
      },
    );
    this.#scope = scope;
  }

  /** Called from the constructor of `Server` too: nothing of `this` is read before a request is there. */
  protected override _wrapHandler(method: string, handler: Handler): Handler {
    return async (request, ctx) => {
      let answered = false;
      const wrapped = super._wrapHandler(method, async (...args) => {
        const result = await handler(...args);
        answered = true;
        return result;
      });
      try {
        return withoutAddedContent(await wrapped(request, ctx));
      } catch (error) {
        if (ctx.mcpReq.signal.aborted) throw error;
        if (SDK_METHODS.has(method)) throw invalidParams(`Invalid params for ${method}.`);
        // A result of ours that the SDK refuses is no fault of the client, though it says so.
        const fault = answered ? new Error('the answer does not fit the protocol', { cause: error }) : error;
        throw toProtocolError(fault, { ...this.#scope, method });
      }
    };
  }
}
