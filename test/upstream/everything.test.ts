import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../deploy/local/free-port.ts';
import type { MCPServerSpec } from '../../src/api/mcp-server.ts';
import type { Progress } from '../../src/workflow/ports.ts';
import { eventually } from '../support/eventually.ts';
import { processesWith } from '../support/processes.ts';
import { recordingLogger, type TestUpstreams, testUpstreams, textOf } from '../support/upstreams.ts';

/** A server as people run them: 2025-era, by another's hand. */
const EVERYTHING = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
const MARKER = 'CONVOKE_TEST_UPSTREAM';

function everythingByStdio(mark: string): MCPServerSpec {
  return {
    type: 'stdio',
    command: process.execPath,
    args: [EVERYTHING, 'stdio'],
    env: [{ name: MARKER, secretRef: { name: 'marks', key: mark } }],
  };
}

async function useEverything(up: TestUpstreams): Promise<void> {
  const status = await up.until('everything');
  assert.equal(status.serverInfo?.name, 'mcp-servers/everything');
  assert.equal(status.protocolVersion, '2025-11-25');
  assert.ok(status.tools?.some(({ name }) => name === 'get-tiny-image'));
  assert.equal(textOf(await up.call('everything/echo', { message: 'hé "so"' })), 'Echo: hé "so"');
  const image = await up.call('everything/get-tiny-image');
  assert.equal(image.kind, 'result');
  const block = image.result.content.find(({ type }) => type === 'image');
  assert.equal(Buffer.from(String(block?.data), 'base64').toString('base64'), block?.data);
  const weather = await up.call('everything/get-structured-content', { location: 'New York' });
  assert.ok(weather.kind === 'result' && weather.result.structuredContent !== undefined);
  const seen: Progress[] = [];
  const args = { duration: 0.2, steps: 2 };
  await up.call('everything/trigger-long-running-operation', args, { onProgress: (each) => void seen.push(each) });
  assert.deepEqual(
    seen.map(({ progress, total }) => [progress, total]),
    [
      [1, 2],
      [2, 2],
    ],
  );
  const stop = new AbortController();
  const long = up.call(
    'everything/trigger-long-running-operation',
    { duration: 60, steps: 600 },
    {
      signal: stop.signal,
      onProgress: () => stop.abort(),
    },
  );
  assert.deepEqual(await long, { kind: 'aborted' });
  assert.equal(textOf(await up.call('everything/get-sum', { a: 1, b: 2 })), 'The sum of 1 and 2 is 3.');
}

test('server-everything by stdio: used, started again when it dies, and gone when we are', async (t) => {
  const mark = randomUUID();
  const { log, records } = recordingLogger();
  const up = testUpstreams(t, { log, resolveSecret: async (_namespace, _name, key) => key });
  up.set('everything', everythingByStdio(mark));
  await useEverything(up);
  assert.ok(records.some(({ message }) => message === 'upstream stderr'));

  const started = processesWith(MARKER, mark);
  assert.equal(started.length, 1);
  const running = up.call(
    'everything/trigger-long-running-operation',
    { duration: 60, steps: 600 },
    {
      onProgress() {
        for (const { pid } of started) process.kill(pid, 'SIGKILL');
      },
    },
  );
  assert.deepEqual(await running, {
    kind: 'unknown',
    message: 'MCPServer "everything" ended before it answered (tool "trigger-long-running-operation")',
  });
  assert.equal(up.status('everything').ready.reason, 'ConnectionClosed');
  await up.until('everything');
  assert.equal(textOf(await up.call('everything/echo', { message: 'again' })), 'Echo: again');

  up.remove('everything');
  await eventually(() => assert.deepEqual(processesWith(MARKER, mark), []));
});

test('a command that is not there, or is no server', async (t) => {
  const up = testUpstreams(t);
  up.set('none', { type: 'stdio', command: 'no-such-command-of-convoke' });
  up.set('other', { type: 'stdio', command: process.execPath, args: ['-e', 'process.exit(3)'] });
  const none = await up.until('none', ({ ready }) => ready.reason === 'CommandFailed');
  assert.match(none.ready.message, /^cannot be started: spawn no-such-command-of-convoke ENOENT$/);
  const other = await up.until('other', ({ ready }) => ready.reason !== 'Connecting');
  assert.equal(other.ready.status, 'False');
});

test('server-everything by streamable HTTP: used, and found again after a restart', async (t) => {
  const first = await startEverything();
  t.after(() => first.stop());
  const up = testUpstreams(t);
  up.set('everything', `http://127.0.0.1:${first.port}/mcp`);
  await useEverything(up);
  await first.stop();
  const second = await startEverything(first.port);
  t.after(() => second.stop());
  // It answers 400 to a session of before: no call is lost over that.
  assert.equal(textOf(await up.call('everything/echo', { message: 'back' })), 'Echo: back');
});

async function startEverything(port?: number): Promise<{ port: number; stop(): Promise<void> }> {
  const chosen = port ?? (await freePort());
  const child = spawn(process.execPath, [EVERYTHING, 'streamableHttp'], {
    env: { ...process.env, PORT: String(chosen) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const lines = createInterface({ input: child.stderr });
  for await (const line of lines) if (line.includes('listening')) break;
  child.stderr.resume();
  return {
    port: chosen,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}
