import { MissingRequiredClientCapabilityError, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import type { ToolResult } from '../api/workflow-execution.ts';
import { NotFoundError, UnavailableError } from '../kube/errors.ts';
import { describeError } from '../lib/errors.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Logger } from '../lib/log.ts';
import { TASKS_EXTENSION } from './wire.ts';

/** What a client sees of a fault: the table of design §8. Faults of the caller's business are results, `errorResult`. */

/** One text for unknown, foreign and expired, so that nobody learns which. */
export function unknownTask(): ProtocolError {
  return new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    'Task not found: there is no such task, it has expired, or it belongs to someone else.',
  );
}

export function unknownTool(name: string): ProtocolError {
  const shown = name.length > 128 ? `${name.slice(0, 128)}…` : name;
  return new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `Unknown tool: ${shown}. tools/list gives those there are.`,
  );
}

export function invalidParams(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

/** -32021: what was asked needs a client that can follow a task. */
export function tasksRequired(): ProtocolError {
  return new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } });
}

/** -32603 with a message that is fit for a client: a fault that was foreseen. */
export function unavailable(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InternalError, message);
}

export function errorResult(text: string): ToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}

/** The operator drives a run no longer whose end a call waits for. The message says why; it is fit for a client. */
export class RunLeftError extends Error {
  override name = 'RunLeftError';
}

export interface FaultContext {
  readonly log: Logger;
  readonly ids: IdSource;
  readonly namespace: string;
  readonly method: string;
}

/** The error that answers whatever was thrown. What nobody foresaw is logged under an id; the client sees that id alone. */
export function toProtocolError(thrown: unknown, { log, ids, namespace, method }: FaultContext): ProtocolError {
  if (thrown instanceof ProtocolError) return thrown;
  if (thrown instanceof RunLeftError) return unavailable(thrown.message);
  const keys = { namespace, method, error: describeError(thrown) };
  if (thrown instanceof UnavailableError) {
    log.warn(keys, 'API server away');
    return unavailable('The Kubernetes API does not answer. Nothing is lost; call again later.');
  }
  if (thrown instanceof NotFoundError) {
    log.warn(keys, 'execution deleted');
    return unavailable('The WorkflowExecution was deleted while the run went on.');
  }
  const correlationId = ids.newId();
  log.error({ ...keys, correlationId, stack: thrown instanceof Error ? thrown.stack : undefined }, 'request failed');
  const message = `Internal error. The operator's log has it under correlation id ${correlationId}.`;
  return new ProtocolError(ProtocolErrorCode.InternalError, message, { correlationId });
}

/** An answer of HTTP that is not a server's: JSON-RPC all the same, since that is what the client reads. */
export function refused(status: number, error: RefusalError, headers: Record<string, string> = {}): Response {
  const { id = null, ...rest } = error;
  return Response.json({ jsonrpc: '2.0', id, error: rest }, { status, headers });
}

export interface RefusalError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
  readonly id?: string | number | null;
}
