import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { type Scene, startScene } from './scene.ts';

let scene: Scene | undefined;
afterEach(() => scene?.close());
after(() => {});

const effects = {
  first: { handler: () => 'first' },
  second: { handler: () => 'second' },
};

test('kill -9 in the middle of a call with effects: the run ends as Interrupted, the call was made once', async () => {
  const never = new Promise<string>(() => {});
  scene = await startScene({ ...effects, second: { handler: () => never } });
  await scene.workflow('two', {
    steps: [
      { id: 'one', tool: 'up/first' },
      { id: 'two', tool: 'up/second' },
      { id: 'three', tool: 'up/first' },
    ],
  });
  const answer = await scene.host.call('workflow_two', {});
  assert.ok('task' in answer);
  await scene.upstream.called('second');
  await scene.operator.kill();
  await scene.restart();
  const { status } = await scene.ended(answer.task.taskId);
  assert.equal(status?.phase, 'failed');
  assert.equal(status?.reason, 'Interrupted');
  assert.deepEqual(
    scene.upstream.calls.map(({ tool }) => tool),
    ['first', 'second'],
  );
  const task = await scene.host.task(answer.task.taskId);
  assert.equal(task.status, 'completed', 'a step that failed is a result with isError, not a failed task');
});

test('field case 79 (G): kill -9 between two steps with effects: it goes on after the last recorded one', async () => {
  scene = await startScene(effects);
  await scene.workflow('pause', {
    steps: [
      { id: 'one', tool: 'up/first' },
      { id: 'nap', sleep: '3s' },
      { id: 'two', tool: 'up/second' },
    ],
  });
  const answer = await scene.host.call('workflow_pause', {});
  assert.ok('task' in answer);
  const { taskId } = answer.task;
  const { execution, operator } = scene;
  for (;;) {
    const { status } = await execution(taskId);
    if (status?.steps?.some(({ id, phase }) => id === 'nap' && phase === 'running')) break;
  }
  await operator.kill();
  await scene.restart();
  const { status } = await scene.ended(taskId);
  assert.equal(status?.phase, 'completed');
  assert.deepEqual(
    scene.upstream.calls.map(({ tool }) => tool),
    ['first', 'second'],
  );
  const keys = scene.upstream.calls.map(({ key }) => key);
  assert.ok(keys.every((key) => key?.includes(taskId)));
});

test('kill -9 in the middle of a call that may be repeated: it is repeated, and the run completes', async () => {
  let calls = 0;
  const never = new Promise<string>(() => {});
  scene = await startScene({
    read: { annotations: { readOnlyHint: true }, handler: () => (++calls === 1 ? never : 'read') },
  });
  await scene.workflow('reading', { steps: [{ id: 'read', tool: 'up/read' }] });
  const answer = await scene.host.call('workflow_reading', {});
  assert.ok('task' in answer);
  await scene.upstream.called('read');
  await scene.operator.kill();
  await scene.restart();
  const { status } = await scene.ended(answer.task.taskId);
  assert.equal(status?.phase, 'completed');
  assert.equal(calls, 2);
  assert.deepEqual(status?.result?.content, [{ type: 'text', text: 'read' }]);
});

test('a run outlives its Workflow: it ends on the revision it began with, which is then deleted', async () => {
  scene = await startScene(effects);
  const spec = {
    steps: [
      { id: 'nap', sleep: '4s' },
      { id: 'one', tool: 'up/first' },
    ],
  };
  await scene.workflow('gone', spec);
  const name = await scene.create({ workflow: 'gone' });
  const { execution, kubectl } = scene;
  for (;;) if ((await execution(name)).status?.phase === 'inprogress') break;
  await kubectl(['delete', 'wf', 'gone']);
  await scene.operator.kill();
  await scene.restart();
  assert.equal((await scene.ended(name)).status?.phase, 'completed');
  assert.equal((await scene.host.tools()).length, 0);
  for (;;) if ((await kubectl(['get', 'controllerrevisions', '-o', 'name'])) === '') break;
});

test('a graceful stop lets the call in flight end and records it; the next operator goes on with the next step', async () => {
  const gate = Promise.withResolvers<string>();
  scene = await startScene({ ...effects, first: { handler: () => gate.promise } });
  await scene.workflow('handed', {
    steps: [
      { id: 'one', tool: 'up/first' },
      { id: 'two', tool: 'up/second' },
    ],
  });
  const answer = await scene.host.call('workflow_handed', {});
  assert.ok('task' in answer);
  await scene.upstream.called('first');
  const stopped = scene.operator.stop();
  setTimeout(() => gate.resolve('late'), 500);
  assert.equal(await stopped, 0, JSON.stringify(scene.operator.logs.slice(-8)));
  const left = await scene.execution(answer.task.taskId);
  assert.equal(left.status?.phase, 'inprogress');
  assert.deepEqual(
    left.status?.steps?.map(({ id, phase }) => [id, phase]),
    [['one', 'completed']],
  );
  await scene.restart();
  assert.equal((await scene.ended(answer.task.taskId)).status?.phase, 'completed');
  assert.deepEqual(
    scene.upstream.calls.map(({ tool }) => tool),
    ['first', 'second'],
  );
});
