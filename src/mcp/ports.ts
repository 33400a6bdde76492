import type { TaskBehavior, ToolAnnotations } from '../api/workflow.ts';
import type { WorkflowExecution } from '../api/workflow-execution.ts';
import type { JsonObject } from '../lib/json.ts';

/** What the endpoint needs of the operator, which implements it (src/operator). */
export interface Catalog {
  /** Whether this operator serves that namespace at all; if not, its path is 404. */
  serves(namespace: string): boolean;
  /** Tools of accepted Workflows, sorted by name. The same array until something changes. */
  tools(namespace: string): readonly CatalogTool[];
  tool(namespace: string, name: string): CatalogTool | undefined;
  /** Calls `listener` with the namespace whose list changed; returns the way to stop. */
  onChange(listener: (namespace: string) => void): () => void;
}

export interface CatalogTool {
  readonly name: string;
  readonly namespace: string;
  /** Name of the Workflow object. */
  readonly workflow: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly annotations?: ToolAnnotations;
  readonly taskBehavior: TaskBehavior;
  /**
   * Why it cannot run now, naming every missing server and tool; undefined when it can. A server that is away is tried
   * first, for two seconds at most, so that one that has come back is used at once (field case 71).
   */
  unavailable(signal: AbortSignal): Promise<string | undefined>;
  /** Defaults applied, or every fault with its path, for instance `replicas: must be integer`. */
  parseArgs(args: JsonObject): ParsedArgs;
}

export type ParsedArgs =
  | { readonly ok: true; readonly args: JsonObject }
  | { readonly ok: false; readonly faults: readonly string[] };

export interface Runs {
  /** Starts at once; throws nothing: a refused create is the rejection of `created` and of `ended`. */
  start(request: StartRequest): Run;
  /** From the store, else a live read; undefined when there is none. Says nothing of who may see it. */
  get(namespace: string, id: string): Promise<WorkflowExecution | undefined>;
  /** Sets `spec.cancel`; nothing happens to a run that has ended. */
  cancel(namespace: string, id: string): Promise<void>;
}

export interface StartRequest {
  readonly tool: CatalogTool;
  /** As `parseArgs` gave them. */
  readonly args: JsonObject;
  readonly subject: string;
  readonly onProgress?: (progress: { progress: number; total?: number; message?: string }) => void;
}

export interface Run {
  readonly id: string;
  /** The API server has acknowledged the object. */
  readonly created: Promise<WorkflowExecution>;
  /**
   * The run has ended, and is recorded so far as an answer needs (design §4). Its phase is final. Rejects with a
   * RunLeftError (errors.ts) when the operator drives it no longer.
   */
  readonly ended: Promise<WorkflowExecution>;
  /** Nobody waits for it any more: it starts nothing more and ends cancelled, even before it is recorded. */
  abandon(): void;
}
