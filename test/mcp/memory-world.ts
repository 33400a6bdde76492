import { API_VERSION } from '../../src/api/constants.ts';
import { isFinal, type WorkflowExecution, type WorkflowExecutionStatus } from '../../src/api/workflow-execution.ts';
import { isJsonObject } from '../../src/lib/json.ts';
import type { Catalog, CatalogTool, Run, Runs, StartRequest } from '../../src/mcp/ports.ts';

/** The endpoint's two ports, in memory: a test says when the API server acknowledges a run and how the run ends. */

export function toolOf(name: string, parts: Partial<CatalogTool> = {}): CatalogTool {
  return {
    name,
    namespace: 'team-a',
    workflow: name,
    inputSchema: { type: 'object' },
    taskBehavior: 'auto',
    unavailable: async () => undefined,
    parseArgs: (args) => ({ ok: true, args }),
    ...parts,
  };
}

export class MemoryCatalog implements Catalog {
  readonly #tools = new Map<string, CatalogTool>();
  readonly #listeners = new Set<(namespace: string) => void>();

  constructor(tools: readonly CatalogTool[]) {
    for (const tool of tools) this.#tools.set(tool.name, tool);
  }

  serves(namespace: string): boolean {
    return namespace !== 'elsewhere';
  }

  tools(namespace: string): readonly CatalogTool[] {
    const tools = [...this.#tools.values()].filter((tool) => tool.namespace === namespace);
    return tools.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  tool(namespace: string, name: string): CatalogTool | undefined {
    const tool = this.#tools.get(name);
    return tool?.namespace === namespace ? tool : undefined;
  }

  onChange(listener: (namespace: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  set(tool: CatalogTool): void {
    this.#tools.set(tool.name, tool);
    for (const listener of this.#listeners) listener(tool.namespace);
  }

  remove(name: string): void {
    this.#tools.delete(name);
  }

  get listeners(): number {
    return this.#listeners.size;
  }
}

export class MemoryRun implements Run {
  readonly id: string;
  readonly request: StartRequest;
  abandoned = false;
  readonly #created = Promise.withResolvers<WorkflowExecution>();
  readonly #ended = Promise.withResolvers<WorkflowExecution>();
  readonly #store: Map<string, WorkflowExecution>;
  #execution: WorkflowExecution;

  constructor(id: string, request: StartRequest, store: Map<string, WorkflowExecution>) {
    this.id = id;
    this.request = request;
    this.#store = store;
    this.#created.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
    const { tool, args, subject } = request;
    this.#execution = {
      apiVersion: API_VERSION,
      kind: 'WorkflowExecution',
      metadata: { name: id, namespace: tool.namespace },
      spec: { workflow: tool.workflow, args, requestedBy: { subject, via: 'mcp' } },
    };
  }

  get created(): Promise<WorkflowExecution> {
    return this.#created.promise;
  }

  get ended(): Promise<WorkflowExecution> {
    return this.#ended.promise;
  }

  /** The API server acknowledges it. */
  record(): void {
    if (this.#store.has(this.id)) return;
    const metadata = { ...this.#execution.metadata, creationTimestamp: new Date().toISOString() };
    this.#put({ ...this.#execution, metadata });
    this.#created.resolve(this.#execution);
  }

  status(status: WorkflowExecutionStatus): void {
    this.#put({ ...this.#execution, status });
  }

  end(status: WorkflowExecutionStatus): void {
    this.record();
    const finishedAt = new Date().toISOString();
    this.status({ finishedAt, expiresAt: new Date(Date.now() + 60_000).toISOString(), ...status });
    this.#ended.resolve(this.#execution);
  }

  succeed(text: string, structuredContent?: NonNullable<WorkflowExecutionStatus['result']>['structuredContent']): void {
    const result = { content: [{ type: 'text', text }], ...(structuredContent !== undefined && { structuredContent }) };
    this.end({ phase: 'completed', result });
  }

  /** Its create is refused, or what drives it breaks. */
  fail(error: Error): void {
    this.#created.reject(error);
    this.leave(error);
  }

  abandon(): void {
    this.abandoned = true;
  }

  /** Its end will not be known here. */
  leave(error: Error): void {
    this.#ended.reject(error);
  }

  cancel(): void {
    if (isFinal(this.#execution.status?.phase)) return;
    this.#put({ ...this.#execution, spec: { ...this.#execution.spec, cancel: true } });
    this.end({ phase: 'cancelled', message: 'cancelled on request' });
  }

  #put(execution: WorkflowExecution): void {
    this.#execution = execution;
    this.#store.set(this.id, execution);
  }
}

export class MemoryRuns implements Runs {
  readonly executions = new Map<string, WorkflowExecution>();
  readonly started: MemoryRun[] = [];
  /** Ids, in the order in which they were cancelled. */
  readonly cancelled: string[] = [];
  /** What happens to a run at once; a test that takes this away does it later. */
  onStart: (run: MemoryRun) => void = (run) => run.record();
  readonly #waiting = new Set<() => void>();

  start(request: StartRequest): Run {
    const run = new MemoryRun(crypto.randomUUID(), request, this.executions);
    this.started.push(run);
    this.onStart(run);
    this.#wake();
    return run;
  }

  async get(namespace: string, id: string): Promise<WorkflowExecution | undefined> {
    const execution = this.executions.get(id);
    return execution?.metadata.namespace === namespace ? execution : undefined;
  }

  async cancel(_namespace: string, id: string): Promise<void> {
    this.cancelled.push(id);
    this.started.find((run) => run.id === id)?.cancel();
    this.#wake();
  }

  /** The run that was started as number `index`, once it is. */
  async run(index = 0): Promise<MemoryRun> {
    await this.#until(() => this.started.length > index);
    const run = this.started[index];
    if (run === undefined) throw new Error(`no run ${index}`);
    return run;
  }

  async untilCancelled(id: string): Promise<void> {
    await this.#until(() => this.cancelled.includes(id));
  }

  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

/** A tool with one required integer, refused with its path as the engine does it. */
export const scaleTool = toolOf('workflow_scale', {
  inputSchema: { type: 'object', properties: { replicas: { type: 'integer' } }, required: ['replicas'] },
  parseArgs(args) {
    const { replicas } = args;
    if (Number.isInteger(replicas)) return { ok: true, args };
    const unknown = Object.keys(args).filter((key) => key !== 'replicas');
    const fault = replicas === undefined ? 'replicas: is required' : 'replicas: must be integer';
    return { ok: false, faults: [fault, ...unknown.map((key) => `${key}: is not known`)] };
  },
});

export function textOf(result: unknown): string {
  const content = isJsonObject(result) && Array.isArray(result.content) ? result.content : [];
  return content.map((block) => (isJsonObject(block) ? String(block.text) : '')).join('\n');
}
