import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { text as textOfStream } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { Client, request } from 'undici';
import { HTTP_OPTIONS } from '../../src/mcp/http-server.ts';
import { textOf, toolOf } from './memory-world.ts';
import { post, type Scene, startScene } from './scene.ts';

const TOOL = 'workflow_a';
const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };

function scene(t: TestContext, options: Parameters<typeof startScene>[2] = {}): Promise<Scene> {
  return startScene(t, [toolOf(TOOL)], options);
}

test('field case 43 (B): Host: loopback, its own address and the configured names, with and without port; others 403 with the reason', async (t) => {
  const { endpoint, url } = await scene(t, {
    host: '127.0.0.2',
    allowedHosts: ['mcp.example.com', 'Convoke.team-a.svc:8080', 'fd00::1'],
  });
  const port = String(endpoint.port);
  const good = ['localhost', '127.0.0.1', '[::1]', '127.0.0.2', 'mcp.example.com', 'convoke.team-a.svc', '[fd00::1]'];
  for (const host of good) {
    for (const header of [host, `${host}:${port}`, `${host.toUpperCase()}:443`]) {
      const { status } = await post(url, ping, { headers: { host: header } });
      assert.equal(status, 200, header);
    }
  }
  for (const host of [
    'evil.com',
    'evil.com:80',
    'localhost.evil.com',
    'a.mcp.example.com',
    '127.0.0.3',
    'mcp.example.com.',
  ]) {
    const { status, error, messages } = await post(url, ping, { headers: { host } });
    assert.equal(status, 403, host);
    assert.equal(messages[0]?.id, null);
    assert.ok(
      error.message.includes(host.replace(/:80$/, '')) && error.message.includes('--allowed-hosts'),
      error.message,
    );
  }
});

test('field case 43 (B): Origin: absent, loopback and configured ones pass; null and others 403 with the reason', async (t) => {
  const { url } = await scene(t, { allowedOrigins: ['app.example.com'] });
  for (const origin of [
    'http://localhost:3000',
    'http://127.0.0.1',
    'https://app.example.com',
    'https://app.example.com:8443',
  ]) {
    assert.equal((await post(url, ping, { headers: { origin } })).status, 200, origin);
  }
  assert.equal((await post(url, ping)).status, 200);
  for (const origin of ['null', 'https://evil.com', 'https://app.example.com.evil.com', 'nonsense']) {
    const { status, error } = await post(url, ping, { headers: { origin } });
    assert.equal(status, 403, origin);
    assert.match(error.message, /Invalid Origin.*--allowed-origins/);
  }
});

test('A.1 3: --auth=none serves on loopback only', async (t) => {
  for (const host of ['0.0.0.0', '::', '10.0.0.1', 'mcp.example.com']) {
    await assert.rejects(scene(t, { host }), { name: 'RangeError', message: /--auth=none.*loopback only: --host=/ });
  }
  for (const host of ['127.0.0.1', 'localhost', '::1']) {
    const { url } = await scene(t, { host });
    assert.equal((await post(url, ping)).status, 200);
  }
});

test('an allowed host that is none is refused at the start, and so is a port that is taken', async (t) => {
  for (const allowedHosts of [['https://a.example.com'], ['a/b'], ['a b']]) {
    await assert.rejects(scene(t, { allowedHosts }), { name: 'RangeError', message: /is not a host name/ });
  }
  const { endpoint } = await scene(t);
  await assert.rejects(scene(t, { port: endpoint.port }), { code: 'EADDRINUSE' });
});

test('paths: /mcp and /namespaces/<name>/mcp; others, and namespaces that are not served, 404', async (t) => {
  const { url } = await scene(t);
  const at = (path: string) => post(new URL(path, url), ping);
  for (const path of ['/mcp', '/mcp?a=b', '/namespaces/team-a/mcp', '/namespaces/a1-b/mcp']) {
    assert.equal((await at(path)).status, 200, path);
  }
  for (const path of ['/', '/mcp/', '/namespaces//mcp', '/namespaces/A/mcp', '/namespaces/a/b/mcp', '/.well-known/x']) {
    const { status, error } = await at(path);
    assert.equal(status, 404, path);
    assert.match(error.message, /the paths are/);
  }
  const elsewhere = await at('/namespaces/elsewhere/mcp');
  assert.equal(elsewhere.status, 404);
  assert.match(elsewhere.error.message, /does not serve the namespace elsewhere/);
});

test('what is no JSON over POST is refused, each with its own answer', async (t) => {
  const { url } = await scene(t);
  for (const method of ['GET', 'DELETE', 'PUT'] as const) {
    const response = await request(url, { method });
    await response.body.dump();
    assert.equal(response.statusCode, 405);
    assert.equal(response.headers.allow, 'POST');
  }
  assert.equal((await post(url, ping, { headers: { 'content-type': 'text/plain' } })).status, 415);
  for (const body of ['', '{', 'null ,']) {
    const { status, error } = await post(url, body);
    assert.equal(status, 400);
    assert.equal(error.code, -32700);
  }
  for (const body of ['null', '5', '"x"', '{}', '[]']) assert.equal((await post(url, body)).status, 400, body);
});

test('a body over 4 MiB: 413 that gives the limit, with and without its length, and no run', async (t) => {
  const { url, runs } = await scene(t);
  const big = JSON.stringify({ ...ping, params: { filler: 'x'.repeat(5_000_000) } });
  const withLength = await post(url, big);
  assert.equal(withLength.status, 413);
  assert.match(withLength.error.message, /4 MiB/);
  const chunks = Array.from({ length: Math.ceil(big.length / 65_536) }, (_, at) =>
    big.slice(at * 65_536, (at + 1) * 65_536),
  );
  const streamed = await request(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: Readable.from(chunks),
  });
  assert.equal(streamed.statusCode, 413);
  assert.match(await textOfStream(streamed.body), /4 MiB/);
  assert.equal(runs.started.length, 0);
});

test('field case 42 (B): Mcp-Name is decoded before it is compared; bad base64 and other names are -32020', async (t) => {
  const { rpc } = await startScene(
    t,
    ['déploy', 'a\r\nb', 'trailing ', '=?base64?eA==?='].map((name) => toolOf(name)),
    {
      gracePeriodMs: 0,
    },
  );
  const encoded = (name: string): string => `=?base64?${Buffer.from(name).toString('base64')}?=`;
  for (const name of ['déploy', 'a\r\nb', 'trailing ', '=?base64?eA==?=']) {
    const { result } = await rpc('tools/call', { name }, { tasks: true, headers: { 'mcp-name': encoded(name) } });
    assert.equal(result?.resultType, 'task', name);
  }
  for (const header of ['=?base64?***?=', encoded('other'), 'other']) {
    const { status, error } = await rpc('tools/call', { name: 'déploy' }, { headers: { 'mcp-name': header } });
    assert.equal(status, 400, header);
    assert.equal(error.code, -32020, header);
  }
});

test('field case 68 (G): no time-out bounds an answer; a request has its own, an idle connection outlasts proxies', () => {
  const server = createServer(HTTP_OPTIONS);
  assert.equal(server.timeout, 0);
  assert.equal(server.requestTimeout, 60_000);
  assert.ok(server.keepAliveTimeout > 60_000);
});

test('field case 78 (G): Nagle is off', () => {
  assert.equal(HTTP_OPTIONS.noDelay, true);
});

test('field cases 29, 30 (B): a synchronous call that takes long is a stream with comments, in both eras', async (t) => {
  const { url, rpc, runs } = await scene(t, { keepAliveMs: 40 });
  const modern = rpc('tools/call', { name: TOOL });
  const legacy = post(url, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: TOOL } });
  const started = [await runs.run(0), await runs.run(1)];
  setTimeout(() => {
    for (const run of started) run.succeed('late');
  }, 300);
  for (const reply of [await modern, await legacy]) {
    assert.equal(reply.status, 200);
    assert.match(String(reply.headers['content-type']), /^text\/event-stream/);
    assert.equal(reply.headers['x-accel-buffering'], 'no');
    assert.ok((reply.text.match(/^: ?keepalive$/gm) ?? []).length >= 2, reply.text);
    assert.equal(textOf(reply.result), 'late');
    assert.equal(reply.messages.length, 1);
  }
});

test('an answer that is there at once is plain JSON with its length', async (t) => {
  const { rpc, runs } = await scene(t);
  runs.onStart = (run) => run.succeed('done');
  const { headers } = await rpc('tools/call', { name: TOOL });
  assert.match(String(headers['content-type']), /^application\/json/);
  assert.ok(Number(headers['content-length']) > 0);
});

test('a client that takes no streams gets its late answer as JSON', async (t) => {
  const { rpc, runs } = await scene(t, { keepAliveMs: 20 });
  const answer = rpc('tools/call', { name: TOOL }, { headers: { accept: 'application/json' } });
  const run = await runs.run();
  setTimeout(() => run.succeed('late'), 100);
  assert.match(String((await answer).headers['content-type']), /^application\/json/);
});

test('progress of a synchronous call: in order, only increasing, nothing behind the answer; none without a token', async (t) => {
  for (const keepAliveMs of [10_000, 20]) {
    const { rpc, runs } = await scene(t, { keepAliveMs });
    const answer = rpc('tools/call', { name: TOOL }, { meta: { progressToken: 'p' } });
    const run = await runs.run();
    const { onProgress } = run.request;
    assert.ok(onProgress);
    await new Promise((resolve) => setTimeout(resolve, 60));
    for (const progress of [1, 1, 0, 2, 2.5]) onProgress({ progress, total: 3, message: `at ${progress}` });
    run.succeed('done');
    await run.ended;
    setImmediate(() => onProgress({ progress: 3 }));
    const { messages } = await answer;
    assert.deepEqual(
      messages.slice(0, -1).map(({ method, params }) => ({ method, params })),
      [1, 2, 2.5].map((progress) => ({
        method: 'notifications/progress',
        params: { progressToken: 'p', progress, total: 3, message: `at ${progress}` },
      })),
    );
    assert.equal(messages.at(-1)?.id, 7);
  }
  const { rpc, runs } = await scene(t);
  const answer = rpc('tools/call', { name: TOOL });
  const run = await runs.run();
  assert.equal(run.request.onProgress, undefined);
  run.succeed('done');
  await answer;
});

test('a run that may become a task reports no progress', async (t) => {
  const { rpc, runs } = await scene(t, { gracePeriodMs: 0 });
  const { messages } = await rpc('tools/call', { name: TOOL }, { tasks: true, meta: { progressToken: 1 } });
  assert.equal(runs.started[0]?.request.onProgress, undefined);
  assert.equal(messages.length, 1);
});

test('a stop lets calls end, refuses what comes on an open connection, and then none is left', async (t) => {
  const { endpoint, url, runs } = await scene(t);
  const dispatcher = new Client(new URL(url).origin);
  t.after(() => dispatcher.destroy());
  const params = { name: TOOL };
  const one = post(url, { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, { dispatcher });
  const first = await runs.run(0);
  const two = post(url, { jsonrpc: '2.0', id: 2, method: 'tools/call', params });
  const second = await runs.run(1);
  const closed = endpoint.close();
  first.succeed('one');
  assert.equal(textOf((await one).result), 'one');
  const late = await post(url, ping, { dispatcher });
  assert.equal(late.status, 503);
  assert.equal(late.headers.connection, 'close');
  second.succeed('two');
  assert.equal(textOf((await two).result), 'two');
  await closed;
  await endpoint.close();
  assert.deepEqual(runs.cancelled, []);
  await assert.rejects(post(url, ping), { code: 'ECONNREFUSED' });
});

test('a stop that a call outlasts answers it, and hands its run on', async (t) => {
  const { endpoint, url, rpc, runs } = await scene(t, { shutdownGraceMs: 100 });
  const modern = rpc('tools/call', { name: TOOL });
  const legacy = post(url, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: TOOL } });
  const started = [await runs.run(0), await runs.run(1)];
  await endpoint.close();
  for (const { error } of [await modern, await legacy]) {
    assert.equal(error.code, -32603);
    assert.match(error.message, /operator is stopping\. The run goes on/);
    assert.ok(started.some(({ id }) => error.message.includes(id)));
  }
  assert.deepEqual(runs.cancelled, []);
});
