import assert from 'node:assert/strict';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startControlPlane } from '../../../deploy/local/control-plane.ts';
import { request } from '../../../deploy/local/request.ts';
import { eventually } from '../../support/eventually.ts';
import { kubectl } from '../../support/kubectl.ts';

const MAIN = fileURLToPath(new URL('../../../deploy/local/main.ts', import.meta.url));

async function assertGone(pids: readonly number[], folder: string): Promise<void> {
  for (const pid of pids) {
    await eventually(() => assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' }));
  }
  await eventually(() => assert.equal(existsSync(folder), false, `${folder} was not removed`));
}

/** `npm run cluster`, read up to its last line. */
async function runMain(t: TestContext): Promise<{
  main: ChildProcessByStdio<null, Readable, Readable>;
  pids: number[];
  kubeconfig: string;
  folder: string;
}> {
  const main = spawn(process.execPath, [MAIN], { stdio: ['ignore', 'pipe', 'pipe'] });
  t.after(() => main.kill('SIGKILL'));
  let output = '';
  for await (const line of createInterface(main.stdout)) {
    output += `${line}\n`;
    if (line.startsWith('Ctrl-C')) break;
  }
  const [, apiServer, etcd] = /\(pid (\d+), etcd (\d+)\)/.exec(output) ?? assert.fail(output);
  const [, kubeconfig = ''] = /export KUBECONFIG=(.+)/.exec(output) ?? assert.fail(output);
  const [, folder = ''] = /data and logs: (.+)/.exec(output) ?? assert.fail(output);
  return { main, pids: [Number(apiServer), Number(etcd)], kubeconfig, folder };
}

test('a control plane starts, knows its users, and is gone after stop', async () => {
  const users = [{ token: 'secret', name: 'erin', uid: '7', groups: ['writers', 'readers'] }];
  const controlPlane = await startControlPlane({ users }, new AbortController().signal);
  const { folder, kubeconfigPath, pids } = controlPlane;
  try {
    const ready = await kubectl(kubeconfigPath, ['get', '--raw', '/readyz']);
    assert.deepEqual(ready, { code: 0, stdout: 'ok', stderr: '' });
    const version = await kubectl(kubeconfigPath, ['get', '--raw', '/version']);
    assert.equal(JSON.parse(version.stdout).gitVersion, 'v1.37.2');
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
    const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
    const asErin = { ...controlPlane, token: 'secret' };
    const { body } = await request(asErin, 'POST', path, { body: review, signal: AbortSignal.timeout(10_000) });
    const { username, groups } = JSON.parse(body).status.userInfo;
    assert.equal(username, 'erin');
    assert.deepEqual(groups, ['writers', 'readers', 'system:authenticated']);
  } finally {
    await Promise.all([controlPlane.stop(), controlPlane.stop()]);
  }
  await assertGone([pids.etcd, pids.kubeApiserver], folder);
  assert.match(await controlPlane.ended, /^(etcd|kube-apiserver) ended with /);
});

test('Ctrl-C ends `npm run cluster`, and nothing is left', async (t) => {
  const { main, pids, kubeconfig, folder } = await runMain(t);
  const crds = await kubectl(kubeconfig, ['get', 'crd', '-o', 'name']);
  assert.match(crds.stdout, /workflows\.convoke\.dev/);
  main.kill('SIGINT');
  assert.deepEqual(await once(main, 'exit'), [0, null]);
  await assertGone(pids, folder);
});

test('kill -9 of `npm run cluster` leaves nothing either', async (t) => {
  const { main, pids, folder } = await runMain(t);
  main.kill('SIGKILL');
  await assertGone(pids, folder);
});

test('`npm run cluster` ends with an error when its API server dies', async (t) => {
  const { main, pids, folder } = await runMain(t);
  process.kill(pids[0] ?? assert.fail(), 'SIGKILL');
  const [stderr, exit] = await Promise.all([text(main.stderr), once(main, 'exit')]);
  assert.match(stderr, /^kube-apiserver ended with signal SIGKILL; the end of its log:/);
  assert.deepEqual(exit, [1, null]);
  await assertGone(pids, folder);
});
