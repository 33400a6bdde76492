import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { GetTaskResultV2Schema } from '@modelcontextprotocol/ext-tasks/core/v2';
import type { JsonObject } from '../../src/lib/json.ts';
import type { MemoryRun } from './memory-world.ts';
import { toolOf } from './memory-world.ts';
import { type Reply, type Scene, startScene } from './scene.ts';

const TOOL = 'workflow_a';
const tasks = { tasks: true };

interface TaskScene extends Scene {
  readonly run: MemoryRun;
  readonly taskId: string;
  get(): Promise<JsonObject>;
  ask(method: string, params?: JsonObject): Promise<Reply>;
}

/** A run that has just become a task. */
async function startTask(t: TestContext): Promise<TaskScene> {
  const scene = await startScene(t, [toolOf(TOOL, { taskBehavior: 'always' })]);
  const { result } = await scene.rpc('tools/call', { name: TOOL }, tasks);
  const taskId = result.taskId as string;
  const run = await scene.runs.run();
  const ask = (method: string, params: JsonObject = {}): Promise<Reply> =>
    scene.rpc(method, { taskId, ...params }, tasks);
  return {
    ...scene,
    run,
    taskId,
    ask,
    get: async () => {
      const { result: task } = await ask('tasks/get');
      GetTaskResultV2Schema.parse(task);
      const { _meta, ...rest } = task;
      return rest;
    },
  };
}

test('tasks/get follows a run from its start to its end', async (t) => {
  const { run, get, taskId } = await startTask(t);
  const created = await get();
  assert.partialDeepStrictEqual(created, {
    resultType: 'complete',
    taskId,
    status: 'working',
    statusMessage: 'no step is recorded yet',
    ttlMs: null,
    pollIntervalMs: 1_000,
  });
  run.status({
    phase: 'inprogress',
    steps: [{ id: 'build', phase: 'running', attempt: 1, startedAt: new Date().toISOString() }],
  });
  assert.equal((await get()).statusMessage, "step 1 'build' is running");
  run.succeed('image built', { image: 'a:1' });
  const done = await get();
  assert.equal(done.status, 'completed');
  assert.equal(done.createdAt, created.createdAt);
  assert.ok((done.ttlMs as number) > 0);
  assert.deepEqual(done.result, {
    resultType: 'complete',
    content: [{ type: 'text', text: 'image built' }],
    structuredContent: { image: 'a:1' },
  });
});

test('field case 75 (G): three gets of a finished task are equal', async (t) => {
  const { run, get } = await startTask(t);
  run.succeed('done');
  const first = await get();
  assert.deepEqual(await get(), first);
  assert.deepEqual(await get(), first);
});

test('a run that failed is a completed task with isError, or a failed one with the error', async (t) => {
  const one = await startTask(t);
  one.run.end({ phase: 'failed', message: 'no', result: { content: [{ type: 'text', text: 'no' }], isError: true } });
  assert.partialDeepStrictEqual(await one.get(), {
    status: 'completed',
    statusMessage: 'no',
    result: { resultType: 'complete', isError: true },
  });
  const two = await startTask(t);
  two.run.end({ phase: 'failed', message: 'docker/build: no', error: { code: -32050, message: 'no', data: { a: 1 } } });
  assert.partialDeepStrictEqual(await two.get(), {
    status: 'failed',
    statusMessage: 'docker/build: no',
    error: { code: -32603, message: 'no', data: { a: 1 } },
  });
});

test('field case 3 (A): tasks/cancel, as often as it is asked, is an empty ack, and changes nothing that has ended', async (t) => {
  const working = await startTask(t);
  for (let times = 0; times < 3; times++) {
    const { status, result } = await working.ask('tasks/cancel');
    assert.equal(status, 200);
    const { _meta, ...ack } = result;
    assert.deepEqual(ack, { resultType: 'complete' });
    assert.equal((await working.get()).status, 'cancelled');
  }
  const finished = await startTask(t);
  finished.run.succeed('done');
  const { _meta, ...ack } = (await finished.ask('tasks/cancel')).result;
  assert.deepEqual(ack, { resultType: 'complete' });
  assert.equal((await finished.get()).status, 'completed');
});

test('tasks/update: -32602 without inputResponses; else an empty ack, whatever the keys', async (t) => {
  const { ask, get } = await startTask(t);
  const missing = await ask('tasks/update');
  assert.equal(missing.status, 200);
  assert.equal(missing.error.code, -32602);
  assert.match(missing.error.message, /inputResponses/);
  for (const inputResponses of [{}, { 'approve-1': { action: 'accept', content: { confirm: true } } }]) {
    const { _meta, ...ack } = (await ask('tasks/update', { inputResponses })).result;
    assert.deepEqual(ack, { resultType: 'complete' });
  }
  assert.equal((await get()).status, 'working');
});

test('tasks/list and tasks/result do not exist: -32601, HTTP 404', async (t) => {
  const { ask } = await startTask(t);
  for (const method of ['tasks/list', 'tasks/result']) {
    const { status, error } = await ask(method);
    assert.equal(status, 404);
    assert.equal(error.code, -32601);
  }
});

test('a task stays readable when its Workflow is gone and the extension is advertised no more', async (t) => {
  const { catalog, get } = await startTask(t);
  catalog.remove(TOOL);
  assert.equal((await get()).status, 'working');
});
