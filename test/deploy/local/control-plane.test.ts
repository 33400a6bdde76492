import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Assets } from '../../../deploy/local/assets.ts';
import { startControlPlane } from '../../../deploy/local/control-plane.ts';
import { eventually } from '../../support/eventually.ts';

/** Binaries that are shell scripts: for what the real ones do only by chance. Each start is a line of `calls()`. */
async function scripts(t: TestContext, bodies: { etcd: string; kubeApiserver: string }) {
  const folder = await mkdtemp(join(tmpdir(), 'convoke-scripts-'));
  t.after(() => rm(folder, { recursive: true }));
  const callsFile = join(folder, 'calls');
  const script = async (name: string, body: string): Promise<string> => {
    const path = join(folder, name);
    await writeFile(path, `#!/bin/sh\necho "$$ ${name} $*" >> '${callsFile}'\n${body}\n`);
    await chmod(path, 0o755);
    return path;
  };
  const assets: Assets = {
    etcd: await script('etcd', bodies.etcd),
    kubeApiserver: await script('kube-apiserver', bodies.kubeApiserver),
  };
  const calls = async (): Promise<string[]> => {
    const lines = await readFile(callsFile, 'utf8').catch(() => '');
    return lines.split('\n').filter((line) => line !== '');
  };
  return { assets, calls };
}

const RUNS = 'exec sleep 600';
const never = new AbortController().signal;

async function assertAllGone(calls: string[]): Promise<void> {
  for (const call of calls) {
    await eventually(() => assert.throws(() => process.kill(Number.parseInt(call, 10), 0), { code: 'ESRCH' }));
  }
}

test('a port that was taken in between is another attempt, with other ports', async (t) => {
  const clash = "echo 'listen tcp 127.0.0.1:1: bind: address already in use'; exit 1";
  const { assets, calls } = await scripts(t, { etcd: RUNS, kubeApiserver: clash });
  await assert.rejects(
    startControlPlane({ assets }, never),
    /kube-apiserver ended with exit code 1.*address already in use/s,
  );
  const all = await calls();
  const ports = all.map((call) => /--secure-port=(\d+)/.exec(call)?.[1]).filter((port) => port !== undefined);
  assert.equal(new Set(ports).size, 3);
  await assertAllGone(all);
});

test('another failure is final, and shows the end of the log', async (t) => {
  const { assets, calls } = await scripts(t, { etcd: "echo 'disk is full' >&2; exit 3", kubeApiserver: RUNS });
  await assert.rejects(startControlPlane({ assets }, never), /etcd ended with exit code 3.*disk is full/s);
  const all = await calls();
  assert.equal(all.filter((call) => call.includes(' etcd ')).length, 1);
  await assertAllGone(all);
});

test('a binary that cannot be started is named', async (t) => {
  const { assets } = await scripts(t, { etcd: RUNS, kubeApiserver: RUNS });
  await rm(assets.kubeApiserver);
  await assert.rejects(startControlPlane({ assets }, never), /cannot start .*kube-apiserver: .*ENOENT/);
});

test('a start that is interrupted ends what it had started, with the reason', async (t) => {
  const { assets, calls } = await scripts(t, { etcd: RUNS, kubeApiserver: RUNS });
  const interrupted = new AbortController();
  const reason = new Error('Ctrl-C');
  const bothRun = eventually(async () => assert.equal((await calls()).length, 2));
  await Promise.all([
    assert.rejects(startControlPlane({ assets }, interrupted.signal), reason),
    bothRun.then(() => interrupted.abort(reason)),
  ]);
  await assertAllGone(await calls());
});

test('etcd waits for the disk only when asked to', async (t) => {
  const { assets, calls } = await scripts(t, { etcd: 'exit 1', kubeApiserver: RUNS });
  for (const fsync of [false, true]) await assert.rejects(startControlPlane({ assets, fsync }, never), /etcd ended/);
  const flags = (await calls())
    .filter((call) => call.includes(' etcd '))
    .map((call) => call.includes('--unsafe-no-fsync'));
  assert.deepEqual(flags, [true, false]);
});
