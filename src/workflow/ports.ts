import type { ToolAnnotations } from '../api/workflow.ts';
import type { RpcError, ToolResult, WorkflowExecution } from '../api/workflow-execution.ts';
import type { JsonObject } from '../lib/json.ts';

/**
 * What the engine needs of the world; `upstream` and `operator` implement it, `main` joins them. The engine knows neither
 * how a tool is reached nor how an execution is stored.
 */
export interface ToolCaller {
  /** What is known of the tool now; undefined while its server or itself is not there. */
  describe(namespace: string, tool: ToolRef): ToolDescription | undefined;
  /**
   * One attempt; never repeated by the callee, except where the first surely was not carried out. Never rejects: whatever
   * happens is an outcome. Settles soon after `signal` aborts, which also cancels the call at the upstream.
   */
  call(call: ToolCall, signal: AbortSignal): Promise<ToolOutcome>;
}

export interface ToolRef {
  readonly server: string;
  readonly tool: string;
}

export interface ToolDescription {
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
  readonly annotations?: ToolAnnotations;
}

export interface ToolCall extends ToolRef {
  readonly namespace: string;
  readonly args: JsonObject;
  /** Names this step of this run, the same in every attempt; sent upstream in `_meta`. */
  readonly key: string;
  readonly onProgress?: (progress: Progress) => void;
}

export interface Progress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** How a call ended. Messages name server and tool and are fit for the client: no address, no inner text. */
export type ToolOutcome =
  | { readonly kind: 'result'; readonly result: ToolResult }
  /** The upstream answered a JSON-RPC error. */
  | { readonly kind: 'protocolError'; readonly error: RpcError }
  /** Surely not carried out: server or tool not there, connection refused, refused by its limits. */
  | { readonly kind: 'unavailable'; readonly message: string }
  /** Sent, and no answer came. */
  | { readonly kind: 'unknown'; readonly message: string }
  /** `signal` aborted first. */
  | { readonly kind: 'aborted' };

export interface ExecutionStore {
  /**
   * PUT of the status on the resourceVersion that `execution` carries; gives the new object. Waits and tries again while
   * the API server is away. @throws ConflictError, NotFoundError, TooLargeError, InvalidError (src/kube/errors.ts)
   */
  writeStatus(execution: WorkflowExecution, signal: AbortSignal): Promise<WorkflowExecution>;
  /** A live read. @throws NotFoundError */
  read(namespace: string, name: string, signal: AbortSignal): Promise<WorkflowExecution>;
}

/** A Kubernetes Event on the execution; never fails, never waits. */
export type RecordEvent = (
  execution: WorkflowExecution,
  type: 'Normal' | 'Warning',
  reason: string,
  message: string,
) => void;
