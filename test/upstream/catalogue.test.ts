import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import test from 'node:test';
import { eventually } from '../support/eventually.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { startUpstream, type UpstreamServer } from '../support/upstream-server.ts';
import { recordingLogger, testUpstreams, textOf } from '../support/upstreams.ts';

const echo = { handler: (args: object) => JSON.stringify(args) };

for (const era of ['modern', '2025'] as const) {
  test(`${era}: a change of the tools is heard; hashes change with what matters`, async (t) => {
    const server = await startUpstream({ era, tools: { a: echo, b: echo } });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('s', server.url);
    const before = await up.until('s');
    await server.listening();
    await server.setTools({
      a: { ...echo, description: 'new words' },
      b: { ...echo, annotations: { readOnlyHint: true } },
      c: echo,
    });
    const after = await up.until('s', ({ tools }) => tools?.length === 3);
    assert.equal(after.tools?.[0]?.hash, before.tools?.[0]?.hash);
    assert.notEqual(after.tools?.[1]?.hash, before.tools?.[1]?.hash);
    assert.equal(up.missing('s', 'c'), undefined);
    await server.setTools({ c: echo });
    await up.until('s', ({ tools }) => tools?.length === 1);
    assert.equal(up.missing('s', 'a'), 'MCPServer "s" has no tool "a"');
  });

  test(`field case 35 (B): ${era}: odd schemas and entries cost no other tool, and no ref is followed`, async (t) => {
    const fetched: string[] = [];
    const remote = createServer((request, response) => {
      fetched.push(String(request.url));
      response.end('{}');
    });
    remote.listen(0, '127.0.0.1');
    await once(remote, 'listening');
    t.after(() => remote.close());
    const at = `http://127.0.0.1:${(remote.address() as AddressInfo).port}/schema.json`;
    const recursive = { type: 'object', properties: { child: { $ref: '#' } } };
    const server = await startUpstream({
      era,
      tools: {
        dangling: { ...echo, inputSchema: { type: 'object', properties: { x: { $ref: '#/$defs/none' } } } },
        recursive: { ...echo, inputSchema: recursive, outputSchema: recursive },
        remote: { ...echo, inputSchema: { type: 'object', properties: { x: { $ref: at } } } },
        nullSchema: { ...echo, inputSchema: null },
        textSchema: { ...echo, inputSchema: 'object', outputSchema: 7 },
        notObject: { ...echo, inputSchema: { type: 'array' } },
        badHeader: {
          ...echo,
          inputSchema: { type: 'object', properties: { x: { type: 'object', 'x-mcp-header': 'X' } } },
        },
        [`long${'g'.repeat(300)}`]: echo,
        good1: echo,
        good2: echo,
      },
    });
    t.after(() => server.close());
    const { log, records } = recordingLogger();
    const up = testUpstreams(t, { log });
    up.set('s', server.url);
    const status = await up.until('s');
    const names = ['dangling', 'good1', 'good2', 'notObject', 'nullSchema', 'recursive', 'remote', 'textSchema'];
    assert.deepEqual(
      status.tools?.map(({ name }) => name),
      names,
    );
    for (const name of names) {
      assert.equal(textOf(await up.call(`s/${name}`, { x: 1 })), '{"x":1}', name);
    }
    const describe = (tool: string) => up.upstreams.caller.describe('team-a', { server: 's', tool });
    assert.deepEqual(describe('recursive')?.inputSchema, recursive);
    assert.deepEqual(describe('nullSchema')?.inputSchema, { type: 'object' });
    assert.deepEqual(fetched, []);
    assert.match(status.ready.message, /^8 tools; .*; 1 more in the log$/);
    assert.equal(records.filter(({ message }) => message === 'upstream tool list').length, 4);
  });
}

test('tools that change unheard are found by reading the list now and then', async (t) => {
  const clock = createFakeClock();
  const server = await startUpstream({ era: '2025', tools: { a: echo } });
  server.intercept = ({ method }, response) => {
    if (method !== 'GET') return false;
    response.writeHead(405).end();
    return true;
  };
  t.after(() => server.close());
  const up = testUpstreams(t, { clock });
  up.set('s', server.url);
  await up.until('s');
  await server.setTools({ b: echo });
  for (let probe = 1; probe < 10; probe += 1) {
    await clock.advance(30_000);
    await eventually(() => assert.equal(count(server, 'ping'), probe));
  }
  await clock.advance(30_000);
  const { tools } = await up.until('s', (status) => status.tools?.[0]?.name === 'b');
  assert.equal(tools?.length, 1);
});

test('arguments that a tool wants in headers are sent there too', async (t) => {
  const server = await startUpstream({
    tools: {
      query: {
        ...echo,
        inputSchema: {
          type: 'object',
          properties: {
            region: { type: 'string', 'x-mcp-header': 'Region' },
            page: { type: 'object', properties: { size: { type: 'integer', 'x-mcp-header': 'Size' } } },
          },
        },
      },
    },
  });
  t.after(() => server.close());
  const up = testUpstreams(t);
  up.set('s', server.url);
  await up.call('s/query', { region: 'Zürich', page: { size: 7 } });
  const { headers } = server.requests.find(({ body }) => body?.method === 'tools/call') ?? {};
  assert.equal(headers?.['mcp-param-region'], `=?base64?${Buffer.from('Zürich').toString('base64')}?=`);
  assert.equal(headers?.['mcp-param-size'], '7');
});

function count(server: UpstreamServer, method: string): number {
  return server.requests.filter(({ body }) => body?.method === method).length;
}
