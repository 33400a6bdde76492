import type { ToolAnnotations } from '../../src/api/workflow.ts';
import type { ToolResult, WorkflowExecution } from '../../src/api/workflow-execution.ts';
import { ConflictError, NotFoundError, TooLargeError } from '../../src/kube/errors.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { ExecutionStore, ToolCall, ToolCaller, ToolOutcome } from '../../src/workflow/ports.ts';
import { settle } from '../support/fake-clock.ts';

/** What an upstream tool does when it is called. */
export interface ScriptedTool {
  readonly annotations?: ToolAnnotations;
  /** How long it takes; Infinity: until it is cancelled. Default 0. */
  readonly takesMs?: number;
  readonly outcome?: ToolOutcome;
  /** Answers in its own time, also when the call is aborted. */
  readonly stubborn?: true;
  /** Instead of `outcome`: made of the call. */
  readonly answer?: (call: ToolCall) => ToolResult;
}

export interface JournaledCall {
  readonly key: string;
  readonly tool: string;
  readonly args: unknown;
}

/** The ports as one process sees them. Once it is killed nothing of it reaches the world, and nothing comes back. */
export interface Process {
  readonly store: ExecutionStore;
  readonly tools: ToolCaller;
  create(execution: WorkflowExecution): Promise<WorkflowExecution>;
  readonly killed: Promise<'killed'>;
}

/**
 * An API server that holds one execution, and upstreams that do what a script says. It outlives the processes that use it.
 * Whatever crosses to it takes a turn of the event loop and no time. Each of its points (before a write, after it, before a call, after it) can be where a process is killed.
 */
export class ScriptedWorld {
  stored: WorkflowExecution | undefined;
  readonly calls: JournaledCall[] = [];
  readonly writes: WorkflowExecution[] = [];
  /** The points that were passed, in order. */
  readonly points: string[] = [];
  /** Called at each point; may change the world (another writer, a delete). */
  onPoint: (point: string) => void = () => {};
  /** Status writes of more bytes are refused. */
  maxBytes = Infinity;
  readonly #clock: Clock;
  readonly #tools: Readonly<Record<string, ScriptedTool>>;
  #version = 0;

  constructor(clock: Clock, tools: Readonly<Record<string, ScriptedTool>>) {
    this.#clock = clock;
    this.#tools = tools;
  }

  /** A process that dies at the point number `killAt` (0 for the first), counted from now. */
  process(killAt = Infinity): Process {
    const killed = Promise.withResolvers<'killed'>();
    let left = killAt;
    const passes = async (point: string): Promise<void> => {
      if (left < 0) return new Promise(() => {});
      this.points.push(point);
      this.onPoint(point);
      if (left-- === 0) {
        killed.resolve('killed');
        return new Promise(() => {});
      }
    };
    const put = async (point: string, write: () => WorkflowExecution): Promise<WorkflowExecution> => {
      await passes(`before ${point}`);
      const result = structuredClone(write());
      await settle();
      await passes(`after ${point}`);
      return result;
    };
    return {
      killed: killed.promise,
      create: (execution) => put('create', () => this.#create(execution)),
      store: {
        writeStatus: (execution) => put('write', () => this.#writeStatus(structuredClone(execution))),
        read: async () => structuredClone(this.#read()),
      },
      tools: {
        describe: (_, { server, tool }) => {
          const scripted = this.#tools[`${server}/${tool}`];
          if (scripted === undefined) return undefined;
          const { annotations } = scripted;
          return { inputSchema: { type: 'object' }, ...(annotations !== undefined && { annotations }) };
        },
        call: async (call, signal) => {
          await passes('before call');
          const outcome = await this.#call(call, signal);
          await passes('after call');
          return outcome;
        },
      },
    };
  }

  /** As kubectl would, past every process. */
  change(update: (execution: WorkflowExecution) => WorkflowExecution): void {
    this.stored = this.#versioned(update(structuredClone(this.#read())));
  }

  #create(execution: WorkflowExecution): WorkflowExecution {
    const created = structuredClone(execution);
    created.metadata.uid ??= 'a-uid';
    this.stored = this.#versioned(created);
    return this.stored;
  }

  #writeStatus(execution: WorkflowExecution): WorkflowExecution {
    const current = this.#read();
    if (execution.metadata.resourceVersion !== current.metadata.resourceVersion) {
      throw new ConflictError('the object has been modified', 409, 'Conflict');
    }
    if (JSON.stringify(execution.status).length > this.maxBytes) throw new TooLargeError('too large', 413, '');
    const { status } = execution;
    this.stored = this.#versioned({ ...current, ...(status !== undefined && { status }) });
    this.writes.push(this.stored);
    return this.stored;
  }

  #read(): WorkflowExecution {
    if (this.stored === undefined) throw new NotFoundError('there is none', 404, 'NotFound');
    return this.stored;
  }

  #versioned(execution: WorkflowExecution): WorkflowExecution {
    const resourceVersion = String(++this.#version);
    return { ...execution, metadata: { ...execution.metadata, resourceVersion } };
  }

  async #call(call: ToolCall, signal: AbortSignal): Promise<ToolOutcome> {
    const name = `${call.server}/${call.tool}`;
    this.calls.push({ key: call.key, tool: name, args: call.args });
    const tool = this.#tools[name];
    if (tool === undefined) return { kind: 'unavailable', message: `there is no tool ${name}` };
    const { takesMs = 0 } = tool;
    await settle();
    try {
      if (takesMs === Infinity)
        await new Promise((_, reject) => signal.addEventListener('abort', reject, { once: true }));
      else if (takesMs > 0) await this.#clock.sleep(takesMs, tool.stubborn ? new AbortController().signal : signal);
    } catch {
      return { kind: 'aborted' };
    }
    if (tool.answer !== undefined) return { kind: 'result', result: tool.answer(call) };
    return tool.outcome ?? { kind: 'result', result: { content: [{ type: 'text', text: name }] } };
  }
}
