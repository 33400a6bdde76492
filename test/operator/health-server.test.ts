import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { startHealthServer } from '../../src/operator/health-server.ts';

test('readyz gives the reason while there is one, healthz never; other paths are not there', async () => {
  let reason: string | undefined = 'waiting';
  const server = await startHealthServer({ host: '127.0.0.1', port: 0, notReady: () => reason });
  const get = async (path: string): Promise<[number, string]> => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`);
    return [response.status, await response.text()];
  };
  assert.deepEqual(await get('/readyz'), [503, 'waiting\n']);
  assert.deepEqual(await get('/healthz'), [200, 'ok\n']);
  reason = undefined;
  assert.deepEqual(await get('/readyz'), [200, 'ok\n']);
  assert.deepEqual(await get('/metrics'), [404, 'not found\n']);
  await server.close();
});

test('close ends connections that are kept open; a port that is taken is an error', async () => {
  const server = await startHealthServer({ host: '127.0.0.1', port: 0, notReady: () => undefined });
  const { port } = server;
  await assert.rejects(startHealthServer({ host: '127.0.0.1', port, notReady: () => undefined }), /EADDRINUSE/);
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  const closed = once(socket, 'close');
  socket.resume();
  await server.close();
  await closed;
});
