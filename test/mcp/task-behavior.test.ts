import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { CreateTaskResultV2Schema } from '@modelcontextprotocol/ext-tasks/core/v2';
import type { TaskBehavior } from '../../src/api/workflow.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { textOf, toolOf } from './memory-world.ts';
import { post, type Reply, type Scene, startScene, TASKS } from './scene.ts';

/** Design §2: what answers a call, by the Workflow's `taskBehavior` and what this request declares. */

const TOOL = 'workflow_a';
const call = { name: TOOL, arguments: {} };

function scene(t: TestContext, taskBehavior: TaskBehavior, gracePeriodMs = 200): Promise<Scene> {
  return startScene(t, [toolOf(TOOL, { taskBehavior })], { gracePeriodMs });
}

function legacyCall(url: string): Promise<Reply> {
  return post(url, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: call });
}

test('never: a result, whatever the client declares', async (t) => {
  const { rpc, runs } = await scene(t, 'never', 0);
  for (const tasks of [true, false]) {
    runs.onStart = (run) => {
      run.record();
      setTimeout(() => run.succeed('done'), 50);
    };
    const { result } = await rpc('tools/call', call, { tasks });
    assert.equal(result.resultType, 'complete');
    assert.equal(textOf(result), 'done');
  }
});

test('auto, declared, ends within the grace period: a result', async (t) => {
  const { rpc, runs } = await scene(t, 'auto', 30_000);
  runs.onStart = (run) => run.succeed('done', { a: 1 });
  const { result } = await rpc('tools/call', call, { tasks: true });
  assert.partialDeepStrictEqual(result, { resultType: 'complete', structuredContent: { a: 1 } });
});

test('auto, declared, goes on beyond it: a task', async (t) => {
  const { rpc, runs } = await scene(t, 'auto', 20);
  const { result } = await rpc('tools/call', call, { tasks: true });
  assert.partialDeepStrictEqual(result, { resultType: 'task', taskId: runs.started[0]?.id, status: 'working' });
  assert.deepEqual(runs.cancelled, []);
});

test('auto, not declared: a result, however long it takes', async (t) => {
  const { rpc, runs } = await scene(t, 'auto', 0);
  const answer = rpc('tools/call', call);
  const run = await runs.run();
  setTimeout(() => run.succeed('late'), 300);
  assert.equal(textOf((await answer).result), 'late');
});

test('always, declared: a task, though the run has ended by then', async (t) => {
  const { rpc, runs } = await scene(t, 'always');
  runs.onStart = (run) => run.succeed('done');
  const { result } = await rpc('tools/call', call, { tasks: true });
  assert.equal(result.resultType, 'task');
  const task = await rpc('tasks/get', { taskId: result.taskId as string }, { tasks: true });
  assert.equal(task.result.status, 'completed');
});

test('always, not declared: -32021 that names the extension, HTTP 400, and no run', async (t) => {
  const { rpc, runs } = await scene(t, 'always');
  const { status, error } = await rpc('tools/call', call);
  assert.equal(status, 400);
  assert.equal(error.code, -32021);
  assert.deepEqual(error.data, { requiredCapabilities: { extensions: { [TASKS]: {} } } });
  assert.equal(runs.started.length, 0);
});

test('always, a 2025-era client: isError that says so, and no run', async (t) => {
  const { url, runs } = await scene(t, 'always');
  const { status, result } = await legacyCall(url);
  assert.equal(status, 200);
  assert.equal(result.isError, true);
  assert.match(textOf(result), /always answers with a task.*2026-07-28.*io\.modelcontextprotocol\/tasks/);
  assert.equal(runs.started.length, 0);
});

test('auto and never, a 2025-era client: a result', async (t) => {
  for (const behavior of ['auto', 'never'] as const) {
    const { url, runs } = await scene(t, behavior, 0);
    const answer = legacyCall(url);
    (await runs.run()).succeed('done', [1, 2]);
    const { result } = await answer;
    assert.equal(textOf(result), 'done');
    // Until 2025-11-25 structured content had to be an object.
    assert.deepEqual(result.structuredContent, { result: [1, 2] });
    assert.equal(result.resultType, undefined);
  }
});

test('field case 11 (A): a CreateTaskResult is flat, fits the ext-tasks schema and has no content key', async (t) => {
  const { rpc } = await scene(t, 'always');
  const { result } = await rpc('tools/call', call, { tasks: true });
  const { _meta, ...handle } = result;
  assert.deepEqual(CreateTaskResultV2Schema.parse(handle), handle);
  assert.ok(!('content' in result) && !('task' in result) && !('result' in result));
  assert.ok((handle.pollIntervalMs as number) >= 1000);
  assert.deepEqual(_meta, { 'io.modelcontextprotocol/serverInfo': { name: 'convoke', version: '1.2.3' } });
});

test('a task handle is given only when the API server has acknowledged the run', async (t) => {
  const { rpc, runs } = await scene(t, 'always');
  runs.onStart = () => {};
  let isAnswered = false;
  const answer = rpc('tools/call', call, { tasks: true }).finally(() => {
    isAnswered = true;
  });
  const run = await runs.run();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(isAnswered, false);
  run.record();
  assert.equal((await answer).result.taskId, run.id);
});

test('an auto run that ends while its create is slow: the result', async (t) => {
  const { rpc, runs } = await scene(t, 'auto', 0);
  runs.onStart = () => {};
  const answer = rpc('tools/call', call, { tasks: true });
  const run = await runs.run();
  setTimeout(() => run.succeed('done'), 50);
  assert.equal((await answer).result.resultType, 'complete');
});

test('an API server that acknowledges nothing: -32603 after 10 s, and the run is cancelled if it comes to be', async (t) => {
  for (const [behavior, tasks] of [
    ['auto', true],
    ['always', true],
    ['never', false],
  ] as const) {
    const clock = createFakeClock(Date.now());
    const { rpc, runs } = await startScene(t, [toolOf(TOOL, { taskBehavior: behavior })], { clock });
    runs.onStart = () => {};
    const answer = rpc('tools/call', call, { tasks });
    const run = await runs.run();
    await clock.advance(9_999);
    const early = await Promise.race([answer, Promise.resolve('nothing yet')]);
    assert.equal(early, 'nothing yet');
    await clock.advance(1);
    const { error } = await answer;
    assert.equal(error.code, -32603);
    assert.match(error.message, /did not record the run within 10s/);
    assert.deepEqual(runs.cancelled, []);
    run.record();
    await runs.untilCancelled(run.id);
  }
});
