import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Agent, request } from 'undici';
import { eventually } from '../support/eventually.ts';
import { toolOf } from './memory-world.ts';
import { type LogRecord, post, type Scene, startScene } from './scene.ts';

const TOOL = 'workflow_a';
const tools = [toolOf(TOOL), toolOf('workflow_task', { taskBehavior: 'always' })];

/** Each way by which a client leaves a synchronous call. */
const ways: [string, (scene: Scene, started: Promise<unknown>) => Promise<unknown>][] = [
  [
    'aborts, 2026-07-28',
    async ({ rpc }, started) => {
      const leave = new AbortController();
      const answer = rpc('tools/call', { name: TOOL }, { signal: leave.signal });
      await started;
      leave.abort();
      await assert.rejects(answer);
    },
  ],
  [
    'aborts, 2025-era',
    async ({ url }, started) => {
      const leave = new AbortController();
      const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: TOOL } };
      const answer = post(url, body, { signal: leave.signal });
      await started;
      leave.abort();
      await assert.rejects(answer);
    },
  ],
  [
    'destroys its socket',
    async ({ endpoint }, started) => {
      const socket = connect(endpoint.port, '127.0.0.1');
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: TOOL } });
      const head = ['POST /mcp HTTP/1.1', 'Host: localhost', 'Content-Type: application/json'];
      const more = ['Accept: application/json, text/event-stream', `Content-Length: ${body.length}`];
      socket.write(`${[...head, ...more].join('\r\n')}\r\n\r\n${body}`);
      await started;
      socket.resetAndDestroy();
    },
  ],
  [
    'closes its connection, SDK 1.x',
    async ({ url }, started) => {
      const client = new LegacyClient({ name: 'old', version: '0' });
      await client.connect(new LegacyTransport(new URL(url)) as Parameters<typeof client.connect>[0]);
      const answer = client.callTool({ name: TOOL });
      await started;
      await client.close();
      await assert.rejects(answer);
    },
  ],
];

for (const [what, leave] of ways) {
  test(`field case 67 (G): the client of a synchronous call ${what}: its run is cancelled, and goes on to its record`, async (t) => {
    const scene = await startScene(t, tools);
    await leave(scene, scene.runs.run());
    const run = await scene.runs.run();
    await scene.runs.untilCancelled(run.id);
    assert.equal(scene.runs.executions.get(run.id)?.status?.phase, 'cancelled');
    assert.deepEqual(scene.runs.cancelled, [run.id]);
    assert.ok(!scene.logs.some(({ level }) => level === 'error' || level === 'warn'));
  });
}

/** The endpoint has seen so many clients leave. */
async function abandoned(logs: readonly LogRecord[], count: number): Promise<void> {
  await eventually(() => {
    assert.equal(logs.filter(({ message }) => message === 'cancelling an abandoned run').length, count);
  });
}

test('field case 67 (G): a DELETE ends no run: there are no sessions', async (t) => {
  const { url, rpc, runs } = await startScene(t, tools);
  const answer = rpc('tools/call', { name: TOOL });
  const run = await runs.run();
  const deleted = await request(url, { method: 'DELETE' });
  await deleted.body.dump();
  assert.equal(deleted.statusCode, 405);
  run.succeed('done');
  assert.equal((await answer).result.isError, undefined);
  assert.deepEqual(runs.cancelled, []);
});

test('a client that leaves before its run is recorded: cancelled once it is', async (t) => {
  const { rpc, runs, logs } = await startScene(t, tools);
  runs.onStart = () => {};
  const leave = new AbortController();
  const answer = rpc('tools/call', { name: TOOL }, { signal: leave.signal });
  const run = await runs.run();
  leave.abort();
  await assert.rejects(answer);
  await abandoned(logs, 1);
  assert.ok(run.abandoned);
  assert.deepEqual(runs.cancelled, []);
  run.record();
  await runs.untilCancelled(run.id);
});

test('a client that leaves while its task handle is not decided: cancelled, since it never learns the id', async (t) => {
  const { rpc, runs, logs } = await startScene(t, tools, { gracePeriodMs: 60_000 });
  for (const [index, name] of [TOOL, 'workflow_task'].entries()) {
    runs.onStart = () => {};
    const leave = new AbortController();
    const answer = rpc('tools/call', { name }, { tasks: true, signal: leave.signal });
    const run = await runs.run(index);
    leave.abort();
    await assert.rejects(answer);
    await abandoned(logs, index + 1);
    run.record();
    await runs.untilCancelled(run.id);
  }
});

test('a client that has its task handle may leave: the task goes on', async (t) => {
  const { endpoint, runs } = await startScene(t, tools);
  const dispatcher = new Agent();
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
  };
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'workflow_task' };
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'workflow_task', _meta } };
  const { result } = await post(endpoint.url, body, { headers, dispatcher });
  assert.equal(result.resultType, 'task');
  await dispatcher.destroy();
  await post(endpoint.url, { jsonrpc: '2.0', id: 1, method: 'ping' });
  assert.deepEqual(runs.cancelled, []);
});

test('a client that leaves in the middle of its request is no fault of ours', async (t) => {
  const { endpoint, url, runs, logs } = await startScene(t, tools);
  const socket = connect(endpoint.port, '127.0.0.1');
  socket.write(
    'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"jsonrpc"',
  );
  await once(socket, 'ready');
  await post(url, { jsonrpc: '2.0', id: 1, method: 'ping' });
  socket.resetAndDestroy();
  await once(socket, 'close');
  await post(url, { jsonrpc: '2.0', id: 1, method: 'ping' });
  assert.equal(runs.started.length, 0);
  assert.ok(!logs.some(({ level }) => level === 'error'));
});
