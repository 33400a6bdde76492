import { DEFAULTS } from '../api/constants.ts';
import type { ControllerRevision } from '../api/controller-revision.ts';
import { splitKey } from '../api/object.ts';
import type { Workflow } from '../api/workflow.ts';
import {
  type ExecutionReason,
  isFinal,
  type WorkflowExecution,
  type WorkflowExecutionStatus,
} from '../api/workflow-execution.ts';
import type { ResourceClient } from '../kube/client.ts';
import { ConflictError, NotFoundError } from '../kube/errors.ts';
import type { Store } from '../kube/store.ts';
import type { Outcome } from '../kube/work-queue.ts';
import { type Clock, toTimestamp } from '../lib/clock.ts';
import { parseDuration } from '../lib/duration.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { closeRunning, shownDuration } from '../workflow/finish.ts';
import { type Plan, planWorkflow } from '../workflow/plan.ts';
import type { RecordEvent } from '../workflow/ports.ts';
import { shorten } from '../workflow/values.ts';
import type { ActiveRuns } from './active-runs.ts';
import { findRevision, revisionOf } from './revisions.ts';
import type { WorkflowCatalog } from './workflow-catalog.ts';

export interface ExecutionReconcilerDeps {
  readonly executions: Store<WorkflowExecution>;
  readonly workflows: Store<Workflow>;
  readonly revisions: Store<ControllerRevision>;
  readonly client: ResourceClient<WorkflowExecution>;
  readonly revisionClient: ResourceClient<ControllerRevision>;
  readonly catalog: WorkflowCatalog;
  readonly runs: ActiveRuns;
  readonly recordEvent: RecordEvent;
  readonly missing: Upstreams['missing'];
  /** When this operator started, ms since the epoch. */
  readonly startedAt: number;
  /** A run of this Workflow ended: a revision may have become superfluous. */
  readonly onEnd: (namespace: string, workflow: string) => void;
  readonly clock: Clock;
}

/** An execution and its Workflow may be applied together, in either order. */
const WORKFLOW_WAIT_MS = 10_000;
const LOOK_AGAIN_MS = 200;
/** A fresh operator has to connect first: until then a missing server is no reason to fail a run. */
const CONNECT_WAIT_MS = 15_000;

/** Sees to it that an execution is driven until it ends, and deleted when it expires. */
export function createExecutionReconciler(
  deps: ExecutionReconcilerDeps,
): (key: string, signal: AbortSignal) => Promise<Outcome> {
  return async (key, signal) => {
    const { namespace, name } = splitKey(key);
    const execution = deps.executions.get(namespace, name);
    const active = deps.runs.active(key);
    if (execution === undefined || execution.metadata.deletionTimestamp !== undefined) {
      active?.forget();
      return 'done';
    }
    if (isFinal(execution.status?.phase)) {
      deps.onEnd(namespace, execution.spec.workflow);
      return expire(deps, execution, signal);
    }
    if (active !== undefined) {
      active.observe(execution);
      return 'done';
    }
    return takeUp(deps, execution, signal);
  };
}

async function expire(
  deps: ExecutionReconcilerDeps,
  execution: WorkflowExecution,
  signal: AbortSignal,
): Promise<Outcome> {
  const { name, namespace = '', uid } = execution.metadata;
  const expiresAt = execution.status?.expiresAt;
  if (expiresAt === undefined) return 'done';
  const left = Date.parse(expiresAt) - deps.clock.now();
  if (left > 0) return { after: left };
  await deps.client.delete(namespace, name, uid === undefined ? {} : { uid }, signal);
  return 'done';
}

async function takeUp(
  deps: ExecutionReconcilerDeps,
  execution: WorkflowExecution,
  signal: AbortSignal,
): Promise<Outcome> {
  const source = await findPlan(deps, execution, signal);
  if (source === 'wait') return { after: LOOK_AGAIN_MS };
  if ('reason' in source) {
    await fail(deps, execution, source.reason, source.message, signal);
    return 'done';
  }
  const connecting = deps.clock.now() - deps.startedAt < CONNECT_WAIT_MS;
  const { namespace = '' } = execution.metadata;
  if (connecting && source.plan.tools.some((tool) => deps.missing(namespace, tool) !== undefined)) {
    return { after: LOOK_AGAIN_MS };
  }
  deps.runs.resume(execution, source.plan, source.revision);
  return 'done';
}

interface PlanSource {
  readonly plan: Plan;
  readonly revision: string;
}

type Failure = { readonly reason: ExecutionReason; readonly message: string };

async function findPlan(
  deps: ExecutionReconcilerDeps,
  execution: WorkflowExecution,
  signal: AbortSignal,
): Promise<PlanSource | Failure | 'wait'> {
  const { namespace = '', creationTimestamp } = execution.metadata;
  const { workflow: name } = execution.spec;
  const pinned = revisionOf(execution);
  if (pinned !== undefined) return planOfRevision(deps, namespace, name, pinned, signal);

  const workflow = deps.workflows.get(namespace, name);
  const accepted = workflow?.status?.conditions?.find(({ type }) => type === 'Accepted');
  // Applied together with a changed Workflow, it runs on the changed one.
  if (workflow !== undefined && accepted?.observedGeneration !== workflow.metadata.generation) return 'wait';
  const tool = deps.catalog.toolOf(namespace, name);
  if (tool !== undefined) return { plan: tool.plan, revision: tool.revision };
  if (workflow !== undefined && accepted?.status === 'False') {
    return { reason: 'InvalidWorkflow', message: `Workflow "${name}" is not accepted: ${accepted.message}` };
  }
  if (deps.clock.now() - Date.parse(creationTimestamp ?? '') < WORKFLOW_WAIT_MS) return 'wait';
  return { reason: 'WorkflowNotFound', message: `there is no Workflow "${name}" in namespace "${namespace}"` };
}

async function planOfRevision(
  deps: ExecutionReconcilerDeps,
  namespace: string,
  workflow: string,
  revision: string,
  signal: AbortSignal,
): Promise<PlanSource | Failure> {
  const kept = await findRevision(deps.revisions, deps.revisionClient, namespace, revision, signal);
  if (kept === undefined) {
    return {
      reason: 'WorkflowNotFound',
      message: `the ControllerRevision "${revision}" that this run follows is gone`,
    };
  }
  const planned = planWorkflow(workflow, kept.data.spec);
  if ('plan' in planned) return { plan: planned.plan, revision };
  const [fault] = planned.checks;
  return { reason: 'InvalidWorkflow', message: `revision "${revision}": ${fault?.path}: ${fault?.message}` };
}

/** Ends a run that cannot begin, or cannot go on since its revision is gone. */
async function fail(
  deps: ExecutionReconcilerDeps,
  execution: WorkflowExecution,
  reason: ExecutionReason,
  text: string,
  signal: AbortSignal,
): Promise<void> {
  const message = shorten(text);
  const now = deps.clock.now();
  const at = toTimestamp(now);
  const before = execution.status ?? { phase: 'inprogress', startedAt: at };
  const status: WorkflowExecutionStatus = {
    ...closeRunning(before, 'failed', 'Interrupted', message, now),
    phase: 'failed',
    reason,
    message,
    finishedAt: at,
    expiresAt: toTimestamp(now + parseDuration(DEFAULTS.ttlAfterFinished)),
    duration: shownDuration(now - Date.parse(before.startedAt ?? at)),
    result: { content: [{ type: 'text', text: message }], isError: true },
  };
  try {
    const written = await deps.client.replaceStatus({ ...execution, status }, signal);
    deps.recordEvent(written, 'Warning', reason, message);
  } catch (error) {
    // Changed or deleted meanwhile: the reflector brings its key again.
    if (!(error instanceof ConflictError || error instanceof NotFoundError)) throw error;
  }
}
