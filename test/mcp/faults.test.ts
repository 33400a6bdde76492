import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { CallToolResultV2Schema } from '@modelcontextprotocol/ext-tasks/core/v2';
import { NotFoundError, TooLargeError, UnavailableError } from '../../src/kube/errors.ts';
import type { JsonValue } from '../../src/lib/json.ts';
import { RunLeftError } from '../../src/mcp/errors.ts';
import { type MemoryRun, scaleTool, textOf, toolOf } from './memory-world.ts';
import { post, type Reply, type Scene, startScene, TASKS } from './scene.ts';

/** One test for each row of design §8. */

const TOOL = 'workflow_a';
const SECRET = 'https://db.internal:5432 password=hunter2';
const legacy = (url: string, method: string, params: JsonValue): Promise<Reply> =>
  post(url, { jsonrpc: '2.0', id: 1, method, params });

function scene(t: TestContext): Promise<Scene> {
  return startScene(t, [toolOf(TOOL), scaleTool, toolOf('workflow_task', { taskBehavior: 'always' })], {
    gracePeriodMs: 30_000,
  });
}

test('an unknown tool: -32602', async (t) => {
  const { rpc, url, runs } = await scene(t);
  for (const tasks of [true, false]) {
    const { status, error } = await rpc('tools/call', { name: 'workflow_b', arguments: {} }, { tasks });
    assert.equal(status, 200);
    assert.equal(error.code, -32602);
    assert.match(error.message, /^Unknown tool: workflow_b\./);
  }
  assert.equal((await legacy(url, 'tools/call', { name: 'workflow_b' })).error.code, -32602);
  const { error } = await rpc('tools/call', { name: 'x'.repeat(5_000), arguments: {} });
  assert.ok(error.message.length < 300);
  assert.equal(runs.started.length, 0);
});

test('field case 37 (B): arguments omitted are {}, and null, [] and "x" are -32602', async (t) => {
  const { rpc, url, runs } = await scene(t);
  runs.onStart = (run) => run.succeed(JSON.stringify(run.request.args));
  assert.equal(textOf((await rpc('tools/call', { name: TOOL })).result), '{}');
  assert.equal(textOf((await legacy(url, 'tools/call', { name: TOOL })).result), '{}');
  for (const bad of [null, [], 'x', 7]) {
    const modern = await rpc('tools/call', { name: TOOL, arguments: bad });
    assert.equal(modern.error.code, -32602, JSON.stringify(bad));
    const old = await legacy(url, 'tools/call', { name: TOOL, arguments: bad });
    assert.equal(old.error.code, -32602, JSON.stringify(bad));
  }
  assert.equal(runs.started.length, 2);
});

test('malformed requests: -32602, no inner message', async (t) => {
  const { rpc, url } = await scene(t);
  assert.equal(
    (await rpc('tools/call', { name: 5, arguments: {} }, { headers: { 'mcp-name': '5' } })).error.code,
    -32602,
  );
  assert.equal((await rpc('tools/list', { cursor: 5 })).error.code, -32602);
  assert.equal((await legacy(url, 'tools/list', { cursor: {} })).error.code, -32602);
  const initialize = await legacy(url, 'initialize', { protocolVersion: 5 });
  assert.deepEqual(initialize.error, { code: -32602, message: 'Invalid params for initialize.' });
  const deep = JSON.parse(`${'['.repeat(3_000)}${']'.repeat(3_000)}`);
  const { error } = await rpc('tools/call', { name: 'workflow_scale', arguments: { replicas: deep } });
  assert.equal(error.code, -32602);
  assert.match(error.message, /more than 256 deep/);
});

test('field case 80 (G): arguments that do not fit: isError with every fault and its path, and no run', async (t) => {
  const { rpc, url, runs } = await scene(t);
  for (const replicas of ['3', 1.5, true, null, [3], { n: 3 }]) {
    const { result } = await rpc('tools/call', { name: 'workflow_scale', arguments: { replicas, extra: 1 } });
    assert.equal(result.isError, true);
    assert.equal(textOf(result), 'The arguments do not fit:\n- replicas: must be integer\n- extra: is not known');
    assert.equal(result.structuredContent, undefined);
  }
  const { result } = await legacy(url, 'tools/call', { name: 'workflow_scale', arguments: {} });
  assert.match(textOf(result), /replicas: is required/);
  assert.equal(runs.started.length, 0);
});

test('unknown, foreign and expired task: -32602, one text for all three and for each method', async (t) => {
  const { rpc, runs } = await scene(t);
  const foreign = '00000000-0000-4000-8000-000000000001';
  await rpc('tools/call', { name: 'workflow_task' }, { tasks: true });
  const run = await runs.run();
  const execution = runs.executions.get(run.id);
  assert.ok(execution);
  runs.executions.set(foreign, {
    ...execution,
    metadata: { ...execution.metadata, name: foreign },
    spec: { ...execution.spec, requestedBy: { subject: 'someone-else', via: 'mcp' } },
  });
  run.end({ phase: 'completed', expiresAt: new Date(Date.now() - 1).toISOString() });
  const ids = ['no-such-task', foreign, run.id, '', '../../secrets/a', 'A'.repeat(300), 'ü'];
  const answers = new Set<string>();
  for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update']) {
    for (const taskId of ids) {
      const headers = { 'mcp-name': `=?base64?${Buffer.from(taskId).toString('base64')}?=` };
      const { status, error } = await rpc(method, { taskId, inputResponses: {} }, { tasks: true, headers });
      answers.add(JSON.stringify({ status, error }));
    }
  }
  assert.equal(answers.size, 1, [...answers].join('\n'));
  assert.match([...answers].join(), /"status":200.*"code":-32602.*Task not found/);
});

test('field case 13 (A): tasks/* and listen with taskIds without the extension: -32021, 400, before the id is looked up', async (t) => {
  const { rpc, runs } = await scene(t);
  runs.get = () => assert.fail('the id was looked up');
  const requests: [string, Record<string, JsonValue>][] = [
    ['tasks/get', { taskId: 'unknown' }],
    ['tasks/cancel', { taskId: 'unknown' }],
    ['tasks/update', { taskId: 'unknown', inputResponses: {} }],
    ['subscriptions/listen', { notifications: { taskIds: ['unknown'], toolsListChanged: true } }],
  ];
  for (const [method, params] of requests) {
    const { status, error, messages } = await rpc(method, params);
    assert.equal(status, 400, method);
    assert.equal(error.code, -32021, method);
    assert.deepEqual(error.data, { requiredCapabilities: { extensions: { [TASKS]: {} } } });
    assert.equal(messages[0]?.id, 7);
  }
});

test('2025-era clients have no tasks: tasks/* are unknown methods', async (t) => {
  const { url } = await scene(t);
  assert.equal((await legacy(url, 'tasks/get', { taskId: 'a' })).error.code, -32601);
});

test('a Workflow that is not Ready: isError that names what is missing, and no run; it stays listed', async (t) => {
  const broken = toolOf('workflow_broken', { unavailable: async () => "MCPServer 'docker' is not ready" });
  const { rpc, runs } = await startScene(t, [broken]);
  const { result } = await rpc('tools/call', { name: broken.name });
  assert.equal(result.isError, true);
  assert.equal(textOf(result), "workflow_broken cannot run now: MCPServer 'docker' is not ready");
  assert.equal(runs.started.length, 0);
  const { result: list } = await rpc('tools/list');
  assert.equal((list.tools as unknown[]).length, 1);
});

test('field cases 34 (B), 73 (G): a failed step: isError without structured content', async (t) => {
  const { rpc, runs } = await scene(t);
  const text = "step 'build' failed: docker/build (attempt 3 of 3): Unavailable";
  runs.onStart = (run) =>
    run.end({ phase: 'failed', result: { content: [{ type: 'text', text }], structuredContent: 1, isError: true } });
  const { result } = await rpc('tools/call', { name: TOOL });
  const { _meta, ...rest } = result;
  assert.deepEqual(rest, { resultType: 'complete', content: [{ type: 'text', text }], isError: true });
  assert.doesNotThrow(() => CallToolResultV2Schema.parse(result));
});

test('a run that ends with an error of an upstream: that code and message, never a reserved code', async (t) => {
  const { rpc, runs } = await scene(t);
  const codes = [
    [-32050, -32603],
    [-32021, -32603],
    [-32002, -32603],
    [-32602, -32602],
    [42, 42],
  ] as const;
  for (const [given, seen] of codes) {
    runs.onStart = (run) =>
      run.end({ phase: 'failed', error: { code: given, message: 'docker says no', data: { a: 1 } } });
    const { status, error } = await rpc('tools/call', { name: TOOL });
    assert.equal(status, 200);
    assert.deepEqual(error, { code: seen, message: 'docker says no', data: { a: 1 } });
  }
});

test('a run that is cancelled under a synchronous call: isError that says so', async (t) => {
  const { rpc, runs } = await scene(t);
  runs.onStart = (run) => run.end({ phase: 'cancelled', message: "cancelled on request, after step 'a'" });
  const { result } = await rpc('tools/call', { name: TOOL });
  assert.equal(result.isError, true);
  assert.equal(textOf(result), "The run was cancelled: cancelled on request, after step 'a'");
});

test('the API server away: -32603 that says so, without its address', async (t) => {
  const { rpc, runs } = await scene(t);
  const away = new UnavailableError(SECRET, 503, '', 'none');
  runs.get = async () => {
    throw away;
  };
  runs.onStart = (run) => run.fail(away);
  for (const reply of [
    await rpc('tools/call', { name: TOOL }),
    await rpc('tools/call', { name: TOOL }, { tasks: true }),
    await rpc('tasks/get', { taskId: 'some-task' }, { tasks: true }),
  ]) {
    assert.equal(reply.error.code, -32603);
    assert.match(reply.error.message, /Kubernetes API does not answer/);
    assert.ok(!reply.text.includes('hunter2'));
  }
});

test('arguments too large to be recorded, and an execution deleted meanwhile, are told as what they are', async (t) => {
  const { rpc, runs } = await scene(t);
  runs.onStart = (run) => run.fail(new TooLargeError('etcdserver: request is too large', 413, ''));
  const { result } = await rpc('tools/call', { name: TOOL });
  assert.equal(result.isError, true);
  assert.match(textOf(result), /arguments are too large/);
  runs.onStart = (run) => run.fail(new NotFoundError('not found', 404, 'NotFound'));
  const { error } = await rpc('tools/call', { name: TOOL });
  assert.match(error.message, /WorkflowExecution was deleted/);
});

test('a run that the operator drives no longer: -32603 that says what becomes of it, and no fault in the log', async (t) => {
  const { rpc, runs, logs } = await scene(t);
  runs.onStart = (run) => {
    run.record();
    run.leave(new RunLeftError('WorkflowExecution x: it goes on'));
  };
  const { error } = await rpc('tools/call', { name: TOOL });
  assert.equal(error.code, -32603);
  assert.equal(error.message, 'WorkflowExecution x: it goes on');
  assert.ok(!logs.some(({ level }) => level === 'error'));
});

/** Each way by which something unforeseen may come up. */
const unforeseen: [string, (scene: Scene) => Promise<Reply>][] = [
  ['a run breaks', ({ rpc }) => rpc('tools/call', { name: TOOL })],
  ['a run breaks, the client has tasks', ({ rpc }) => rpc('tools/call', { name: TOOL }, { tasks: true })],
  ['a run breaks, a 2025-era client', ({ url }) => legacy(url, 'tools/call', { name: TOOL })],
  ['a read breaks', ({ rpc }) => rpc('tasks/get', { taskId: 'some-task' }, { tasks: true })],
  ['a cancel breaks', ({ rpc }) => rpc('tasks/cancel', { taskId: 'some-task' }, { tasks: true })],
  ['the catalog breaks', breakCatalog],
];

for (const [what, act] of unforeseen) {
  test(`field case 76 (G): ${what}: -32603 and a correlation id, and only the log has the message`, async (t) => {
    const given = await scene(t);
    const { runs, logs } = given;
    // With a code, as errors of clients have: the SDK would send it on.
    const fault = Object.assign(new Error(SECRET), { code: 409 });
    runs.onStart = (run: MemoryRun) => run.fail(fault);
    runs.get = async () => {
      throw fault;
    };
    const { error, text } = await act(given);
    assert.equal(error.code, -32603);
    assert.match(error.message, /^Internal error/);
    assert.ok(!text.includes('hunter2') && !text.includes('internal:5432'));
    const logged = logs.find(({ level }) => level === 'error');
    assert.match(String(logged?.keys.error), /hunter2/);
    assert.ok(error.message.includes(String(logged?.keys.correlationId)));
  });
}

async function breakCatalog({ rpc, catalog }: Scene): Promise<Reply> {
  catalog.tools = () => {
    throw new Error(SECRET);
  };
  return rpc('tools/list');
}

test('a result that the protocol has no form for is our fault, not that of the client', async (t) => {
  const { rpc, runs, logs } = await scene(t);
  runs.onStart = (run) => run.end({ phase: 'completed', result: { content: [{ type: 'text', text: 5 }] } });
  const { error } = await rpc('tools/call', { name: TOOL });
  assert.equal(error.code, -32603);
  assert.ok(logs.some(({ level, message }) => level === 'error' && message === 'request failed'));
});
