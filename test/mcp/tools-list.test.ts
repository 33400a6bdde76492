import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ListToolsResultSchema } from '@modelcontextprotocol/sdk/types.js';
import fc from 'fast-check';
import type { JsonObject } from '../../src/lib/json.ts';
import type { CatalogTool } from '../../src/mcp/ports.ts';
import type { Scope } from '../../src/mcp/scope.ts';
import { listTools } from '../../src/mcp/tools-list.ts';
import { MemoryCatalog, scaleTool, textOf, toolOf } from './memory-world.ts';
import { post, startScene, TASKS } from './scene.ts';

const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_.-]{0,20}$/);

function pagesOf(tools: readonly CatalogTool[], pageSize: number): string[][] {
  const catalog = new MemoryCatalog(tools);
  const scope = { catalog, namespace: 'team-a', pageSize } as Partial<Scope> as Scope;
  const pages: string[][] = [];
  for (let cursor: string | undefined; ; ) {
    const page = listTools(scope, cursor);
    pages.push(page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
    if (cursor === undefined) return pages;
  }
}

test('the pages together are all tools, sorted, each once, and none is empty but an only one', () => {
  fc.assert(
    fc.property(fc.uniqueArray(name, { maxLength: 30 }), fc.integer({ min: 1, max: 7 }), (names, pageSize) => {
      const pages = pagesOf(
        names.map((each) => toolOf(each)),
        pageSize,
      );
      assert.deepEqual(pages.flat(), [...names].sort());
      assert.ok(pages.every((page) => page.length <= pageSize && (page.length > 0 || pages.length === 1)));
    }),
  );
});

test('a cursor goes on behind its tool, though that and others came or went', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(name, { minLength: 3, maxLength: 20 }),
      fc.infiniteStream(fc.boolean()),
      (names, coin) => {
        const catalog = new MemoryCatalog(names.map((each) => toolOf(each)));
        const scope = { catalog, namespace: 'team-a', pageSize: 2 } as Partial<Scope> as Scope;
        const { tools, nextCursor } = listTools(scope, undefined);
        const last = tools.at(-1)?.name ?? '';
        for (const each of names) if (coin.next().value) catalog.remove(each);
        const rest = listTools(scope, nextCursor).tools.map((tool) => tool.name);
        const left = catalog.tools('team-a').map((tool) => tool.name);
        assert.deepEqual(rest, left.filter((each) => each > last).slice(0, 2));
      },
    ),
  );
});

test('any cursor that we did not give: -32602', async (t) => {
  const { rpc } = await startScene(t, [toolOf('a'), toolOf('b'), toolOf('c')], { pageSize: 1 });
  const { result } = await rpc('tools/list');
  const good = result.nextCursor as string;
  for (const cursor of ['', 'x', `${good}=`, `${good} `, good.slice(1), Buffer.from('2:a').toString('base64url')]) {
    const { status, error } = await rpc('tools/list', { cursor });
    assert.equal(status, 200);
    assert.equal(error.code, -32602, cursor);
    assert.match(error.message, /^Invalid cursor/);
  }
  assert.equal((await rpc('tools/list', { cursor: good })).error, undefined);
});

test('field cases 69 (G), 39 (B): every listed tool is one that clients take, and can be called by its name', async (t) => {
  const tools = [
    toolOf('workflow_no-args'),
    scaleTool,
    toolOf('workflow_full', {
      title: 'Full',
      description: 'With everything.',
      annotations: { destructiveHint: true, readOnlyHint: false },
    }),
    toolOf('workflow_down', { unavailable: async () => 'gone' }),
    toolOf(`workflow_${'x'.repeat(55)}`),
  ];
  const { rpc, url } = await startScene(t, tools, { pageSize: 2, gracePeriodMs: 0 });
  const listed: JsonObject[] = [];
  for (let cursor: string | undefined; ; ) {
    const { result } = await rpc('tools/list', cursor === undefined ? {} : { cursor });
    ListToolsResultSchema.parse(result);
    assert.equal(result.cacheScope, 'private');
    assert.equal(result.ttlMs, 5_000);
    listed.push(...(result.tools as JsonObject[]));
    if (typeof result.nextCursor !== 'string') break;
    cursor = result.nextCursor;
  }
  assert.deepEqual(
    listed.map((tool) => tool.name),
    tools.map((tool) => tool.name).sort(),
  );
  for (const tool of listed) assert.equal((tool.inputSchema as JsonObject).type, 'object');
  assert.deepEqual(
    listed.find((tool) => tool.name === 'workflow_full'),
    {
      name: 'workflow_full',
      title: 'Full',
      description: 'With everything.',
      inputSchema: { type: 'object' },
      annotations: { destructiveHint: true, readOnlyHint: false },
    },
  );
  for (const { name: each } of listed) {
    const { error, result } = await rpc('tools/call', { name: each as string, arguments: {} }, { tasks: true });
    assert.equal(error, undefined);
    assert.ok(result.resultType === 'task' || textOf(result) !== '');
  }
  const old = await post(url, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
  assert.equal((old.result.tools as unknown[]).length, 2);
});

test('a namespace has its own tools, and none of another', async (t) => {
  const { rpc } = await startScene(t, [toolOf('a'), toolOf('b', { namespace: 'team-b' })]);
  const namesAt = async (path: string): Promise<unknown[]> =>
    ((await rpc('tools/list', {}, { path })).result.tools as JsonObject[]).map((tool) => tool.name);
  assert.deepEqual(await namesAt('/mcp'), ['a']);
  assert.deepEqual(await namesAt('/namespaces/team-a/mcp'), ['a']);
  assert.deepEqual(await namesAt('/namespaces/team-b/mcp'), ['b']);
  assert.deepEqual(await namesAt('/namespaces/team-c/mcp'), []);
  const { error } = await rpc('tools/call', { name: 'b' }, { path: '/mcp' });
  assert.equal(error.code, -32602);
});

test('a task is one of its namespace', async (t) => {
  const { rpc } = await startScene(t, [toolOf('a', { taskBehavior: 'always' })]);
  const { result } = await rpc('tools/call', { name: 'a' }, { tasks: true });
  const taskId = result.taskId as string;
  assert.equal((await rpc('tasks/get', { taskId }, { tasks: true })).result.status, 'working');
  const elsewhere = await rpc('tasks/get', { taskId }, { tasks: true, path: '/namespaces/team-b/mcp' });
  assert.equal(elsewhere.error.code, -32602);
});

test('server/discover advertises the tasks extension, as {}, while a tool may answer with a task', async (t) => {
  const { rpc, catalog } = await startScene(t, [toolOf('a', { taskBehavior: 'never' })]);
  const capabilities = async (): Promise<JsonObject> =>
    (await rpc('server/discover')).result.capabilities as JsonObject;
  assert.deepEqual(await capabilities(), { tools: { listChanged: true } });
  for (const taskBehavior of ['auto', 'always'] as const) {
    catalog.set(toolOf('b', { taskBehavior }));
    assert.deepEqual(await capabilities(), { tools: { listChanged: true }, extensions: { [TASKS]: {} } });
  }
  catalog.remove('b');
  assert.deepEqual(await capabilities(), { tools: { listChanged: true } });
});

test('a 2025-era client is told of neither extensions nor list changes, which it could not get', async (t) => {
  const { url } = await startScene(t, [toolOf('a')]);
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'old', version: '0' } };
  const { result } = await post(url, { jsonrpc: '2.0', id: 1, method: 'initialize', params });
  assert.deepEqual(result, {
    protocolVersion: '2025-06-18',
    capabilities: { tools: {} },
    serverInfo: { name: 'convoke', version: '1.2.3' },
  });
});
