import {
  API_VERSION,
  FIRST_STEP_ANNOTATION,
  REVISION_ANNOTATION,
  WORKFLOW_EXECUTION,
  WORKFLOW_LABEL,
} from '../api/constants.ts';
import { keyOf } from '../api/object.ts';
import { isFinal, type WorkflowExecution } from '../api/workflow-execution.ts';
import type { ResourceClient } from '../kube/client.ts';
import { NotFoundError } from '../kube/errors.ts';
import type { Store } from '../kube/store.ts';
import type { Clock } from '../lib/clock.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Logger } from '../lib/log.ts';
import { RunLeftError } from '../mcp/errors.ts';
import type { Run, Runs, StartRequest } from '../mcp/ports.ts';
import { type Drive, type DriveOptions, drive, firstStepAnnotation } from '../workflow/executor.ts';
import type { Plan } from '../workflow/plan.ts';
import type { RecordEvent, ToolCaller } from '../workflow/ports.ts';
import { RunLostError } from '../workflow/recorder.ts';
import { DEFAULT_LIMITS } from '../workflow/run.ts';
import type { RunStore } from './run-store.ts';
import type { WorkflowTool } from './workflow-tool.ts';

export interface RunsDeps {
  readonly executions: Store<WorkflowExecution>;
  readonly client: ResourceClient<WorkflowExecution>;
  readonly observe: (execution: WorkflowExecution) => void;
  readonly store: RunStore;
  readonly tools: ToolCaller;
  readonly recordEvent: RecordEvent;
  /** A run broke off whose record says that it goes on: it must be taken up again. */
  readonly onBroken: (key: string) => void;
  /** A run is driven here no longer: a revision of this Workflow may have become superfluous. */
  readonly onLeft: (workflowKey: string) => void;
  readonly runner: string;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
}

/** The runs that this replica drives. A run that it does not drive is known from the store only. */
export class ActiveRuns implements Runs {
  readonly #deps: RunsDeps;
  readonly #signal: AbortSignal;
  readonly #active = new Map<string, Drive>();

  /** When `signal` aborts, the runs are left as they are recorded, for whoever takes them up. */
  constructor(deps: RunsDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
  }

  start({ tool, args, subject, onProgress }: StartRequest): Run {
    // The catalog of this operator holds no other tools.
    const { plan, revision, namespace, workflow } = tool as WorkflowTool;
    const { ids, store, tools } = this.#deps;
    const firstStep = firstStepAnnotation(plan, (ref) => tools.describe(namespace, ref));
    const execution: WorkflowExecution = {
      apiVersion: API_VERSION,
      kind: WORKFLOW_EXECUTION.kind,
      metadata: {
        name: ids.newId(),
        namespace,
        labels: { [WORKFLOW_LABEL]: workflow },
        annotations: {
          [REVISION_ANNOTATION]: revision,
          ...(firstStep !== undefined && { [FIRST_STEP_ANNOTATION]: firstStep }),
        },
      },
      spec: { workflow, args, requestedBy: { subject, via: 'mcp' } },
    };
    const created = store.create(execution, this.#signal);
    const run = this.#drive({
      execution,
      plan,
      revision,
      created,
      ...(onProgress !== undefined && { onProgress }),
    });
    const { name: id } = execution.metadata;
    const ended = run.ended.catch((error: unknown) => Promise.reject(asTold(id, error)));
    return { id, created, ended, abandon: () => run.cancel() };
  }

  /** Takes up a run that nobody here drives: one that kubectl created, or that a dead replica left. */
  resume(execution: WorkflowExecution, plan: Plan, revision: string): void {
    this.#drive({ execution, plan, revision, created: Promise.resolve(execution) });
  }

  /** The run as this replica drives it; undefined when it does not. */
  active(key: string): Drive | undefined {
    return this.#active.get(key);
  }

  async get(namespace: string, id: string): Promise<WorkflowExecution | undefined> {
    const known = this.#deps.executions.get(namespace, id);
    if (known !== undefined) return known;
    try {
      const read = await this.#deps.client.get(namespace, id, this.#signal);
      this.#deps.observe(read);
      return read;
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  async cancel(namespace: string, id: string): Promise<void> {
    const known = this.#deps.executions.get(namespace, id);
    if (known?.spec.cancel === true || isFinal(known?.status?.phase)) return;
    try {
      const cancelled = await this.#deps.client.patch(namespace, id, { spec: { cancel: true } }, this.#signal);
      this.#deps.observe(cancelled);
      this.#active.get(keyOf(cancelled))?.observe(cancelled);
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
  }

  /** Starts no further step; resolves when what is in flight has ended and is recorded. */
  async drain(): Promise<void> {
    const runs = [...this.#active.values()];
    for (const run of runs) run.drain();
    await Promise.allSettled(runs.map((run) => run.recorded));
  }

  #drive(parts: Omit<DriveOptions, 'deps'>): Drive {
    const { store, tools, clock, log, runner, recordEvent } = this.#deps;
    const key = keyOf(parts.execution);
    const limits = DEFAULT_LIMITS;
    const deps = { tools, store, clock, log: log.child({ execution: key }), runner, recordEvent, limits };
    const run = drive({ ...parts, deps }, this.#signal);
    this.#active.set(key, run);
    // The last status is in the store by then (RunStore observes it), so no reconcile takes the run up again.
    run.recorded
      .catch((error: unknown) => {
        if (error instanceof RunLostError) log.info({ execution: key, why: error.why }, 'run is driven here no longer');
        else this.#deps.onBroken(key); // the executor has logged why
      })
      .finally(() => {
        this.#active.delete(key);
        this.#deps.onLeft(`${parts.execution.metadata.namespace}/${parts.execution.spec.workflow}`);
      });
    return run;
  }
}

/** The caller learns that a run goes on or is gone; that is no fault of ours. */
function asTold(id: string, error: unknown): unknown {
  if (!(error instanceof RunLostError)) return error;
  return new RunLeftError(`WorkflowExecution ${id}: ${error.message}.`, { cause: error });
}
