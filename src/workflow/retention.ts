import { isFinal, type WorkflowExecution } from '../api/workflow-execution.ts';

/** Whether the record of a finished run may be deleted now. `now` in milliseconds since the epoch. */
export function isExpired({ status }: WorkflowExecution, now: number): boolean {
  return isFinal(status?.phase) && status?.expiresAt !== undefined && Date.parse(status.expiresAt) <= now;
}
