import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { request } from 'undici';
import type { JsonObject } from '../../src/lib/json.ts';
import { eventually } from '../support/eventually.ts';
import { toolOf } from './memory-world.ts';
import { PROTOCOL, type Scene, startScene, TASKS } from './scene.ts';

interface Listening {
  readonly status: number;
  next(): Promise<JsonObject>;
  /** Resolves when the server has ended the stream. */
  rest(): Promise<JsonObject[]>;
  leave(): void;
}

async function listen(t: TestContext, url: string, notifications: JsonObject, id = 'sub-1'): Promise<Listening> {
  const response = await request(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': PROTOCOL,
      'mcp-method': 'subscriptions/listen',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id,
      method: 'subscriptions/listen',
      params: {
        notifications,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': PROTOCOL,
          'io.modelcontextprotocol/clientCapabilities': { extensions: { [TASKS]: {} } },
        },
      },
    }),
  });
  response.body.on('error', () => {});
  t.after(() => response.body.destroy());
  const messages = messagesOf(response.body);
  return {
    status: response.statusCode,
    async next() {
      const { value } = await messages.next();
      assert.ok(value, 'the stream has ended');
      return value;
    },
    async rest() {
      const all: JsonObject[] = [];
      for await (const message of messages) all.push(message);
      return all;
    },
    leave: () => response.body.destroy(),
  };
}

async function* messagesOf(body: NodeJS.ReadableStream): AsyncGenerator<JsonObject, undefined> {
  for await (const line of createInterface({ input: body })) {
    if (line.startsWith('data: ')) yield JSON.parse(line.slice('data: '.length)) as JsonObject;
  }
}

const subscriptionId = { 'io.modelcontextprotocol/subscriptionId': 'sub-1' };
const acked = (notifications: JsonObject): JsonObject => ({
  jsonrpc: '2.0',
  method: 'notifications/subscriptions/acknowledged',
  params: { notifications, _meta: subscriptionId },
});
const changed = { jsonrpc: '2.0', method: 'notifications/tools/list_changed', params: { _meta: subscriptionId } };

function scene(t: TestContext): Promise<Scene> {
  return startScene(t, [toolOf('a')]);
}

test('tools/list_changed reaches who listens, for its own namespace only', async (t) => {
  const { url, catalog } = await scene(t);
  const stream = await listen(t, url, { toolsListChanged: true });
  assert.deepEqual(await stream.next(), acked({ toolsListChanged: true }));
  catalog.set(toolOf('b', { namespace: 'team-b' }));
  catalog.set(toolOf('c'));
  assert.deepEqual(await stream.next(), changed);
  const other = await listen(t, new URL('/namespaces/team-b/mcp', url).href, { toolsListChanged: true });
  await other.next();
  catalog.set(toolOf('d', { namespace: 'team-b' }));
  assert.deepEqual(await other.next(), changed);
  stream.leave();
  other.leave();
  await eventually(() => assert.equal(catalog.listeners, 0));
});

test('taskIds are not honoured yet: the ack does not list them, and what it lists is served', async (t) => {
  const { url, catalog } = await scene(t);
  const both = await listen(t, url, { toolsListChanged: true, taskIds: ['a'] });
  assert.deepEqual(await both.next(), acked({ toolsListChanged: true }));
  catalog.set(toolOf('b'));
  assert.deepEqual(await both.next(), changed);
  const alone = await listen(t, url, { taskIds: ['a'] });
  assert.deepEqual(await alone.next(), acked({}));
  assert.partialDeepStrictEqual(await alone.rest(), [{ id: 'sub-1', result: { resultType: 'complete' } }]);
});

test('a stop ends subscriptions with their result', async (t) => {
  const { url, endpoint, catalog } = await scene(t);
  const stream = await listen(t, url, { toolsListChanged: true });
  await stream.next();
  const closed = endpoint.close();
  const end = { id: 'sub-1', result: { resultType: 'complete', _meta: subscriptionId } };
  assert.partialDeepStrictEqual(await stream.rest(), [end]);
  await closed;
  assert.equal(catalog.listeners, 0);
});

test('more subscriptions than the limit are refused; one that ends makes room', async (t) => {
  const { url } = await startScene(t, [], { maxSubscriptions: 2 });
  const first = await listen(t, url, { toolsListChanged: true });
  await listen(t, url, { toolsListChanged: true });
  assert.equal((await listen(t, url, { toolsListChanged: true })).status, 503);
  first.leave();
  await eventually(async () => {
    const again = await listen(t, url, { toolsListChanged: true });
    assert.equal(again.status, 200);
  });
});
