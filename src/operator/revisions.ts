import { createHash } from 'node:crypto';
import { CONTROLLER_REVISION, DEFAULTS, REVISION_ANNOTATION, WORKFLOW_LABEL } from '../api/constants.ts';
import type { ControllerRevision } from '../api/controller-revision.ts';
import { apiVersionOf } from '../api/object.ts';
import type { Workflow, WorkflowSpec } from '../api/workflow.ts';
import type { WorkflowExecution } from '../api/workflow-execution.ts';
import type { ResourceClient } from '../kube/client.ts';
import { AlreadyExistsError, NotFoundError } from '../kube/errors.ts';
import type { Store } from '../kube/store.ts';
import { canonicalJson } from '../lib/json.ts';

/** The same spec has the same name, so that applying it again makes no new revision. */
export function revisionName(workflow: string, spec: WorkflowSpec): string {
  return `${workflow}-${createHash('sha256').update(canonicalJson(spec)).digest('hex').slice(0, 10)}`;
}

/** The inverse of `revisionName`, for a revision that is known by its name only. */
export function workflowOfRevision(revision: string): string {
  return revision.replace(/-[0-9a-f]{10}$/, '');
}

/**
 * Sees to it that the Workflow's spec is kept; gives the revision's name. No owner reference: the garbage collector would
 * take the revision away with the Workflow, under the runs that are pinned to it. `superfluous` says when it may go.
 */
export async function keepRevision(
  workflow: Workflow,
  client: ResourceClient<ControllerRevision>,
  signal: AbortSignal,
): Promise<string> {
  const { name, namespace = '', generation = 1 } = workflow.metadata;
  const revision: ControllerRevision = {
    apiVersion: apiVersionOf(CONTROLLER_REVISION),
    kind: CONTROLLER_REVISION.kind,
    metadata: { name: revisionName(name, workflow.spec), namespace, labels: { [WORKFLOW_LABEL]: name } },
    data: { spec: workflow.spec },
    revision: generation,
  };
  try {
    await client.create(revision, signal);
  } catch (error) {
    if (!(error instanceof AlreadyExistsError)) throw error;
  }
  return revision.metadata.name;
}

/** From the store, else by a live read; undefined when it is gone. */
export async function findRevision(
  store: Store<ControllerRevision>,
  client: ResourceClient<ControllerRevision>,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<ControllerRevision | undefined> {
  try {
    return store.get(namespace, name) ?? (await client.get(namespace, name, signal));
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

export interface RevisionUse {
  /** Undefined when the Workflow was deleted: then nothing is kept that no run needs. */
  readonly workflow: Workflow | undefined;
  readonly revisions: readonly ControllerRevision[];
  /** Names of those that unfinished executions follow. */
  readonly inUse: ReadonlySet<string>;
}

/** Those that are neither current nor in use, beyond the newest `revisionHistoryLimit` of them. */
export function superfluous({ workflow, revisions, inUse }: RevisionUse): ControllerRevision[] {
  const limit = workflow === undefined ? 0 : (workflow.spec.revisionHistoryLimit ?? DEFAULTS.revisionHistoryLimit);
  const current = workflow && [workflow.status?.revision, revisionName(workflow.metadata.name, workflow.spec)];
  return revisions
    .filter(({ metadata: { name } }) => !inUse.has(name) && !current?.includes(name))
    .sort((a, b) => b.revision - a.revision)
    .slice(limit);
}

/** The revision that an execution follows or is about to. */
export function revisionOf(execution: WorkflowExecution): string | undefined {
  return execution.status?.revision ?? execution.metadata.annotations?.[REVISION_ANNOTATION];
}
