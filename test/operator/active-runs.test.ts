import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WORKFLOW_EXECUTION } from '../../src/api/constants.ts';
import type { ToolAnnotations, WorkflowSpec } from '../../src/api/workflow.ts';
import type { WorkflowExecution } from '../../src/api/workflow-execution.ts';
import { ForbiddenError } from '../../src/kube/errors.ts';
import { systemIds } from '../../src/lib/ids.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { RunLeftError } from '../../src/mcp/errors.ts';
import type { Run } from '../../src/mcp/ports.ts';
import { ActiveRuns } from '../../src/operator/active-runs.ts';
import { createRunStore } from '../../src/operator/run-store.ts';
import { createTool } from '../../src/operator/workflow-tool.ts';
import { planWorkflow } from '../../src/workflow/plan.ts';
import type { ToolOutcome } from '../../src/workflow/ports.ts';
import { createFakeClock, settle } from '../support/fake-clock.ts';
import { MemoryResource } from './memory-resource.ts';

const DONE: ToolOutcome = { kind: 'result', result: { content: [{ type: 'text', text: 'done' }] } };

function scene(annotations: ToolAnnotations = {}) {
  const client = new MemoryResource<WorkflowExecution>(WORKFLOW_EXECUTION);
  const clock = createFakeClock();
  const stop = new AbortController();
  const broken: string[] = [];
  const calls: string[] = [];
  let answer: (signal: AbortSignal) => Promise<ToolOutcome> = async () => DONE;
  const observe = (execution: WorkflowExecution): void => void client.store.observe(execution);
  const runs = new ActiveRuns(
    {
      executions: client.store,
      client,
      observe,
      store: createRunStore({ client, observe, clock, log: silentLogger }),
      tools: {
        describe: () => ({ inputSchema: {}, annotations }),
        call: ({ tool }, signal) => {
          calls.push(tool);
          return answer(signal);
        },
      },
      recordEvent: () => {},
      onBroken: (key) => broken.push(key),
      onLeft: () => {},
      runner: 'me',
      clock,
      ids: systemIds,
      log: silentLogger,
    },
    stop.signal,
  );
  return {
    client,
    clock,
    runs,
    broken,
    calls,
    setAnswer: (to: typeof answer) => {
      answer = to;
    },
    start(steps: WorkflowSpec['steps']): Run {
      const spec: WorkflowSpec = { args: { a: { type: 'integer' } }, steps };
      const planned = planWorkflow('w', spec);
      assert.ok('plan' in planned);
      const tool = createTool({
        workflow: { apiVersion: '', kind: '', metadata: { name: 'w', namespace: 'n' }, spec },
        revision: 'w-1',
        plan: planned.plan,
        missing: () => undefined,
        reach: async () => undefined,
      });
      const run = runs.start({ tool, args: { a: 1 }, subject: 'alice' });
      run.ended.catch(() => {});
      return run;
    },
  };
}

const two = [
  { id: 'one', tool: 'up/one' },
  { id: 'two', tool: 'up/two' },
];

test('the object of a run says who asked for what, its revision, and the first step when that has effects', async () => {
  for (const [annotations, firstStep] of [
    [{}, 'one'],
    [{ readOnlyHint: true }, undefined],
  ] as const) {
    const { start } = scene(annotations);
    const { metadata, spec } = await start(two).created;
    assert.deepEqual(spec, { workflow: 'w', args: { a: 1 }, requestedBy: { subject: 'alice', via: 'mcp' } });
    assert.deepEqual(metadata.labels, { 'convoke.dev/workflow': 'w' });
    assert.deepEqual(metadata.annotations, {
      'convoke.dev/revision': 'w-1',
      ...(firstStep !== undefined && { 'convoke.dev/first-step': firstStep }),
    });
  }
});

test('a run is active until its end is recorded', async () => {
  const { start, runs, clock } = scene();
  const run = start(two);
  assert.notEqual(runs.active(`n/${run.id}`), undefined);
  await clock.advance(2_000);
  assert.equal((await run.ended).status?.phase, 'completed');
  assert.equal((await runs.get('n', run.id))?.status?.phase, 'completed');
  assert.equal(runs.active(`n/${run.id}`), undefined);
});

test('get reads live what the store has not seen, and undefined when there is none', async () => {
  const { client, runs } = scene();
  const made = client.put({
    apiVersion: '',
    kind: '',
    metadata: { name: 'x', namespace: 'n' },
    spec: { workflow: 'w' },
  });
  client.store.apply({ type: 'DELETED', object: made });
  assert.equal(client.store.size, 0);
  assert.equal((await runs.get('n', 'x'))?.metadata.name, 'x');
  assert.equal(await runs.get('n', 'y'), undefined);
});

test('cancel patches once, reaches the run at once, and leaves alone what has ended or is not there', async () => {
  const { start, runs, client, setAnswer } = scene();
  let aborted = false;
  setAnswer(
    (signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          aborted = true;
          resolve({ kind: 'aborted' });
        });
      }),
  );
  const run = start(two);
  await run.created;
  await settle();
  await runs.cancel('n', run.id);
  assert.ok(aborted);
  assert.equal((await run.ended).status?.phase, 'cancelled');
  await runs.cancel('n', run.id);
  await runs.cancel('n', 'nobody');
  assert.equal(client.writes.filter((write) => write === `patch n/${run.id}`).length, 1);
});

test('a run that is abandoned before it is recorded: its first step is not called, and its record says cancelled', async () => {
  const { start, client, calls, clock } = scene();
  const gate = Promise.withResolvers<void>();
  const create = client.create.bind(client);
  client.create = async (execution) => {
    await gate.promise;
    return create(execution);
  };
  const run = start(two);
  run.abandon();
  gate.resolve();
  await clock.advance(2_000);
  assert.equal((await run.ended).status?.phase, 'cancelled');
  assert.equal((await client.get('n', run.id)).status?.phase, 'cancelled');
  assert.deepEqual(calls, []);
});

test('drain: the call in flight ends and is recorded, no step begins, and the caller learns that the run goes on', async () => {
  const { start, runs, client, calls, setAnswer } = scene();
  const gate = Promise.withResolvers<ToolOutcome>();
  setAnswer(() => gate.promise);
  const run = start(two);
  await run.created;
  await settle();
  const drained = runs.drain();
  gate.resolve(DONE);
  await drained;
  assert.deepEqual(calls, ['one']);
  const { status } = await client.get('n', run.id);
  assert.deepEqual(
    status?.steps?.map(({ id, phase }) => [id, phase]),
    [['one', 'completed']],
  );
  await assert.rejects(run.ended, (error) => {
    assert.ok(error instanceof RunLeftError);
    assert.match(error.message, new RegExp(`^WorkflowExecution ${run.id}: .*goes on`));
    return true;
  });
  assert.equal(runs.active(`n/${run.id}`), undefined);
});

test('a run whose write is refused for good breaks off, says so once, and is given back', async () => {
  const { start, runs, client, broken, clock } = scene();
  client.refuse = (verb) => (verb === 'replaceStatus' ? new ForbiddenError('no right', 403, 'Forbidden') : undefined);
  const run = start(two);
  await clock.advance(2_000);
  await assert.rejects(run.ended, ForbiddenError);
  assert.deepEqual(broken, [`n/${run.id}`]);
  assert.equal(runs.active(`n/${run.id}`), undefined);
});
