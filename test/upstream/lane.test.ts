import assert from 'node:assert/strict';
import test from 'node:test';
import { InMemoryTransport, type JSONRPCMessage } from '@modelcontextprotocol/client';
import { failure } from '../../src/upstream/failure.ts';
import { type Answer, Lane } from '../../src/upstream/lane.ts';

const ENVELOPE = { protocolVersion: '2026-07-28', clientInfo: { name: 'convoke', version: '1' } };

/** A lane, and the far end of its transport. */
async function connect(envelope?: typeof ENVELOPE) {
  const [near, far] = InMemoryTransport.createLinkedPair();
  const lane = new Lane({ transport: near, envelope, limitBytes: 1_000 });
  const sent: JSONRPCMessage[] = [];
  const others: JSONRPCMessage[] = [];
  near.onmessage = (message) => void (lane.take(message) || others.push(message));
  far.onmessage = (message) => void sent.push(message);
  await Promise.all([near.start(), far.start()]);
  return { lane, far, sent, others };
}

test('field case 68 (G): a call is waited for as long as its caller does', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const { lane, far, sent } = await connect();
  let answer: Answer | undefined;
  const request = lane.request({ method: 'tools/call' }, new AbortController().signal).then((each) => {
    answer = each;
  });
  t.mock.timers.tick(24 * 3_600_000);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(answer, undefined);
  assert.equal(sent.length, 1);
  await far.send({ jsonrpc: '2.0', id: 'call:1', result: { content: [] } });
  await request;
  assert.deepEqual(answer, { kind: 'result', result: { content: [] } });
});

test('only what is its own is taken from the transport', async () => {
  const { lane, far, others } = await connect();
  const seen: unknown[] = [];
  const { signal } = new AbortController();
  const request = lane.request({ method: 'x', onProgress: (progress) => void seen.push(progress) }, signal);
  const theirs: JSONRPCMessage[] = [
    { jsonrpc: '2.0', id: 1, result: {} },
    { jsonrpc: '2.0', id: 'listen:0', result: {} },
    { jsonrpc: '2.0', id: 'call:1', method: 'ping' },
    { jsonrpc: '2.0', method: 'notifications/tools/list_changed' },
    { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 1, progress: 1 } },
  ];
  const ours: JSONRPCMessage[] = [
    { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 'call:1', progress: 1, total: 'x' } },
    { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 'call:1', progress: 'half' } },
    { jsonrpc: '2.0', id: 'call:99', result: {} },
    { jsonrpc: '2.0', id: 'call:1', error: { code: 5, message: 'no' } },
  ];
  for (const message of [...theirs, ...ours]) await far.send(message);
  assert.deepEqual(await request, { kind: 'error', error: { code: 5, message: 'no' } });
  assert.deepEqual(others, theirs);
  assert.deepEqual(seen, [{ progress: 1 }]);
  assert.equal(lane.pending, 0);
});

test('a 2026-07-28 request says who asks; an abort tells the server of a transport that has no streams', async () => {
  const { lane, sent } = await connect(ENVELOPE);
  const stop = new AbortController();
  const request = lane.request({ method: 'tools/call', params: { name: 'x', _meta: { key: 'k' } } }, stop.signal);
  stop.abort();
  assert.deepEqual(await request, { kind: 'aborted' });
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'convoke', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const [call, cancelled] = sent;
  assert.deepEqual(call, {
    jsonrpc: '2.0',
    id: 'call:1',
    method: 'tools/call',
    params: { name: 'x', _meta: { ...meta, key: 'k' } },
  });
  assert.deepEqual(cancelled, {
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: 'call:1', reason: 'cancelled', _meta: meta },
  });
  assert.deepEqual(await lane.request({ method: 'x' }, stop.signal), { kind: 'aborted' });
  assert.equal(sent.length, 2);
});

test('a transport that is gone fails what is open, and lets go of who waits for its end', async () => {
  const { lane } = await connect();
  const gone = failure('broken', 'ConnectionClosed', 'ended before it answered');
  const { signal } = new AbortController();
  const requests = [lane.request({ method: 'a' }, signal), lane.request({ method: 'b' }, signal)];
  const idle = new Promise<void>((resolve) => lane.whenIdle(resolve));
  lane.fail(gone);
  await idle;
  assert.deepEqual(await Promise.all(requests), [
    { kind: 'failure', failure: gone },
    { kind: 'failure', failure: gone },
  ]);
  await new Promise<void>((resolve) => lane.whenIdle(resolve));
});
