import type { WorkflowExecution } from '../api/workflow-execution.ts';
import type { ResourceClient } from '../kube/client.ts';
import { AlreadyExistsError, UnavailableError } from '../kube/errors.ts';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import type { ExecutionStore } from '../workflow/ports.ts';

const BACKOFF: Backoff = { base: 200, factor: 2, max: 10_000, jitter: 0.5 };

export interface StoreDeps {
  readonly client: ResourceClient<WorkflowExecution>;
  /** Puts the answer of a write where readers look, before the watch brings it. */
  readonly observe: (execution: WorkflowExecution) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface RunStore extends ExecutionStore {
  /** Repeated while the API server is away: the name is a fresh UUID, so an object that is there already is this one. */
  create(execution: WorkflowExecution, signal: AbortSignal): Promise<WorkflowExecution>;
}

/**
 * Executions in the Kubernetes API. While it is away, a write waits and is tried again for as long as its signal lets it;
 * that is safe, since a status write carries the resourceVersion and a create its own name.
 */
export function createRunStore({ client, observe, clock, log }: StoreDeps): RunStore {
  const persist = async <T>(what: string, signal: AbortSignal, attempt: () => Promise<T>): Promise<T> => {
    for (let failures = 0; ; failures++) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof UnavailableError) || signal.aborted) throw error;
        const delayMs = Math.round(backoffDelay(BACKOFF, failures));
        log.warn({ what, failures: failures + 1, delayMs, error: error.message }, 'API server unavailable');
        await clock.sleep(delayMs, signal);
      }
    }
  };
  const observed = (execution: WorkflowExecution): WorkflowExecution => {
    observe(execution);
    return execution;
  };
  return {
    async create(execution, signal) {
      const { namespace = '', name } = execution.metadata;
      let tried = false;
      return persist('create', signal, async () => {
        try {
          return observed(await client.create(execution, signal));
        } catch (error) {
          if (tried && error instanceof AlreadyExistsError) return observed(await client.get(namespace, name, signal));
          tried = true;
          throw error;
        }
      });
    },
    writeStatus: (execution, signal) =>
      persist('status', signal, async () => observed(await client.replaceStatus(execution, signal))),
    read: (namespace, name, signal) =>
      persist('read', signal, async () => observed(await client.get(namespace, name, signal))),
  };
}
