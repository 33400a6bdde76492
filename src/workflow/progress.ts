import type { WorkflowExecutionStatus } from '../api/workflow-execution.ts';
import type { Plan } from './plan.ts';
import type { Progress } from './ports.ts';

/** Between what happens in a run and a caller that asked for progress. */
export interface ProgressRelay {
  /** What a call reports goes here; undefined when nobody listens to it. */
  readonly ofCall: ((progress: Progress) => void) | undefined;
  onStatus(status: WorkflowExecutionStatus): void;
}

/** The progress of a run: its upstream's own when it has one step, else one count a step. It only ever increases, as MCP wants. */
export function createProgressRelay(plan: Plan, onProgress: ((progress: Progress) => void) | undefined): ProgressRelay {
  if (onProgress === undefined) return { ofCall: undefined, onStatus: () => {} };
  let last = -Infinity;
  const relay = (progress: Progress): void => {
    if (progress.progress <= last) return;
    last = progress.progress;
    onProgress(progress);
  };
  const total = plan.steps.length;
  if (total === 1) return { ofCall: relay, onStatus: () => {} };
  return {
    ofCall: undefined,
    onStatus({ steps = [] }) {
      const running = steps.at(-1);
      if (running?.phase !== 'running') return;
      relay({ progress: steps.length - 1, total, message: `step '${running.id}' (${steps.length} of ${total})` });
    },
  };
}
