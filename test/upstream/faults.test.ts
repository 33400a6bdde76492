import assert from 'node:assert/strict';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { startTcpRelay } from '../support/tcp-relay.ts';
import { startUpstream, type UpstreamRequest, type UpstreamServer } from '../support/upstream-server.ts';
import { http, recordingLogger, testUpstreams, textOf } from '../support/upstreams.ts';

const ERAS = ['modern', '2025'] as const;
const isCall = ({ body }: UpstreamRequest): boolean => body?.method === 'tools/call';
/** Nothing that would tell where the server is. */
const ADDRESS = /127\.0\.0\.1|localhost|:\d{4,5}|http:/;
const echo = { handler: () => 'here' };

for (const era of ERAS) {
  test(`field case 24, 76 (B, G): ${era}: a server that dies in the middle of a call leaves its outcome unknown`, async (t) => {
    let executed = 0;
    const server = await startUpstream({
      era,
      tools: {
        die: {
          async handler() {
            executed += 1;
            await server.close();
            return 'never';
          },
        },
      },
    });
    const up = testUpstreams(t);
    up.set('docker', server.url);
    const outcome = await up.call('docker/die');
    assert.equal(outcome.kind, 'unknown');
    assert.equal(outcome.message, 'MCPServer "docker" broke off the connection (tool "die")');
    assert.equal(executed, 1);
    // Field case 72: what we know is said.
    const { ready } = await up.until('docker', (status) => status.ready.status === 'False');
    assert.equal(ready.reason, 'ConnectionFailed');
    assert.equal(up.missing('docker', 'die'), 'MCPServer "docker" cannot be reached');
  });

  test(`${era}: a stream that breaks after progress, before its answer, does not hang`, async (t) => {
    const server = await startUpstream({
      era,
      tools: { work: { handler: async (_, { progress }) => progress(1).then(() => new Promise<string>(() => {})) } },
    });
    t.after(() => server.close());
    const relay = await startTcpRelay(server.port);
    t.after(() => relay.close());
    const up = testUpstreams(t);
    up.set('s', `http://127.0.0.1:${relay.port}/mcp`);
    const outcome = await up.call('s/work', {}, { onProgress: () => relay.cut() });
    assert.equal(outcome.kind, 'unknown');
    assert.match(outcome.message, /^MCPServer "s" broke off its answer/);
  });

  test(`field case 71 (G): ${era}: a server that was down at the start is called as soon as it is there`, async (t) => {
    const first = await startUpstream({ era, tools: { echo } });
    await first.close();
    const up = testUpstreams(t);
    up.set('late', first.url);
    const { ready } = await up.until('late', (status) => status.ready.reason === 'ConnectionFailed');
    assert.match(ready.message, /^cannot be reached: .*ECONNREFUSED/);
    const second = await startUpstream({ era, port: first.port, tools: { echo } });
    t.after(() => second.close());
    if (era === 'modern') assert.equal(await up.reach('late', 'echo'), undefined);
    assert.equal(textOf(await up.call('late/echo')), 'here');
  });

  test(`field case 72 (G): ${era}: one failed call shows a dead server, and the next one finds it again`, async (t) => {
    const first = await startUpstream({ era, tools: { echo } });
    const up = testUpstreams(t);
    up.set('s', first.url);
    assert.equal(textOf(await up.call('s/echo')), 'here');
    await first.close();
    const failed = await up.call('s/echo');
    assert.ok(failed.kind === 'unavailable' || failed.kind === 'unknown');
    assert.doesNotMatch(failed.message, ADDRESS);
    await up.until('s', ({ ready }) => ready.status === 'False');
    assert.equal(up.upstreams.caller.describe('team-a', { server: 's', tool: 'echo' }), undefined);
    const second = await startUpstream({ era, port: first.port, tools: { echo, more: echo } });
    t.after(() => second.close());
    assert.equal(textOf(await up.call('s/echo')), 'here');
    assert.deepEqual(
      up.status('s').tools?.map(({ name }) => name),
      ['echo', 'more'],
    );
  });

  test(`${era}: a server that dies while nobody calls it is noticed by the stream that breaks`, async (t) => {
    const server = await startUpstream({ era, tools: { echo } });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('s', server.url);
    await up.until('s');
    await server.listening();
    await server.close();
    const { ready } = await up.until('s', (status) => status.ready.status === 'False');
    assert.equal(ready.reason, 'ConnectionFailed');
  });

  test(`field case 23 (B): ${era}: a server that is slow to answer delays nobody else`, async (t) => {
    const slow = await startUpstream({ era, tools: { echo } });
    const held: (() => void)[] = [];
    slow.intercept = (_, response) => {
      held.push(() => response.destroy());
      return true;
    };
    t.after(() => slow.close());
    const quick = await startUpstream({ era, tools: { echo } });
    t.after(() => quick.close());
    const up = testUpstreams(t);
    up.set('slow', http(slow.url, { timeout: '300ms' }));
    up.set('quick', quick.url);
    const stop = new AbortController();
    const waiting = up.call('slow/echo', {}, { signal: stop.signal });
    assert.equal(textOf(await up.call('quick/echo')), 'here');
    stop.abort();
    assert.deepEqual(await waiting, { kind: 'aborted' });
    const { ready } = await up.until('slow', (status) => status.ready.reason === 'NotResponding');
    assert.equal(ready.message, 'has not answered for 300ms');
    slow.intercept = undefined;
    assert.equal(textOf(await up.call('slow/echo')), 'here');
  });

  test(`${era}: what HTTP says of a call that failed`, async (t) => {
    const server = await startUpstream({ era, tools: { echo } });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('s', server.url);
    await up.until('s');
    const cases = [
      [429, 'unavailable', 'answered HTTP 429'],
      [503, 'unavailable', 'answered HTTP 503'],
      [403, 'unavailable', 'does not accept the credentials (HTTP 403)'],
      [413, 'unavailable', 'answered HTTP 413'],
      [500, 'unknown', 'answered HTTP 500'],
      [504, 'unknown', 'answered HTTP 504'],
    ] as const;
    for (const [status, kind, text] of cases) {
      answerCalls(server, { status, body: '<html>at 10.0.0.1</html>' });
      assert.deepEqual(await up.call('s/echo'), { kind, message: `MCPServer "s" ${text} (tool "echo")` });
    }
    answerCalls(server, { status: 302, headers: { location: 'http://127.0.0.1:1/mcp' } });
    assert.deepEqual(await up.call('s/echo'), {
      kind: 'unavailable',
      message: 'MCPServer "s" answered HTTP 302 (tool "echo")',
    });
    const json = { 'content-type': 'application/json' };
    for (const body of ['{"jsonrpc":"2.0","id":"call:', '{"jsonrpc":"2.0","id":7,"result":{}}', '[]', '{"no":"rpc"}']) {
      answerCalls(server, { status: 200, headers: json, body });
      const outcome = await up.call('s/echo');
      assert.equal(outcome.kind, 'unknown', body);
      assert.match(outcome.message, /^MCPServer "s" gave (an answer that cannot be read|no answer to the request) \(/);
    }
    answerCalls(server, { status: 200, headers: { 'content-type': 'text/html' }, body: 'hello' });
    assert.equal((await up.call('s/echo')).kind, 'unknown');
    // None of it was the server's death.
    server.intercept = undefined;
    assert.equal(textOf(await up.call('s/echo')), 'here');
    assert.equal(up.status('s').ready.status, 'True');
  });

  test(`field case 32 (B): ${era}: an answer above the limit ends with it named, packed or not`, async (t) => {
    const big = 'x'.repeat(3_000_000);
    const server = await startUpstream({ era, tools: { big: { handler: () => big }, echo } });
    t.after(() => server.close());
    const up = testUpstreams(t, { limitBytes: 1_000_000 });
    up.set('s', server.url);
    const expected = {
      kind: 'unknown',
      message: 'MCPServer "s" gave an answer above the limit of 1000000 bytes (tool "big")',
    };
    assert.deepEqual(await up.call('s/big'), expected);
    const bomb = gzipSync(Buffer.alloc(40_000_000, 32));
    assert.ok(bomb.length < 1_000_000);
    answerCalls(server, {
      status: 200,
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: bomb,
    });
    assert.deepEqual(await up.call('s/big'), expected);
    server.intercept = undefined;
    assert.equal(textOf(await up.call('s/echo')), 'here');
  });
}

test('field case 76 (G): what waits for a server that does not come is told its name, not its address', async (t) => {
  const gone = await startUpstream();
  await gone.close();
  const up = testUpstreams(t);
  up.set('gone', gone.url);
  const [outcome, fault] = await Promise.all([up.call('gone/echo'), up.reach('gone', 'echo')]);
  assert.deepEqual(outcome, { kind: 'unavailable', message: 'MCPServer "gone" cannot be reached (tool "echo")' });
  assert.equal(fault, 'MCPServer "gone" cannot be reached');
  assert.match(up.status('gone').lastError ?? '', /^cannot be reached: .*ECONNREFUSED/);
});

test('an answer that nobody asked for: a task, a question, no tool result', async (t) => {
  const task = { resultType: 'task', taskId: 't1', status: 'working', createdAt: '', lastUpdatedAt: '', ttlMs: null };
  const server = await startUpstream({ tools: { echo } });
  t.after(() => server.close());
  const up = testUpstreams(t);
  up.set('s', server.url);
  await up.until('s');
  answerCallsWith(server, task);
  assert.deepEqual(await up.call('s/echo'), {
    kind: 'protocolError',
    error: {
      code: -32603,
      message: 'MCPServer "s" answered the call of "echo" with a task, which was not asked for',
    },
  });
  answerCallsWith(server, { resultType: 'input_required', inputRequests: {} });
  assert.equal((await up.call('s/echo')).kind, 'protocolError');
  answerCallsWith(server, { resultType: 'complete', content: 'text' });
  assert.deepEqual(await up.call('s/echo'), {
    kind: 'unknown',
    message: 'MCPServer "s" gave an answer that is no tool result (tool "echo")',
  });
});

test('a result without the structured content that was promised is kept, and logged', async (t) => {
  const server = await startUpstream({
    tools: { echo: { ...echo, outputSchema: { type: 'object', required: ['x'] } } },
  });
  t.after(() => server.close());
  const { log, records } = recordingLogger();
  const up = testUpstreams(t, { log });
  up.set('s', server.url);
  assert.equal(textOf(await up.call('s/echo')), 'here');
  assert.ok(records.some(({ level, tool }) => level === 'warn' && tool === 'echo'));
});

function answerCalls(
  server: UpstreamServer,
  { status, headers = {}, body = '' }: { status: number; headers?: Record<string, string>; body?: string | Buffer },
): void {
  server.intercept = (request, response) => {
    if (!isCall(request)) return false;
    response.writeHead(status, headers).end(body);
    return true;
  };
}

function answerCallsWith(server: UpstreamServer, result: object): void {
  server.intercept = (request, response) => {
    if (!isCall(request)) return false;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: request.body?.id, result }));
    return true;
  };
}
