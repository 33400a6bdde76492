import { STEP_KEY_META } from '../api/constants.ts';
import type { ToolResult } from '../api/workflow-execution.ts';
import { withTimeout } from '../lib/abort.ts';
import { isJsonObject, type JsonObject } from '../lib/json.ts';
import type { Logger } from '../lib/log.ts';
import type { ToolCall, ToolOutcome } from '../workflow/ports.ts';
import type { Connection } from './connection.ts';
import type { Fault } from './connection-state.ts';
import { paramHeaders } from './param-headers.ts';

/** How long a call waits for a server that is not connected. */
export const PATIENCE_MS = 2_000;

/** What JSON-RPC calls an internal error: the upstream answered, with what no one asked for. */
const UNSUPPORTED_ANSWER = -32603;

/**
 * One call, as the port `ToolCaller` has it. It is sent again only when it surely was not carried out: nobody took the
 * connection, or the server did not know our session.
 */
export async function callTool(
  connection: Connection,
  call: ToolCall,
  signal: AbortSignal,
  log: Logger,
): Promise<ToolOutcome> {
  const patience = withTimeout(signal, PATIENCE_MS);
  try {
    for (let renewals = 0; ; ) {
      const session = await connection.session(patience.signal);
      if (signal.aborted) return { kind: 'aborted' };
      if (session === undefined) return unavailable(call, connection.fault);
      const headers = paramHeaders(connection.tool(call.tool)?.paramHeaders ?? [], call.args);
      const answer = await session.request({ ...requestOf(call), headers }, signal);
      if (answer.kind === 'aborted') return answer;
      if (answer.kind === 'error') return { kind: 'protocolError', error: answer.error };
      if (answer.kind === 'result') return outcomeOf(call, answer.result, connection, log);
      const { failure } = answer;
      connection.observe(session, failure);
      if (failure.nature === 'broken') return { kind: 'unknown', message: sentence(call, failure.fault) };
      const again = failure.nature === 'unreachable' || (failure.nature === 'sessionLost' && renewals++ === 0);
      if (!again) return unavailable(call, failure.fault);
    }
  } finally {
    patience.clear();
  }
}

function requestOf({ tool, args, key, onProgress }: ToolCall) {
  const params = { name: tool, arguments: args, _meta: { [STEP_KEY_META]: key } };
  return { method: 'tools/call', params, onProgress };
}

function outcomeOf(call: ToolCall, result: JsonObject, connection: Connection, log: Logger): ToolOutcome {
  const { resultType = 'complete', content, structuredContent, isError } = result;
  if (resultType !== 'complete') {
    const what = resultType === 'task' ? 'a task' : `a result of the type ${JSON.stringify(resultType)}`;
    const message = `MCPServer "${call.server}" answered the call of "${call.tool}" with ${what}, which was not asked for`;
    return { kind: 'protocolError', error: { code: UNSUPPORTED_ANSWER, message } };
  }
  // Servers that give structured content alone are against the specification, but clear.
  const blocks = content ?? (structuredContent === undefined ? undefined : []);
  if (!Array.isArray(blocks) || !blocks.every(isJsonObject)) {
    return {
      kind: 'unknown',
      message: sentence(call, { reason: '', message: 'gave an answer that is no tool result' }),
    };
  }
  // Not held against the schema any further: both come from the same server, and a result that does not fit is still
  // the only account of what was done.
  if (connection.tool(call.tool)?.outputSchema !== undefined && structuredContent === undefined && isError !== true) {
    log.warn({ tool: call.tool }, 'upstream result lacks the structured content that the tool declares');
  }
  const toolResult: ToolResult = {
    content: blocks,
    ...(structuredContent !== undefined && { structuredContent }),
    ...(isError === true && { isError }),
  };
  return { kind: 'result', result: toolResult };
}

function unavailable(call: ToolCall, fault: Fault | undefined): ToolOutcome {
  const message = sentence(call, fault ?? { reason: 'Unknown', message: 'is not available' });
  return { kind: 'unavailable', message };
}

function sentence({ server, tool }: ToolCall, fault: Fault): string {
  return `MCPServer "${server}" ${fault.message} (tool "${tool}")`;
}
