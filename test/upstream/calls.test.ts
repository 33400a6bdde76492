import assert from 'node:assert/strict';
import test from 'node:test';
import type { Progress } from '../../src/workflow/ports.ts';
import { RpcFault, startUpstream } from '../support/upstream-server.ts';
import { testUpstreams, textOf } from '../support/upstreams.ts';

const ERAS = ['modern', '2025'] as const;

for (const era of ERAS) {
  test(`${era}: connects in the background, lists tools and says what the server says of itself`, async (t) => {
    const server = await startUpstream({
      era,
      extensions: { 'io.example/x': { level: 2 } },
      pageSize: 2,
      tools: {
        b: { annotations: { readOnlyHint: true, title: 'B' }, handler: () => 'b' },
        a: {
          inputSchema: { type: 'object', properties: { x: { type: 'integer' } } },
          outputSchema: { type: 'object' },
          handler: () => 'a',
        },
        c: { handler: () => 'c' },
      },
    });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('docker', server.url);
    assert.equal(up.status('docker').ready.status, 'False');
    assert.equal(up.missing('docker', 'a'), 'MCPServer "docker" is not connected yet');
    const status = await up.until('docker');
    assert.equal(status.protocolVersion, era === 'modern' ? '2026-07-28' : '2025-11-25');
    assert.deepEqual(status.serverInfo, { name: 'scripted', version: '1.2.3' });
    assert.deepEqual(status.extensions, { 'io.example/x': { level: 2 } });
    assert.deepEqual(
      status.tools?.map(({ name }) => name),
      ['a', 'b', 'c'],
    );
    assert.deepEqual(status.ready, { status: 'True', reason: 'Connected', message: '3 tools' });
    const described = up.upstreams.caller.describe('team-a', { server: 'docker', tool: 'b' });
    assert.deepEqual(described?.annotations, { readOnlyHint: true });
    const a = up.upstreams.caller.describe('team-a', { server: 'docker', tool: 'a' });
    assert.deepEqual(a?.inputSchema, { type: 'object', properties: { x: { type: 'integer' } } });
    assert.equal(up.missing('docker', 'a'), undefined);
    assert.equal(up.missing('docker', 'z'), 'MCPServer "docker" has no tool "z"');
    assert.equal(up.missing('other', 'z'), 'MCPServer "other" does not exist');
  });

  test(`${era}: a call carries its arguments and step key, and its progress only when wanted`, async (t) => {
    const server = await startUpstream({
      era,
      tools: {
        work: {
          async handler(args, { progress, key }) {
            await progress(1, 2, 'half');
            await progress(2);
            return `${key} ${JSON.stringify(args)}`;
          },
        },
      },
    });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('s', server.url);
    const seen: Progress[] = [];
    const onProgress = (progress: Progress): void => void seen.push(progress);
    const args = { n: 10, list: [true, null], text: 'a"b\n${x}' };
    const outcome = await up.call('s/work', args, { key: 'r1.build', onProgress });
    assert.equal(textOf(outcome), `r1.build ${JSON.stringify(args)}`);
    assert.deepEqual(seen, [{ progress: 1, total: 2, message: 'half' }, { progress: 2 }]);
    assert.equal(textOf(await up.call('s/work')), 'run.step {}');
    assert.deepEqual(
      server.calls.map(({ wantsProgress }) => wantsProgress),
      [true, false],
    );
  });

  test(`field case 27 (B): ${era}: an abort cancels the call at the upstream, and settles it at once`, async (t) => {
    const server = await startUpstream({ era, tools: { hang: { handler: () => new Promise<string>(() => {}) } } });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('s', server.url);
    const stop = new AbortController();
    const outcome = up.call('s/hang', {}, { signal: stop.signal });
    const { signal } = await server.called('hang');
    const cancelled = new Promise((resolve) => signal.addEventListener('abort', resolve));
    stop.abort();
    assert.deepEqual(await outcome, { kind: 'aborted' });
    await cancelled;
    assert.equal(up.status('s').ready.status, 'True');
  });

  test(`field case 28 (B): ${era}: of calls with equal ids at two servers only the one that is meant is cancelled`, async (t) => {
    const tools = { hang: { handler: () => new Promise<string>(() => {}) } };
    const [one, two] = await Promise.all([startUpstream({ era, tools }), startUpstream({ era, tools })]);
    t.after(() => Promise.all([one.close(), two.close()]));
    const up = testUpstreams(t);
    up.set('one', one.url);
    up.set('two', two.url);
    await Promise.all([up.until('one'), up.until('two')]);
    const stop = new AbortController();
    const outcome = up.call('one/hang', {}, { signal: stop.signal });
    const other = new AbortController();
    const otherOutcome = up.call('two/hang', {}, { signal: other.signal });
    const [call, otherCall] = await Promise.all([one.called('hang'), two.called('hang')]);
    const cancelled = new Promise((resolve) => call.signal.addEventListener('abort', resolve));
    stop.abort();
    await Promise.all([outcome, cancelled]);
    assert.equal(otherCall.signal.aborted, false);
    other.abort();
    assert.deepEqual(await otherOutcome, { kind: 'aborted' });
  });

  test(`field case 31 (B): ${era}: content passes as it came`, async (t) => {
    const png = Buffer.from(Array.from({ length: 4096 }, (_, index) => index % 256)).toString('base64');
    const result = {
      content: [
        { type: 'image', data: png, mimeType: 'image/png' },
        { type: 'text', text: '🏴󠁧󠁢󠁳󠁣󠁴󠁿 \u2028', annotations: { priority: 0.5 } },
        { type: 'resource_link', uri: 'x://y', name: 'y' },
      ],
      structuredContent: { z: 1, a: [null, { deep: 1e21 }] },
    };
    const server = await startUpstream({ era, tools: { image: { handler: () => result } } });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('s', server.url);
    assert.deepEqual(await up.call('s/image'), { kind: 'result', result });
  });

  test(`${era}: a tool error is a result, a JSON-RPC error a protocol error`, async (t) => {
    const server = await startUpstream({
      era,
      tools: {
        fails: { handler: () => ({ content: [{ type: 'text', text: 'no disk' }], isError: true }) },
        breaks: {
          handler: () => {
            throw new RpcFault(1234, 'no licence', { until: 'monday' });
          },
        },
      },
    });
    t.after(() => server.close());
    const up = testUpstreams(t);
    up.set('s', server.url);
    const content = [{ type: 'text', text: 'no disk' }];
    assert.deepEqual(await up.call('s/fails'), { kind: 'result', result: { content, isError: true } });
    const broken = await up.call('s/breaks');
    assert.equal(broken.kind, 'protocolError');
    assert.deepEqual({ ...broken.error, message: '' }, { code: 1234, message: '', data: { until: 'monday' } });
    assert.match(broken.error.message, /no licence$/);
    const unknown = await up.call('s/nothing');
    assert.equal(unknown.kind === 'protocolError' && unknown.error.code, -32602);
  });
}
