import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { textOf, toolOf } from './memory-world.ts';
import { post, startScene } from './scene.ts';

/** Needs no cluster, but more than a minute: beside the tests that are slow anyway. */
test('field case 68 (G): a synchronous run of 70 s is delivered, to clients of both eras', async (t) => {
  const { url, runs } = await startScene(t, [toolOf('workflow_a', { taskBehavior: 'never' })]);
  runs.onStart = (run) => {
    run.record();
    setTimeout(() => run.succeed('after 70 s'), 70_000);
  };
  const client = new Client({ name: 'new', version: '0' }, { versionNegotiation: { mode: 'auto' } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  t.after(() => client.close());
  const [modern, legacy] = await Promise.all([
    client.callTool({ name: 'workflow_a' }, { timeout: 90_000 }),
    post(url, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'workflow_a' } }),
  ]);
  assert.equal(textOf(modern), 'after 70 s');
  assert.equal(textOf(legacy.result), 'after 70 s');
  assert.deepEqual(runs.cancelled, []);
});
