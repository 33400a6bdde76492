import { ProtocolError } from '@modelcontextprotocol/server';
import type { ToolResult, WorkflowExecution } from '../api/workflow-execution.ts';
import { TooLargeError } from '../kube/errors.ts';
import { formatDuration } from '../lib/duration.ts';
import { describeError } from '../lib/errors.ts';
import type { JsonObject } from '../lib/json.ts';
import { outcomeOf } from '../tasks/outcome.ts';
import { type TaskHandle, taskOf } from '../tasks/task.ts';
import { errorResult, tasksRequired, unavailable, unknownTool } from './errors.ts';
import type { CatalogTool, Run } from './ports.ts';
import type { Caller, Scope } from './scope.ts';
import { TASKS_EXTENSION } from './wire.ts';

export interface ToolCall {
  readonly name: string;
  readonly arguments?: JsonObject | undefined;
}

/** How the answer is chosen: by the end of the run, by whichever is first, or by its record. */
type Mode = 'result' | 'auto' | 'task';

/** Within this the API server must have acknowledged a run. */
const RECORD_MS = 10_000;

/** `tools/call`: starts a run, once all that can be refused before has been. */
export async function callTool(scope: Scope, call: ToolCall, caller: Caller): Promise<ToolResult | TaskHandle> {
  const tool = scope.catalog.tool(scope.namespace, call.name);
  if (tool === undefined) throw unknownTool(call.name);
  const mode = modeOf(tool, caller);
  if (mode === undefined) return taskOnly(tool, caller);
  const missing = await tool.unavailable(caller.signal);
  if (missing !== undefined) return errorResult(`${tool.name} cannot run now: ${missing}`);
  const parsed = tool.parseArgs(call.arguments ?? {});
  if (!parsed.ok) {
    return errorResult(['The arguments do not fit:', ...parsed.faults.map((fault) => `- ${fault}`)].join('\n'));
  }
  // A run that may be a task reports nothing: tasks have no progress, and when it matters it is not known yet.
  const progress = mode === 'result' ? relayOf(caller) : undefined;
  const run = scope.runs.start({
    tool,
    args: parsed.args,
    subject: scope.subject,
    ...(progress !== undefined && { onProgress: progress.send }),
  });
  try {
    const execution = await follow(scope, run, mode, caller.signal);
    return answerOf(scope, execution);
  } catch (error) {
    if (error instanceof TooLargeError) return errorResult('The arguments are too large: the API server refused them.');
    throw error;
  } finally {
    progress?.stop();
  }
}

/** Undefined where the tool answers with a task only and this client could not follow one. */
function modeOf({ taskBehavior }: CatalogTool, { hasTasks }: Caller): Mode | undefined {
  switch (taskBehavior) {
    case 'never':
      return 'result';
    case 'auto':
      return hasTasks ? 'auto' : 'result';
    case 'always':
      return hasTasks ? 'task' : undefined;
  }
}

function taskOnly(tool: CatalogTool, { era }: Caller): ToolResult {
  // -32021 and extensions came with 2026-07-28: an older client would make nothing of them.
  if (era === 'modern') throw tasksRequired();
  return errorResult(
    `${tool.name} always answers with a task: it needs a client of MCP 2026-07-28 with the extension ${TASKS_EXTENSION}.`,
  );
}

/** Gives the execution that the answer is made of: one that has ended, or a recorded one that becomes a task. */
async function follow(scope: Scope, run: Run, mode: Mode, signal: AbortSignal): Promise<WorkflowExecution> {
  const { stopped } = scope;
  const answered = new AbortController();
  const { promise: interrupted, reject } = Promise.withResolvers<never>();
  const onInterrupt = (): void => {
    if (!stopped.aborted) abandon(scope, run, 'client gone');
    reject(new Error('interrupted'));
  };
  const signals = [signal, stopped];
  for (const each of signals) each.addEventListener('abort', onInterrupt, { once: true });
  if (signals.some(({ aborted }) => aborted)) onInterrupt();
  try {
    return await Promise.race([interrupted, first(scope, run, mode, answered.signal)]);
  } catch (error) {
    // Whatever else went wrong with it: the run itself is handed on.
    throw stopped.aborted ? stopping(run) : error;
  } finally {
    // `signal` also aborts once the answer is out; by then the run is none of this request's.
    for (const each of signals) each.removeEventListener('abort', onInterrupt);
    answered.abort();
  }
}

async function first(scope: Scope, run: Run, mode: Mode, answered: AbortSignal): Promise<WorkflowExecution> {
  const { created, ended } = run;
  const recorded = recordedInTime(scope, run, answered);
  // Whichever is not waited for in the end may fail as it likes.
  for (const promise of [created, ended, recorded]) promise.catch(() => {});
  if (mode === 'task') return recorded;
  if (mode === 'result') {
    await Promise.race([ended, recorded]);
    return ended;
  }
  const handle = scope.clock.sleep(scope.gracePeriodMs, answered).then(() => recorded);
  handle.catch(() => {});
  return Promise.race([ended, handle]);
}

async function recordedInTime(scope: Scope, run: Run, answered: AbortSignal): Promise<WorkflowExecution> {
  const late = scope.clock.sleep(RECORD_MS, answered).then(() => undefined);
  late.catch(() => {});
  const execution = await Promise.race([run.created, late]);
  if (execution !== undefined) return execution;
  abandon(scope, run, 'not recorded in time');
  const within = formatDuration(RECORD_MS);
  throw unavailable(
    `The Kubernetes API did not record the run within ${within}. It is cancelled should it still come to be; call again later.`,
  );
}

/** Nobody will know this run's id: it does nothing more here, and is cancelled for everyone as soon as it is there. */
function abandon({ runs, namespace, log }: Scope, run: Run, why: string): void {
  log.info({ execution: `${namespace}/${run.id}`, why }, 'cancelling an abandoned run');
  run.abandon();
  run.created
    .then(() => runs.cancel(namespace, run.id))
    .catch((error: unknown) => {
      log.warn({ execution: `${namespace}/${run.id}`, error: describeError(error) }, 'abandoned run not cancelled');
    });
}

function stopping(run: Run): ProtocolError {
  return unavailable(
    `The operator is stopping. The run goes on without this call, as WorkflowExecution ${run.id}; call again for a new one.`,
  );
}

function answerOf({ clock }: Scope, execution: WorkflowExecution): ToolResult | TaskHandle {
  const outcome = outcomeOf(execution);
  switch (outcome?.kind) {
    case undefined:
      return { resultType: 'task', ...taskOf(execution, clock.now()) };
    case 'result':
      return outcome.result;
    case 'cancelled':
      return errorResult(`The run was cancelled: ${outcome.message}`);
    case 'error':
      throw new ProtocolError(outcome.error.code, outcome.error.message, outcome.error.data);
  }
}

type Progress = Parameters<NonNullable<Caller['onProgress']>>[0];

/** Progress only ever increases, and nothing follows the answer (basic/utilities/progress). */
function relayOf({ onProgress }: Caller): { send: (progress: Progress) => void; stop: () => void } | undefined {
  if (onProgress === undefined) return undefined;
  let last = Number.NEGATIVE_INFINITY;
  return {
    send(progress) {
      if (progress.progress <= last) return;
      last = progress.progress;
      onProgress(progress);
    },
    stop() {
      last = Number.POSITIVE_INFINITY;
    },
  };
}
