import type { WorkflowExecution } from '../api/workflow-execution.ts';
import { type DetailedTask, detailedTaskOf, isExpired, isVisibleTo } from '../tasks/task.ts';
import { invalidParams, tasksRequired, unknownTask } from './errors.ts';
import type { Caller, Scope } from './scope.ts';

/** `tasks/get`. */
export async function getTask(scope: Scope, taskId: string, caller: Caller): Promise<DetailedTask> {
  return detailedTaskOf(await taskOfCaller(scope, taskId, caller), scope.clock.now());
}

/** `tasks/cancel`: an ack that says nothing, as often as it is asked; a run that has ended stays as it is. */
export async function cancelTask(scope: Scope, taskId: string, caller: Caller): Promise<Record<string, never>> {
  await taskOfCaller(scope, taskId, caller);
  await scope.runs.cancel(scope.namespace, taskId);
  return {};
}

/** `tasks/update`. No task of ours asks anything yet, so every key is one that is to be ignored. */
export async function updateTask(
  scope: Scope,
  taskId: string,
  inputResponses: Record<string, unknown> | undefined,
  caller: Caller,
): Promise<Record<string, never>> {
  await taskOfCaller(scope, taskId, caller);
  if (inputResponses === undefined) throw invalidParams('tasks/update needs inputResponses, an object by request key.');
  return {};
}

/** What the API server takes for a name; anything else would not even be a path of it. */
const OBJECT_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

async function taskOfCaller(scope: Scope, taskId: string, { hasTasks }: Caller): Promise<WorkflowExecution> {
  // First, so that a client which cannot follow tasks learns of none.
  if (!hasTasks) throw tasksRequired();
  const { runs, namespace, subject, clock } = scope;
  const execution = OBJECT_NAME.test(taskId) ? await runs.get(namespace, taskId) : undefined;
  if (execution === undefined || !isVisibleTo(execution, subject) || isExpired(execution, clock.now())) {
    throw unknownTask();
  }
  return execution;
}
