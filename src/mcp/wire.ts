import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type Result,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { ToolResult } from '../api/workflow-execution.ts';
import { isJsonObject } from '../lib/json.ts';
import type { TaskHandle } from '../tasks/task.ts';
import type { Caller, Era } from './scope.ts';

/** The SDK's boundary: what its types, or its habits, do not know of the Tasks extension. */

export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/** `_meta` of a request that was not validated yet, or the SDK's envelope of one that was. */
export function declaresTasks(meta: unknown): boolean {
  const capabilities = isJsonObject(meta) ? meta[CLIENT_CAPABILITIES_META_KEY] : undefined;
  const extensions = isJsonObject(capabilities) ? capabilities.extensions : undefined;
  return isJsonObject(extensions) && extensions[TASKS_EXTENSION] !== undefined;
}

export function callerOf({ mcpReq }: ServerContext, era: Era): Caller {
  const progressToken = mcpReq._meta?.progressToken;
  return {
    era,
    hasTasks: declaresTasks(mcpReq.envelope),
    signal: mcpReq.signal,
    ...(progressToken !== undefined && {
      onProgress: (progress) => {
        mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...progress } }).catch(() => {});
      },
    }),
  };
}

/** Structured content as the client's era takes it: until 2025-11-25 it had to be an object. */
export function projected(server: Server, answer: ToolResult | TaskHandle): Result {
  return 'content' in answer ? server.projectCallToolResult(answer as CallToolResult, undefined) : { ...answer };
}

/** The SDK gives every answer of `tools/call` without `content` an empty one; a CreateTaskResult has none (A.8, 67). */
export function withoutAddedContent(result: Result): Result {
  if (result.resultType !== 'task') return result;
  const { content: _, ...handle } = result;
  return handle;
}
