import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import test from 'node:test';
import { createFakeClock } from '../support/fake-clock.ts';
import { startTcpRelay } from '../support/tcp-relay.ts';
import { startUpstream, type UpstreamRequest, type UpstreamServer } from '../support/upstream-server.ts';
import { http, testUpstreams, textOf } from '../support/upstreams.ts';

const echo = { handler: () => 'here' };

test('field case 22, 25 (B): twenty calls at the moment the server forgets the session are each carried out once', async (t) => {
  const options = { era: '2025', tools: { work: { handler: (args: object) => JSON.stringify(args) } } } as const;
  const server = await startUpstream(options);
  const other = await startUpstream(options);
  t.after(() => Promise.all([server.close(), other.close()]));
  const up = testUpstreams(t);
  up.set('s', server.url);
  up.set('other', other.url);
  await Promise.all([up.until('s'), up.until('other')]);
  const before = up.changes.length;
  server.forgetSessions();
  const numbers = Array.from({ length: 20 }, (_, n) => n);
  const outcomes = await Promise.all(numbers.map((n) => up.call('s/work', { n })));
  assert.deepEqual(
    outcomes.map(textOf),
    numbers.map((n) => JSON.stringify({ n })),
  );
  assert.deepEqual(
    server.calls.map(({ args }) => Number(args.n)).sort((a, b) => a - b),
    numbers,
  );
  const handshakes = (which: UpstreamServer): number => which.requests.filter(isInitialize).length;
  assert.equal(handshakes(server), 2);
  assert.equal(handshakes(other), 1);
  // It was never said to be gone: all that changed is when it last connected.
  assert.equal(up.status('s').ready.status, 'True');
  assert.ok(up.changes.length - before <= 1);
});

test('a call that runs when its session is lost brings its result all the same', async (t) => {
  const gate = Promise.withResolvers<string>();
  const server = await startUpstream({ era: '2025', tools: { slow: { handler: () => gate.promise }, echo } });
  t.after(() => server.close());
  const up = testUpstreams(t);
  up.set('s', server.url);
  const running = up.call('s/slow');
  await server.called('slow');
  server.forgetSessions();
  assert.equal(textOf(await up.call('s/echo')), 'here');
  gate.resolve('done');
  assert.equal(textOf(await running), 'done');
});

test('field case 21 (B): a server that answers 400 about sessions again and again is not ready, and says why', async (t) => {
  const server = await startUpstream({ era: '2025', tools: { echo } });
  t.after(() => server.close());
  const up = testUpstreams(t);
  up.set('s', server.url);
  await up.until('s');
  server.intercept = ({ body }, response) => {
    if (body?.method !== 'tools/call') return false;
    const error = { code: -32000, message: 'Bad Request: No valid session ID provided' };
    response.writeHead(400, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', error, id: body.id }));
    return true;
  };
  const outcome = await up.call('s/echo');
  assert.deepEqual(outcome, {
    kind: 'unavailable',
    message: 'MCPServer "s" does not know the session it was called with (tool "echo")',
  });
  const { ready } = await up.until('s', (status) => status.ready.status === 'False');
  assert.equal(ready.reason, 'SessionLost');
  server.intercept = undefined;
  assert.equal(textOf(await up.call('s/echo')), 'here');
});

for (const era of ['modern', '2025'] as const) {
  test(`${era}: a server that falls silent is noticed by the next probe, and found again`, async (t) => {
    const clock = createFakeClock();
    const server = await startUpstream({ era, tools: { echo } });
    t.after(() => server.close());
    const relay = await startTcpRelay(server.port);
    t.after(() => relay.close());
    const up = testUpstreams(t, { clock });
    up.set('s', http(`http://127.0.0.1:${relay.port}/mcp`, { timeout: '500ms' }));
    await up.until('s');
    relay.freeze('all');
    await clock.advance(30_000);
    const { ready } = await up.until('s', (status) => status.ready.status === 'False');
    assert.deepEqual(ready, { status: 'False', reason: 'NotResponding', message: 'has not answered for 500ms' });
    relay.thaw();
    await clock.advance(30_000);
    await up.until('s');
    assert.equal(textOf(await up.call('s/echo')), 'here');
  });

  test(`${era}: another spec connects anew; what runs on the old one ends there`, async (t) => {
    const gate = Promise.withResolvers<string>();
    const old = await startUpstream({ era, tools: { slow: { handler: () => gate.promise } } });
    const next = await startUpstream({ era, tools: { echo } });
    t.after(() => Promise.all([old.close(), next.close()]));
    const up = testUpstreams(t);
    up.set('s', old.url);
    const running = up.call('s/slow');
    await old.called('slow');
    const { lastConnected } = up.status('s');
    up.set('s', old.url);
    assert.equal(up.status('s').ready.status, 'True', 'the same spec changes nothing');
    assert.equal(up.status('s').lastConnected, lastConnected);
    up.set('s', next.url);
    assert.equal(up.missing('s', 'slow'), 'MCPServer "s" is not connected yet');
    assert.equal(textOf(await up.call('s/echo')), 'here');
    gate.resolve('done');
    assert.equal(textOf(await running), 'done');
  });

  test(`${era}: a server that is removed is disconnected, its calls end`, async (t) => {
    const server = await startUpstream({ era, tools: { hang: { handler: () => new Promise<string>(() => {}) } } });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('s', server.url);
    const running = up.call('s/hang');
    await server.called('hang');
    up.remove('s');
    assert.deepEqual(await running, {
      kind: 'unknown',
      message: 'MCPServer "s" was disconnected before it answered (tool "hang")',
    });
    assert.equal(up.status('s').ready.status, 'Unknown');
    assert.equal((await up.call('s/hang')).kind, 'unavailable');
  });

  test(`${era}: values of Secrets go into the headers, and are read again when the server refuses them`, async (t) => {
    const secrets: Record<string, string> = { 'team-a/creds/token': 'Bearer one\n' };
    let accepted = 'Bearer one';
    const server = await startUpstream({ era, tools: { echo } });
    server.intercept = ({ headers }, response) => {
      if (headers.authorization === accepted && headers['x-team'] === 'a') return false;
      response.writeHead(401).end();
      return true;
    };
    t.after(() => server.close());
    const up = testUpstreams(t, {
      async resolveSecret(namespace, name, key) {
        const value = secrets[`${namespace}/${name}/${key}`];
        if (value === undefined) throw new Error(`Secret "${name}" has no key "${key}"`);
        return value;
      },
    });
    const headers = [
      { name: 'X-Team', value: 'a' },
      { name: 'Authorization', secretRef: { name: 'creds', key: 'token' } },
    ];
    up.set('s', http(server.url, { headers }));
    assert.equal(textOf(await up.call('s/echo')), 'here');
    accepted = 'Bearer two';
    secrets['team-a/creds/token'] = 'Bearer two';
    assert.equal(textOf(await up.call('s/echo')), 'here');
    accepted = 'Bearer three';
    const refused = await up.call('s/echo');
    assert.equal(refused.kind, 'unavailable');
    assert.equal(refused.message, 'MCPServer "s" does not accept the credentials (HTTP 401) (tool "echo")');
    assert.equal((await up.until('s', ({ ready }) => ready.status === 'False')).ready.reason, 'Unauthorized');
    delete secrets['team-a/creds/token'];
    const { ready } = await up.until('s', (status) => status.ready.reason === 'InvalidValue');
    assert.equal(
      ready.message,
      'has a value that cannot be used: Authorization: cannot read key "token" of Secret "creds": Secret "creds" has no key "token"',
    );
    secrets['team-a/creds/token'] = 'to\u0000ken';
    const shown = await up.until('s', (status) => status.ready.message.includes('characters'));
    assert.doesNotMatch(JSON.stringify(shown), /ken/);
    secrets['team-a/creds/token'] = 'Bearer three';
    assert.equal(textOf(await up.call('s/echo')), 'here');
  });
}

test('a redirect to another origin is not followed, and is shown no header', async (t) => {
  const seen: string[] = [];
  const elsewhere = createServer((request, response) => {
    seen.push(String(request.headers.authorization));
    response.end();
  });
  elsewhere.listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  t.after(() => elsewhere.close());
  const server = await startUpstream();
  t.after(() => server.close());
  const location = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/mcp`;
  server.intercept = (_, response) => {
    response.writeHead(307, { location }).end();
    return true;
  };
  const up = testUpstreams(t);
  up.set('s', http(server.url, { headers: [{ name: 'Authorization', value: 'Bearer secret' }] }));
  await up.until('s', ({ ready }) => ready.reason === 'RequestRefused');
  assert.deepEqual(seen, []);
});

test('a header that belongs to the protocol is refused', async (t) => {
  const up = testUpstreams(t);
  up.set('s', http('http://127.0.0.1:1/mcp', { headers: [{ name: 'Mcp-Session-Id', value: 'x' }] }));
  const { ready } = await up.until('s', (status) => status.ready.reason === 'InvalidValue');
  assert.match(ready.message, /header Mcp-Session-Id belongs to the protocol/);
});

test('stdio is not run where it is not allowed', async (t) => {
  const up = testUpstreams(t, { allowStdio: false });
  up.set('s', { type: 'stdio', command: 'node', args: ['--version'] });
  const { ready } = up.status('s');
  assert.equal(ready.reason, 'StdioNotAllowed');
  const text = 'MCPServer "s" is of type stdio, which this operator runs only with --allow-stdio';
  assert.equal(up.missing('s', 'x'), text);
  assert.deepEqual(await up.call('s/x'), { kind: 'unavailable', message: `${text} (tool "x")` });
});

function isInitialize({ body }: UpstreamRequest): boolean {
  return body?.method === 'initialize';
}
