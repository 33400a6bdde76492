import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Assets, resolveAssets } from '../../../deploy/local/assets.ts';
import { eventually } from '../../support/eventually.ts';

const ASSETS = fileURLToPath(new URL('../../../deploy/local/assets.ts', import.meta.url));
const BINARY = '#!/bin/sh\n';

/** Stands for `go build … -o FILE PACKAGE`: notes the call, waits while HOLD exists, fails when FAIL does. */
const FAKE_GO = `#!/bin/sh
echo "$$ $*" >> "$CALLS"
while [ "$1" != -o ]; do shift; done
while [ -e "$HOLD" ]; do sleep 0.05; done
if [ -e "$FAIL" ]; then echo 'undefined: everything'; exit 1; fi
printf '#!/bin/sh\\n' > "$2"
chmod +x "$2"
`;

/** A machine with an empty cache and the fake `go`. */
async function machine(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'convoke-assets-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const path = (name: string): string => join(folder, name);
  await mkdir(path('bin'));
  await executable(path('bin/go'), FAKE_GO);
  const env = {
    PATH: `${path('bin')}:/usr/bin:/bin`,
    HOME: folder,
    XDG_CACHE_HOME: path('cache'),
    CALLS: path('calls'),
    HOLD: path('hold'),
    FAIL: path('fail'),
  };
  let output = '';
  const stream = { write: (written: string) => (output += written) };
  return {
    env,
    path,
    output: () => output,
    resolve: (more: NodeJS.ProcessEnv = {}, signal = new AbortController().signal) =>
      resolveAssets({ env: { ...env, ...more }, stream }, signal),
    /** What `go` was called with, in order. */
    async calls(): Promise<string[]> {
      const calls = await readFile(env.CALLS, 'utf8').catch(() => '');
      return calls.split('\n').filter((line) => line !== '');
    },
    /** Names in the cache, the hash left out. */
    async cached(): Promise<string[]> {
      const names = await readdir(path('cache/convoke'));
      return names.map((name) => name.replace(/control-plane-[0-9a-f]{16}/, 'control-plane')).sort();
    },
  };
}

async function executable(path: string, body: string): Promise<void> {
  await writeFile(path, body);
  await chmod(path, 0o755);
}

/** A process of its own that resolves the assets, as `npm run demo` beside `npm test` would. */
function resolveElsewhere(env: NodeJS.ProcessEnv) {
  const script = `const { resolveAssets } = await import(${JSON.stringify(ASSETS)});
    const assets = await resolveAssets({ env: process.env, stream: process.stderr }, new AbortController().signal);
    console.log(JSON.stringify(assets));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { env });
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { child, ended: ended.then(([stdout, stderr, [code]]) => ({ stdout, stderr, code })) };
}

test('KUBEBUILDER_ASSETS is used when it has both binaries', async (t) => {
  const { path, resolve, calls } = await machine(t);
  await executable(path('bin/etcd'), BINARY);
  await executable(path('bin/kube-apiserver'), BINARY);
  const assets = await resolve({ KUBEBUILDER_ASSETS: path('bin') });
  assert.deepEqual(assets, { etcd: path('bin/etcd'), kubeApiserver: path('bin/kube-apiserver') });
  assert.deepEqual(await calls(), []);
});

test('KUBEBUILDER_ASSETS with one binary only is said not to be used', async (t) => {
  const { path, resolve, output } = await machine(t);
  await executable(path('bin/etcd'), BINARY);
  const { etcd } = await resolve({ KUBEBUILDER_ASSETS: path('bin') });
  assert.ok(etcd.startsWith(path('cache')), etcd);
  assert.match(output(), /^KUBEBUILDER_ASSETS=\S+ does not hold both etcd and kube-apiserver: not used$/m);
});

test('what is nowhere is built once, and then taken from the cache', async (t) => {
  const { resolve, calls, cached, output } = await machine(t);
  const assets = await resolve();
  assert.deepEqual([basename(assets.etcd), basename(assets.kubeApiserver)], ['etcd', 'kube-apiserver']);
  const built = await calls();
  assert.match(
    built[0] ?? '',
    /-X k8s\.io\/component-base\/version\.gitVersion=v1\.37\.2 -o \S+ k8s\.io\/kubernetes\/cmd\/kube-apiserver$/,
  );
  assert.match(built[1] ?? '', /go\.etcd\.io\/etcd\/server\/v3$/);
  assert.match(output(), /kube-apiserver \(usually 8 minutes on 2 cores, once\): started\n/);
  assert.match(output(), /etcd \(usually 15 seconds\): done after \d+s\n/);

  assert.deepEqual(await resolve(), assets);
  assert.equal((await calls()).length, built.length);
  assert.deepEqual(await cached(), ['control-plane', 'control-plane.lock', 'control-plane.log']);
});

test('of two processes that start at once, one builds and the other waits for it', async (t) => {
  const { env, calls } = await machine(t);
  await writeFile(env.HOLD, '');
  const [one, two] = [resolveElsewhere(env), resolveElsewhere(env)];
  const says = (child: (typeof one)['child']) => once(child.stderr, 'data').then(([chunk]) => String(chunk));
  const said = await Promise.all([says(one.child), says(two.child)]);
  assert.match(said.sort().join(''), /^Another process builds the control plane.*Building a Kubernetes/s);
  await rm(env.HOLD);
  const results = await Promise.all([one.ended, two.ended]);
  assert.deepEqual(
    results.map(({ code }) => code),
    [0, 0],
  );
  assert.equal(results[0]?.stdout, results[1]?.stdout);
  assert.equal((await calls()).length, 2);
});

test('a builder that is killed leaves nothing half, no compiler, and the lock to the next', async (t) => {
  const { env, resolve, calls, cached } = await machine(t);
  await writeFile(env.HOLD, '');
  const { child, ended } = resolveElsewhere(env);
  const compiler = await eventually(async () => {
    const pid = Number.parseInt((await calls())[0] ?? '', 10);
    assert.ok(pid > 0);
    return pid;
  });
  child.kill('SIGKILL');
  await ended;
  await eventually(() => assert.throws(() => process.kill(compiler, 0), { code: 'ESRCH' }));
  await eventually(async () => assert.deepEqual(await cached(), ['control-plane.lock', 'control-plane.log']));

  await rm(env.HOLD);
  await resolve();
  assert.equal((await calls()).length, 3);
});

test('a build that is interrupted leaves nothing half, and says why it ended', async (t) => {
  const { env, resolve, calls, cached } = await machine(t);
  await writeFile(env.HOLD, '');
  const interrupted = new AbortController();
  const resolved = resolve({}, interrupted.signal);
  const reason = new Error('Ctrl-C');
  await Promise.all([
    assert.rejects(resolved, reason),
    eventually(async () => assert.equal((await calls()).length, 1)).then(() => interrupted.abort(reason)),
  ]);
  assert.deepEqual(await cached(), ['control-plane.lock', 'control-plane.log']);
});

test('a build that fails shows the end of its log', async (t) => {
  const { env, resolve, cached } = await machine(t);
  await writeFile(env.FAIL, '');
  await assert.rejects(resolve(), /go build of kube-apiserver ended with exit code 1.*undefined: everything/s);
  assert.deepEqual(await cached(), ['control-plane.lock', 'control-plane.log']);
});

test('without go the error names every way out', async (t) => {
  const { path, resolve } = await machine(t);
  // A folder of that name on the PATH is no compiler: /usr/local/go is one on many machines.
  await mkdir(path('empty/go'), { recursive: true });
  const failed: Promise<Assets> = resolve({ PATH: dirname(path('empty/go')) });
  await assert.rejects(failed, (error: Error) => {
    for (const way of ['install Go', 'KUBEBUILDER_ASSETS', '--kubeconfig']) assert.ok(error.message.includes(way), way);
    return true;
  });
});
