import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, type TaskEnabledSession } from '@modelcontextprotocol/ext-tasks/client';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { JsonObject } from '../../src/lib/json.ts';
import { scaleTool, textOf, toolOf } from './memory-world.ts';
import { PROTOCOL, post, type Scene, startScene, TASKS } from './scene.ts';

/** The clients that people have: SDK 2.x, ext-tasks on it, SDK 1.x, and one of an old protocol. */

const TOOL = 'workflow_a';
const tools = [toolOf(TOOL), scaleTool, toolOf('workflow_task', { taskBehavior: 'always' })];

function scene(t: TestContext): Promise<Scene> {
  return startScene(t, tools, { gracePeriodMs: 50 });
}

async function connectModern(t: TestContext, url: string, capabilities: JsonObject = {}): Promise<Client> {
  const client = new Client({ name: 'new', version: '0' }, { capabilities, versionNegotiation: { mode: 'auto' } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  t.after(() => client.close());
  return client;
}

test('SDK 2.x: discovers, lists, calls, sees progress, and is told what does not fit', async (t) => {
  const { url, runs } = await scene(t);
  const client = await connectModern(t, url);
  assert.equal(client.getProtocolEra(), 'modern');
  assert.deepEqual(client.getServerCapabilities()?.extensions, { [TASKS]: {} });
  const listed = await client.listTools();
  assert.deepEqual(
    listed.tools.map(({ name }) => name),
    [TOOL, 'workflow_scale', 'workflow_task'],
  );
  const seen: number[] = [];
  const answer = client.callTool(
    { name: TOOL, arguments: { app: 'shop' } },
    { onprogress: ({ progress }) => seen.push(progress) },
  );
  const run = await runs.run();
  assert.deepEqual(run.request.args, { app: 'shop' });
  run.request.onProgress?.({ progress: 1, total: 2 });
  run.succeed('done', { image: 'a:1' });
  assert.partialDeepStrictEqual(await answer, {
    content: [{ type: 'text', text: 'done' }],
    structuredContent: { image: 'a:1' },
  });
  assert.deepEqual(seen, [1]);
  const refused = await client.callTool({ name: 'workflow_scale', arguments: { replicas: 'many' } });
  assert.equal(refused.isError, true);
  await assert.rejects(client.callTool({ name: 'workflow_task' }), { code: -32021 });
});

test('SDK 2.x: a listening client hears of a new tool', async (t) => {
  const { url, catalog } = await scene(t);
  const client = await connectModern(t, url);
  const heard = Promise.withResolvers<void>();
  client.setNotificationHandler('notifications/tools/list_changed', () => heard.resolve());
  const subscription = await client.listen({ toolsListChanged: true });
  catalog.set(toolOf('workflow_new'));
  await heard.promise;
  const listed = await client.listTools();
  assert.ok(listed.tools.some(({ name }) => name === 'workflow_new'));
  await subscription.close();
});

/** The wiring of a task session: what the SDK's codecs refuse goes out by a lane of its own. */
async function startSession(t: TestContext, url: string): Promise<TaskEnabledSession> {
  const clientCapabilities = { extensions: { [TASKS]: {} } };
  const client = await connectModern(t, url, clientCapabilities);
  let id = 0;
  return createTaskSessionFromClient(client, {
    endpointId: 'convoke',
    v2RequestFraming: {
      protocolVersion: PROTOCOL,
      clientInfo: { name: 'tasks', version: '0' },
      clientCapabilities,
    },
    rawDispatch: async (request, options) => {
      const { method, params } = request as { method: string; params: JsonObject };
      const headers = new Headers({ 'mcp-protocol-version': PROTOCOL, 'mcp-method': method });
      headers.set('mcp-name', String(params.name ?? params.taskId));
      for (const [name, value] of Object.entries(options?.context?.headers ?? {})) headers.set(name, value);
      const body = { jsonrpc: '2.0', id: ++id, method, params };
      const { error, result } = await post(url, body, { headers: Object.fromEntries(headers) });
      return error === undefined ? { kind: 'result', result } : { kind: 'error', error };
    },
  });
}

test('ext-tasks: a run that ends at once is immediate; a longer one becomes a task and settles with its result', async (t) => {
  const { url, runs } = await scene(t);
  const session = await startSession(t, url);
  runs.onStart = (run) => run.succeed('at once');
  const immediate = await session.callTool(TOOL, {});
  assert.equal(immediate.kind, 'immediate');
  runs.onStart = (run) => run.record();
  const execution = await session.callTool(TOOL, {});
  assert.equal(execution.kind, 'task');
  const run = await runs.run(1);
  setTimeout(() => run.succeed('later', { image: 'a:1' }), 100);
  const { outcome } = await execution.settle();
  assert.equal(outcome.status, 'completed');
  assert.equal(textOf(outcome.result), 'later');
});

test('ext-tasks: a failed step settles as a result that is an error, an error of an upstream as failed', async (t) => {
  const { url, runs } = await scene(t);
  const session = await startSession(t, url);
  const failing = await session.callTool('workflow_task', {});
  (await runs.run(0)).end({ phase: 'failed', result: { content: [{ type: 'text', text: 'no' }], isError: true } });
  assert.partialDeepStrictEqual((await failing.settle()).outcome, { status: 'completed', result: { isError: true } });
  const broken = await session.callTool('workflow_task', {});
  (await runs.run(1)).end({ phase: 'failed', error: { code: 7, message: 'no', data: { a: 1 } } });
  const { outcome } = await broken.settle();
  assert.equal(outcome.status, 'failed');
  const { code, data } = outcome.error;
  assert.deepEqual({ code, data }, { code: 7, data: { a: 1 } });
});

test('ext-tasks: a task that is cancelled settles as cancelled', async (t) => {
  const { url, runs } = await scene(t);
  const session = await startSession(t, url);
  const execution = await session.callTool('workflow_task', {});
  assert.equal(execution.kind, 'task');
  const settled = execution.settle();
  await execution.cancel();
  assert.equal((await settled).outcome.status, 'cancelled');
  assert.deepEqual(runs.cancelled, [runs.started[0]?.id]);
});

test('SDK 1.x (2025-11-25): lists, calls, sees progress, never gets a task', async (t) => {
  const { url, runs } = await scene(t);
  const client = new LegacyClient({ name: 'old', version: '0' });
  await client.connect(new LegacyTransport(new URL(url)) as Parameters<typeof client.connect>[0]);
  t.after(() => client.close());
  assert.deepEqual(client.getServerCapabilities(), { tools: {} });
  assert.equal((await client.listTools()).tools.length, 3);
  const seen: number[] = [];
  const answer = client.callTool({ name: TOOL }, undefined, { onprogress: ({ progress }) => seen.push(progress) });
  const run = await runs.run();
  run.request.onProgress?.({ progress: 0.5 });
  // Longer than the grace period: this client has no other way than to wait.
  setTimeout(() => run.succeed('done', { image: 'a:1' }), 200);
  assert.partialDeepStrictEqual(await answer, {
    content: [{ type: 'text', text: 'done' }],
    structuredContent: { image: 'a:1' },
  });
  assert.deepEqual(seen, [0.5]);
  const only = await client.callTool({ name: 'workflow_task' });
  assert.equal(only.isError, true);
  await assert.rejects(client.callTool({ name: 'workflow_none' }), { code: -32602 });
});

test('field case 14 (A): a client of 2025-03-26 gets the result itself, with progress, and no handle', async (t) => {
  const { url, runs } = await scene(t);
  const headers = { 'mcp-protocol-version': '2025-03-26' };
  const initialize = await post(url, {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'older', version: '0' } },
  });
  assert.equal(initialize.result.protocolVersion, '2025-03-26');
  assert.equal((await post(url, { jsonrpc: '2.0', method: 'notifications/initialized' }, { headers })).status, 202);
  const params = { name: TOOL, arguments: {}, task: { ttl: 1000 }, _meta: { progressToken: 'p' } };
  const answer = post(url, { jsonrpc: '2.0', id: 2, method: 'tools/call', params }, { headers });
  const run = await runs.run();
  run.request.onProgress?.({ progress: 1 });
  setTimeout(() => run.succeed('done'), 200);
  const { result, messages } = await answer;
  assert.deepEqual(
    messages.map(({ method }) => method),
    ['notifications/progress', undefined],
  );
  assert.deepEqual(result, { content: [{ type: 'text', text: 'done' }] });
});
