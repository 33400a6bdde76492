import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONTROLLER_REVISION, WORKFLOW, WORKFLOW_EXECUTION } from '../../src/api/constants.ts';
import type { ControllerRevision } from '../../src/api/controller-revision.ts';
import type { Workflow } from '../../src/api/workflow.ts';
import type { WorkflowExecution, WorkflowExecutionStatus } from '../../src/api/workflow-execution.ts';
import { toTimestamp } from '../../src/lib/clock.ts';
import { systemIds } from '../../src/lib/ids.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { ActiveRuns } from '../../src/operator/active-runs.ts';
import { createExecutionReconciler } from '../../src/operator/execution-reconciler.ts';
import { createRunStore } from '../../src/operator/run-store.ts';
import { WorkflowCatalog } from '../../src/operator/workflow-catalog.ts';
import { createFakeClock, settle } from '../support/fake-clock.ts';
import { MemoryResource } from './memory-resource.ts';

function scene() {
  const executions = new MemoryResource<WorkflowExecution>(WORKFLOW_EXECUTION);
  const workflows = new MemoryResource<Workflow>(WORKFLOW);
  const revisions = new MemoryResource<ControllerRevision>(CONTROLLER_REVISION);
  const clock = createFakeClock();
  const events: string[] = [];
  const ended: string[] = [];
  let missing: string | undefined;
  const observe = (execution: WorkflowExecution): void => void executions.store.observe(execution);
  const recordEvent = (_: unknown, type: string, reason: string): void => void events.push(`${type} ${reason}`);
  const stop = new AbortController();
  const runs = new ActiveRuns(
    {
      executions: executions.store,
      client: executions,
      observe,
      store: createRunStore({ client: executions, observe, clock, log: silentLogger }),
      tools: { describe: () => undefined, call: async () => ({ kind: 'result', result: { content: [] } }) },
      recordEvent,
      onBroken: () => {},
      onLeft: () => {},
      runner: 'me',
      clock,
      ids: systemIds,
      log: silentLogger,
    },
    stop.signal,
  );
  const reconcile = createExecutionReconciler({
    executions: executions.store,
    workflows: workflows.store,
    revisions: revisions.store,
    client: executions,
    revisionClient: revisions,
    catalog: new WorkflowCatalog(() => true),
    runs,
    recordEvent,
    missing: () => missing,
    startedAt: clock.now(),
    onEnd: (namespace, workflow) => ended.push(`${namespace}/${workflow}`),
    clock,
  });
  return {
    executions,
    workflows,
    clock,
    events,
    ended,
    runs,
    setMissing: (what: string | undefined) => {
      missing = what;
    },
    look: () => reconcile('n/run', stop.signal),
    put: (status?: WorkflowExecutionStatus, annotations: Record<string, string> = {}) =>
      executions.put({
        apiVersion: 'convoke.dev/v1alpha1',
        kind: 'WorkflowExecution',
        metadata: { name: 'run', namespace: 'n', annotations, creationTimestamp: toTimestamp(clock.now()) },
        spec: { workflow: 'w' },
        ...(status !== undefined && { status }),
      }),
    keep: (steps: ControllerRevision['data']['spec']['steps']) =>
      revisions.put({
        apiVersion: 'apps/v1',
        kind: 'ControllerRevision',
        metadata: { name: 'w-1', namespace: 'n' },
        data: { spec: { steps } },
        revision: 1,
      }),
    status: () => executions.store.get('n', 'run')?.status,
  };
}

const pinned = { 'convoke.dev/revision': 'w-1' };

test('a run without a Workflow waits ten seconds for it, then fails and says so', async () => {
  const { put, look, status, clock, events } = scene();
  put();
  assert.deepEqual(await look(), { after: 200 });
  await clock.advance(9_000);
  assert.deepEqual(await look(), { after: 200 });
  await clock.advance(1_000);
  assert.equal(await look(), 'done');
  const { phase, reason, result, finishedAt, expiresAt } = status() ?? {};
  assert.deepEqual([phase, reason, result?.isError], ['failed', 'WorkflowNotFound', true]);
  assert.equal(Date.parse(expiresAt ?? '') - Date.parse(finishedAt ?? ''), 7 * 24 * 3_600_000);
  assert.deepEqual(events, ['Warning WorkflowNotFound']);
});

test('a run of a Workflow that is not accepted fails with the reason; before it is judged, it waits', async () => {
  const { put, look, status, workflows } = scene();
  put();
  const workflow = workflows.put({
    apiVersion: 'convoke.dev/v1alpha1',
    kind: 'Workflow',
    metadata: { name: 'w', namespace: 'n', generation: 2 },
    spec: { steps: [] },
  });
  assert.deepEqual(await look(), { after: 200 });
  const condition = { type: 'Accepted', status: 'False', reason: 'Invalid', lastTransitionTime: '' } as const;
  workflows.put({
    ...workflow,
    status: { conditions: [{ ...condition, message: 'no steps', observedGeneration: 2 }] },
  });
  assert.equal(await look(), 'done');
  assert.equal(status()?.reason, 'InvalidWorkflow');
  assert.match(status()?.message ?? '', /no steps/);
});

test('a run whose revision is gone ends with what is known: its step interrupted, its real duration', async () => {
  const { put, look, status, clock } = scene();
  const startedAt = toTimestamp(clock.now());
  const step = { id: 'a', phase: 'running', attempt: 1, startedAt } as const;
  put({ phase: 'inprogress', startedAt, revision: 'w-1', steps: [step] });
  await clock.advance(90_000);
  assert.equal(await look(), 'done');
  const ended = status();
  assert.equal(ended?.reason, 'WorkflowNotFound');
  assert.equal(ended?.duration, '1m30s');
  assert.equal(ended?.startedAt, startedAt);
  assert.deepEqual(
    ended?.steps?.map(({ phase, reason }) => [phase, reason]),
    [['failed', 'Interrupted']],
  );
});

test('a fresh operator waits for servers to connect, for 15 s at most, before it takes a run up', async () => {
  const { put, keep, look, runs, clock, setMissing } = scene();
  keep([{ id: 'a', tool: 'up/t' }]);
  put(undefined, pinned);
  setMissing('MCPServer "up" is not connected yet');
  assert.deepEqual(await look(), { after: 200 });
  assert.equal(runs.active('n/run'), undefined);
  await clock.advance(15_000);
  assert.equal(await look(), 'done');
  assert.notEqual(runs.active('n/run'), undefined);
  await clock.advance(1_000);
});

test('a run is taken up, driven to its end and deleted when its time is over', async () => {
  const { put, keep, look, status, ended, executions, clock } = scene();
  keep([{ id: 'nap', sleep: '5s' }]);
  put(undefined, pinned);
  assert.equal(await look(), 'done');
  await clock.advance(1_000);
  assert.equal(await look(), 'done');
  assert.equal(status()?.runner?.id, 'me');
  await clock.advance(5_000);
  assert.equal(status()?.phase, 'completed');
  const outcome = await look();
  assert.ok(outcome !== 'done' && outcome.after > 6 * 24 * 3_600_000);
  assert.deepEqual(ended, ['n/w']);
  await clock.advance(outcome.after);
  assert.equal(await look(), 'done');
  assert.equal(executions.store.size, 0);
  assert.ok(executions.writes.includes('delete n/run'));
});

for (const [what, remove] of [
  ['deleted', (scene_: ReturnType<typeof scene>) => scene_.executions.delete('n', 'run')],
  [
    'being deleted',
    async (scene_: ReturnType<typeof scene>) => {
      const run = await scene_.executions.get('n', 'run');
      scene_.executions.put({ ...run, metadata: { ...run.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } });
    },
  ],
] as const) {
  test(`a run that is ${what} is driven no longer`, async () => {
    const each = scene();
    each.keep([{ id: 'nap', sleep: '1h' }]);
    each.put(undefined, pinned);
    await each.look();
    await each.clock.advance(1_000);
    assert.notEqual(each.runs.active('n/run'), undefined);
    await remove(each);
    assert.equal(await each.look(), 'done');
    await settle();
    assert.equal(each.runs.active('n/run'), undefined);
    assert.equal(each.clock.sleepers, 0);
  });
}
