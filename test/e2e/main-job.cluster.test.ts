import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../support/eventually.ts';
import { type Scene, startScene } from './scene.ts';

const gate = Promise.withResolvers<string>();
let scene: Scene;

before(async () => {
  scene = await startScene({
    add: {
      annotations: { readOnlyHint: true },
      handler: ({ a, b }) => ({ content: [], structuredContent: { sum: Number(a) + Number(b) } }),
    },
    slow: { annotations: { readOnlyHint: true }, handler: () => gate.promise },
    hang: {
      handler: (_, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    },
    fail: { handler: () => ({ content: [{ type: 'text', text: 'no disk' }], isError: true }) },
  });
});
after(() => scene?.close());

const args = { a: { type: 'integer', required: true }, b: { type: 'integer', default: 1 } } as const;
const addStep = { id: 'add', tool: 'up/add', args: { a: '${input.a}', b: '${input.b}' } };

test('a Workflow that is applied is a tool; a short call answers in place; the record is that run', async () => {
  await scene.workflow('sum', { description: 'Adds', args, steps: [addStep], output: { sum: '${results.add.sum}' } });
  const tools = await scene.host.tools();
  const tool = tools.find(({ name }) => name === 'workflow_sum');
  assert.equal(tool?.description, 'Adds');
  assert.deepEqual(tool?.inputSchema.required, ['a']);

  const answer = await scene.host.call('workflow_sum', { a: 41 });
  assert.ok('result' in answer);
  assert.deepEqual(answer.result.structuredContent, { sum: 42 });
  assert.deepEqual(answer.result.content, [{ type: 'text', text: '{"sum":42}' }]);

  const { metadata } = await scene.onlyRun('sum');
  const { spec, status } = await scene.ended(metadata.name);
  assert.deepEqual(spec.args, { a: 41, b: 1 }, 'defaults are recorded');
  assert.equal(spec.requestedBy?.via, 'mcp');
  assert.equal(status?.phase, 'completed');
  assert.deepEqual(status?.result?.structuredContent, { sum: 42 });
  assert.equal(status?.steps?.[0]?.phase, 'completed');
  assert.equal(
    status?.revision,
    (
      await scene.workflow('sum', {
        description: 'Adds',
        args,
        steps: [addStep],
        output: { sum: '${results.add.sum}' },
      })
    ).status?.revision,
  );
});

test('a long call answers with a task, which is polled to its end and is the execution of that name', async () => {
  await scene.workflow('long', { steps: [{ id: 'slow', tool: 'up/slow' }] });
  const answer = await scene.host.call('workflow_long', {});
  assert.ok('task' in answer);
  const { taskId } = answer.task;
  const working = await scene.host.task(taskId);
  assert.equal(working.status, 'working');
  assert.equal((await scene.execution(taskId)).spec.workflow, 'long');
  gate.resolve('done');
  const completed = await eventually(async () => {
    const task = await scene.host.task(taskId);
    assert.equal(task.status, 'completed');
    return task as typeof task & { result: unknown };
  });
  assert.deepEqual((completed.result as { content: unknown }).content, [{ type: 'text', text: 'done' }]);
  assert.equal((await scene.ended(taskId)).status?.phase, 'completed');
});

test('field case 75 (G): lastUpdatedAt is that of the record, not of the read', async () => {
  const run = await scene.onlyRun('long');
  const first = await scene.host.task(run.metadata.name);
  await delay(20);
  const second = await scene.host.task(run.metadata.name);
  assert.equal(second.lastUpdatedAt, first.lastUpdatedAt);
});

test('tasks/cancel cancels the call in flight, and the upstream sees it', async () => {
  await scene.workflow('stuck', { steps: [{ id: 'hang', tool: 'up/hang' }] });
  const answer = await scene.host.call('workflow_stuck', {});
  assert.ok('task' in answer);
  const call = await scene.upstream.called('hang');
  const aborted = new Promise((resolve) => call.signal.addEventListener('abort', resolve));
  await scene.host.cancel(answer.task.taskId);
  await aborted;
  const { status, spec } = await scene.ended(answer.task.taskId);
  assert.equal(status?.phase, 'cancelled', JSON.stringify(status));
  assert.equal(spec.cancel, true);
  assert.equal((await scene.host.task(answer.task.taskId)).status, 'cancelled');
  await scene.host.cancel(answer.task.taskId);
  assert.equal((await scene.host.task(answer.task.taskId)).status, 'cancelled');
});

test('kubectl create runs it, kubectl patch cancels it', async () => {
  const name = await scene.create({ workflow: 'sum', args: { a: 1, b: 2 } });
  const { status } = await scene.ended(name);
  assert.deepEqual(status?.result?.structuredContent, { sum: 3 });

  const stuck = await scene.create({ workflow: 'stuck' });
  const call = await scene.upstream.called('hang', 2);
  const aborted = new Promise((resolve) => call.signal.addEventListener('abort', resolve));
  await scene.kubectl(['patch', 'wfe', stuck, '--type=merge', '-p', '{"spec":{"cancel":true}}']);
  await aborted;
  assert.equal((await scene.ended(stuck)).status?.phase, 'cancelled');
  const shown = await scene.kubectl(['get', 'wfe', stuck]);
  assert.match(shown, /stuck +cancelled +hang +\S+ +\S+\n/);
});

test('an execution that cannot begin says why', async () => {
  const wrong = await scene.ended(await scene.create({ workflow: 'sum', args: { a: 'one', c: true } }));
  assert.equal(wrong.status?.reason, 'InvalidArguments');
  assert.match(wrong.status?.message ?? '', /a: must be integer, but is string/);
  assert.match(wrong.status?.message ?? '', /c: is not an argument/);
  const unknown = await scene.ended(await scene.create({ workflow: 'nowhere' }));
  assert.equal(unknown.status?.reason, 'WorkflowNotFound');
});

test('field case 73 (G): a step that answers isError makes the run failed, and an Event says so', async () => {
  await scene.workflow('failing', {
    taskBehavior: 'never',
    steps: [
      { id: 'fail', tool: 'up/fail' },
      { id: 'nap', sleep: '1s' },
    ],
  });
  const answer = await scene.host.call('workflow_failing', {});
  assert.ok('result' in answer);
  assert.equal(answer.result.isError, true);
  assert.match(answer.result.content?.[0]?.text ?? '', /'fail' \(up\/fail\).*no disk/s);
  const run = await scene.onlyRun('failing');
  const { status } = await scene.ended(run.metadata.name);
  assert.equal(status?.phase, 'failed');
  assert.equal(status?.steps?.[0]?.phase, 'failed');
  await eventually(async () => {
    const events = await scene.kubectl([
      'get',
      'events',
      '--field-selector',
      `involvedObject.name=${run.metadata.name}`,
    ]);
    assert.match(events, /Warning +StepFailed/);
  });
});

test('a run that is deleted is stopped', async () => {
  const name = await scene.create({ workflow: 'stuck' });
  const call = await scene.upstream.called('hang', 3);
  const aborted = new Promise((resolve) => call.signal.addEventListener('abort', resolve));
  await scene.kubectl(['delete', 'wfe', name]);
  await aborted;
});

test('field case 67 (G): a client that leaves its synchronous call: the run ends cancelled, at the upstream and in the record', async () => {
  await scene.workflow('abandoned', { taskBehavior: 'never', steps: [{ id: 'hang', tool: 'up/hang' }] });
  const leave = new AbortController();
  const left = fetch(scene.operator.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'workflow_abandoned' } }),
    signal: leave.signal,
  }).then((response) => response.text());
  const call = await scene.upstream.called('hang', 4);
  const aborted = new Promise((resolve) => call.signal.addEventListener('abort', resolve));
  leave.abort();
  await assert.rejects(left);
  await aborted;
  const { metadata } = await scene.onlyRun('abandoned');
  const { spec, status } = await scene.ended(metadata.name);
  assert.equal(spec.cancel, true);
  assert.equal(status?.phase, 'cancelled');
  assert.ok(status?.finishedAt);
});

test('a finished execution is deleted when its time is over, and then its task is unknown', async () => {
  await scene.workflow('brief', { ttlAfterFinished: '1s', steps: [{ id: 'nap', sleep: '10ms' }] });
  const name = await scene.create({ workflow: 'brief' });
  await eventually(async () => {
    const left = await scene.kubectl(['get', 'wfe', '-o', 'name']);
    assert.ok(!left.includes(name));
  });
  await assert.rejects(scene.host.task(name), /-32602|not found|unknown/i);
});

test('healthz and readyz answer, and other paths do not', async () => {
  const status = async (path: string): Promise<number> => (await fetch(`${scene.operator.healthUrl}${path}`)).status;
  assert.deepEqual([await status('/healthz'), await status('/readyz'), await status('/')], [200, 200, 404]);
});
