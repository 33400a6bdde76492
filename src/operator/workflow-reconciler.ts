import type { ControllerRevision } from '../api/controller-revision.ts';
import { type KubeObject, splitKey } from '../api/object.ts';
import { type Check, toolNameOf, type Workflow, type WorkflowSpec, type WorkflowStatus } from '../api/workflow.ts';
import type { WorkflowExecution } from '../api/workflow-execution.ts';
import type { ResourceClient } from '../kube/client.ts';
import { ConflictError } from '../kube/errors.ts';
import type { Store } from '../kube/store.ts';
import type { Outcome } from '../kube/work-queue.ts';
import { type Clock, toTimestamp } from '../lib/clock.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { planWorkflow } from '../workflow/plan.ts';
import { shorten } from '../workflow/values.ts';
import { type NewCondition, sameStatus, withConditions } from './conditions.ts';
import { findRevision, keepRevision, revisionName, revisionOf, superfluous } from './revisions.ts';
import type { WorkflowCatalog } from './workflow-catalog.ts';
import { createTool, type WorkflowTool } from './workflow-tool.ts';

export interface WorkflowReconcilerDeps {
  readonly workflows: Store<Workflow>;
  readonly executions: Store<WorkflowExecution>;
  readonly revisions: Store<ControllerRevision>;
  readonly workflowClient: ResourceClient<Workflow>;
  readonly revisionClient: ResourceClient<ControllerRevision>;
  readonly catalog: WorkflowCatalog;
  readonly missing: Upstreams['missing'];
  readonly reach: Upstreams['reach'];
  readonly record: (object: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string) => void;
  /** Reconciles another Workflow too. */
  readonly enqueue: (key: string) => void;
  readonly clock: Clock;
}

/** Index of the Workflow store by `<namespace>/<tool name>`. */
export const BY_TOOL_NAME = 'toolName';
/** Index of the revision store by `<namespace>/<workflow>`. */
export const BY_WORKFLOW = 'workflow';
/** Index of the execution store by `<namespace>/<workflow>`, without those that have ended. */
export const UNFINISHED = 'unfinished';

/** What the CRD takes. */
const MAX_CHECKS = 256;

interface Verdict {
  readonly tool: WorkflowTool | undefined;
  readonly accepted: NewCondition;
  readonly ready: NewCondition;
  readonly checks: readonly Check[];
}

/** Checks a Workflow, keeps its revision, lists its tool, and says so in its status. */
export function createWorkflowReconciler(
  deps: WorkflowReconcilerDeps,
): (key: string, signal: AbortSignal) => Promise<Outcome> {
  return async (key, signal) => {
    const { namespace, name } = splitKey(key);
    const workflow = deps.workflows.get(namespace, name);
    const before = deps.catalog.toolOf(namespace, name)?.name;
    if (workflow === undefined || workflow.metadata.deletionTimestamp !== undefined) {
      deps.catalog.set(namespace, name, undefined);
      wakeRivals(deps, namespace, name, before);
      await collect(deps, namespace, name, undefined, signal);
      return 'done';
    }
    const verdict = await judge(deps, workflow, signal);
    deps.catalog.set(namespace, name, verdict.tool);
    if (before !== verdict.tool?.name) {
      wakeRivals(deps, namespace, name, before);
      wakeRivals(deps, namespace, name, verdict.tool?.name);
    }
    const written = await writeStatus(deps, workflow, verdict, signal);
    await collect(deps, namespace, name, written, signal);
    return 'done';
  };
}

async function judge(deps: WorkflowReconcilerDeps, workflow: Workflow, signal: AbortSignal): Promise<Verdict> {
  const { name, generation = 0 } = workflow.metadata;
  const condition = (type: string, status: 'True' | 'False', reason: string, message: string): NewCondition => ({
    type,
    status,
    reason,
    message,
    observedGeneration: generation,
  });
  const refuse = async (reason: string, message: string, checks: readonly Check[]): Promise<Verdict> => {
    const tool = reason === 'ToolNameTaken' ? undefined : await previousTool(deps, workflow, signal);
    const served = tool === undefined ? '' : `; revision ${tool.revision} is served meanwhile`;
    return {
      tool,
      checks,
      accepted: condition('Accepted', 'False', reason, message + served),
      ready: condition('Ready', 'False', reason, message + served),
    };
  };

  const planned = planWorkflow(name, workflow.spec);
  if ('checks' in planned) {
    const [first] = planned.checks;
    const more = planned.checks.length > 1 ? ` (and ${planned.checks.length - 1} more in status.checks)` : '';
    return refuse('Invalid', `${first?.path}: ${first?.message}${more}`, planned.checks);
  }
  const owner = ownerOfToolName(deps, workflow);
  if (owner.metadata.name !== name) {
    const message = `the tool name "${toolNameOf(workflow)}" belongs to the older Workflow "${owner.metadata.name}"`;
    return refuse('ToolNameTaken', message, [{ path: 'spec.toolName', message }]);
  }
  const revision = revisionName(name, workflow.spec);
  if (!isKept(deps, workflow, revision)) await keepRevision(workflow, deps.revisionClient, signal);
  const tool = toolFor(deps, workflow, revision, workflow.spec, planned.plan);
  const missing = tool.missing();
  return {
    tool,
    checks: [],
    accepted: condition('Accepted', 'True', 'Valid', 'the spec is valid and every expression compiles'),
    ready:
      missing === undefined
        ? condition('Ready', 'True', 'ToolsAvailable', 'every server and tool that it names is there')
        : condition('Ready', 'False', 'ToolsMissing', missing),
  };
}

/**
 * Whether this operator has kept the revision for this very Workflow. What the store says is not enough: it may still hold
 * what went with a Workflow of the same name that was deleted.
 */
function isKept(deps: WorkflowReconcilerDeps, { metadata }: Workflow, revision: string): boolean {
  const { namespace = '', name, uid } = metadata;
  const listed = deps.catalog.toolOf(namespace, name);
  return listed?.revision === revision && listed.uid === uid && deps.revisions.get(namespace, revision) !== undefined;
}

/** The same object while nothing changed, so that the list of tools is not announced anew. */
function toolFor(
  deps: WorkflowReconcilerDeps,
  workflow: Workflow,
  revision: string,
  spec: WorkflowSpec,
  plan: WorkflowTool['plan'],
): WorkflowTool {
  const { namespace = '', name } = workflow.metadata;
  const current = deps.catalog.toolOf(namespace, name);
  if (current?.revision === revision && current.uid === workflow.metadata.uid) return current;
  return createTool({ workflow: { ...workflow, spec }, revision, plan, ...deps });
}

/** A spec that became invalid leaves its last accepted revision in service, unless another Workflow wants that name now. */
async function previousTool(
  deps: WorkflowReconcilerDeps,
  workflow: Workflow,
  signal: AbortSignal,
): Promise<WorkflowTool | undefined> {
  const { name, namespace = '' } = workflow.metadata;
  const revision = workflow.status?.revision;
  if (revision === undefined) return undefined;
  const kept = await findRevision(deps.revisions, deps.revisionClient, namespace, revision, signal);
  if (kept === undefined) return undefined;
  const toolName = toolNameOf({ ...workflow, spec: kept.data.spec });
  const rivals = deps.workflows.by(BY_TOOL_NAME, `${namespace}/${toolName}`);
  if (rivals.some(({ metadata }) => metadata.name !== name)) return undefined;
  const planned = planWorkflow(name, kept.data.spec);
  return 'plan' in planned ? toolFor(deps, workflow, revision, kept.data.spec, planned.plan) : undefined;
}

/** Of several that want one name the oldest has it, whoever comes first here (field case 40). */
function ownerOfToolName(deps: WorkflowReconcilerDeps, workflow: Workflow): Workflow {
  const rivals = deps.workflows.by(BY_TOOL_NAME, `${workflow.metadata.namespace}/${toolNameOf(workflow)}`);
  const rank = ({ metadata }: Workflow): string => `${metadata.creationTimestamp} ${metadata.name}`;
  return rivals.reduce((oldest, rival) => (rank(rival) < rank(oldest) ? rival : oldest), workflow);
}

function wakeRivals(deps: WorkflowReconcilerDeps, namespace: string, name: string, toolName: string | undefined): void {
  if (toolName === undefined) return;
  for (const rival of deps.workflows.by(BY_TOOL_NAME, `${namespace}/${toolName}`)) {
    if (rival.metadata.name !== name) deps.enqueue(`${namespace}/${rival.metadata.name}`);
  }
}

async function writeStatus(
  deps: WorkflowReconcilerDeps,
  workflow: Workflow,
  { tool, accepted, ready, checks }: Verdict,
  signal: AbortSignal,
): Promise<Workflow> {
  const now = toTimestamp(deps.clock.now());
  const conditions = withConditions(workflow.status?.conditions ?? [], [accepted, ready], now);
  const { observedGeneration: _generation, toolName: _tool, checks: _checks, ...kept } = workflow.status ?? {};
  const status: WorkflowStatus = {
    ...kept,
    ...(workflow.metadata.generation !== undefined && { observedGeneration: workflow.metadata.generation }),
    ...(tool !== undefined && { toolName: tool.name, revision: tool.revision }),
    ...(checks.length > 0 && { checks: checks.slice(0, MAX_CHECKS).map(bounded) }),
    conditions,
  };
  if (sameStatus(workflow.status, status)) return workflow;
  const written = await deps.workflowClient.replaceStatus({ ...workflow, status }, signal);
  announce(deps, workflow, [accepted, ready]);
  return written;
}

/** The CRD takes paths of 512 and messages of 2048 characters; keys in `args` and expressions may be longer. */
function bounded(check: Check): Check {
  return { ...check, path: shorten(check.path, 450), message: shorten(check.message, 2_000) };
}

/** An Event for each condition whose status or reason changed. */
function announce(deps: WorkflowReconcilerDeps, workflow: Workflow, conditions: readonly NewCondition[]): void {
  for (const [index, { type, status, reason, message }] of conditions.entries()) {
    // One that is not accepted is not ready for the same reason: that is said once.
    if (status === 'False' && conditions.slice(0, index).some((said) => said.reason === reason)) continue;
    const old = workflow.status?.conditions?.find((condition) => condition.type === type);
    if (old?.status === status && old.reason === reason) continue;
    if (status === 'True') deps.record(workflow, 'Normal', type, message);
    else deps.record(workflow, 'Warning', reason, message);
  }
}

async function collect(
  deps: WorkflowReconcilerDeps,
  namespace: string,
  name: string,
  workflow: Workflow | undefined,
  signal: AbortSignal,
): Promise<void> {
  const running = deps.executions.by(UNFINISHED, `${namespace}/${name}`);
  const inUse = new Set(running.flatMap((execution) => revisionOf(execution) ?? []));
  const revisions = deps.revisions.by(BY_WORKFLOW, `${namespace}/${name}`);
  for (const { metadata } of superfluous({ workflow, revisions, inUse })) {
    const precondition = metadata.uid === undefined ? {} : { uid: metadata.uid };
    await deps.revisionClient.delete(namespace, metadata.name, precondition, signal).catch((error: unknown) => {
      if (!(error instanceof ConflictError)) throw error;
    });
  }
}
