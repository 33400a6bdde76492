import type { RpcError, ToolResult, WorkflowExecution } from '../api/workflow-execution.ts';

/** How a run that has ended ended, as its caller sees it: in the answer of a call and in a task alike. */
export type Outcome =
  | { readonly kind: 'result'; readonly result: ToolResult }
  | { readonly kind: 'error'; readonly error: RpcError }
  | { readonly kind: 'cancelled'; readonly message: string };

const INTERNAL_ERROR = -32603;

/** The table of design §3; undefined while the run goes on. */
export function outcomeOf({ status }: WorkflowExecution): Outcome | undefined {
  switch (status?.phase) {
    case 'completed':
      return { kind: 'result', result: status.result ?? { content: [] } };
    case 'failed':
      if (status.result !== undefined) return { kind: 'result', result: asErrorResult(status.result) };
      return { kind: 'error', error: ours(status.error ?? { code: INTERNAL_ERROR, message: 'The run failed.' }) };
    case 'cancelled':
      return { kind: 'cancelled', message: status.message ?? 'The run was cancelled.' };
    default:
      return undefined;
  }
}

/** Without structured content: it would have to fit a schema that describes success (field case 34). */
function asErrorResult({ content }: ToolResult): ToolResult {
  return { content, isError: true };
}

/** An error of an upstream with a code that MCP reserves says something of that connection, not of the client's. */
function ours(error: RpcError): RpcError {
  return isReserved(error.code) ? { ...error, code: INTERNAL_ERROR } : error;
}

/** Codes that only the specification gives a meaning (basic/index.mdx, "Error Codes"), the retired -32002 among them. */
function isReserved(code: number): boolean {
  return (code >= -32099 && code <= -32020) || code === -32002;
}
