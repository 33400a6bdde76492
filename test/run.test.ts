import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const RUN = fileURLToPath(new URL('run.ts', import.meta.url));

/** Starts test/run.ts in a folder with these test files. */
async function runTests(t: TestContext, files: Record<string, string>, ...args: string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'convoke-run-'));
  t.after(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, 'test'));
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  for (const [name, body] of Object.entries(files)) {
    await writeFile(join(folder, 'test', name), `import { test } from 'node:test';\n${body}\n`);
  }
  // Without the variable that tells node it is inside of a test run: it would not begin another.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, [RUN, ...args], { cwd: folder, env });
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { child, ended: ended.then(([stdout, stderr, [code]]) => ({ stdout, stderr, code })) };
}

const PASSES = "test('passes', () => {});";
const FAILS = "test('fails', () => { throw new Error('as asked'); });";

test('passes when every test does, with the summary of node', async (t) => {
  const { ended } = await runTests(t, { 'a.test.ts': PASSES, 'b.test.ts': PASSES });
  const { stdout, stderr, code } = await ended;
  assert.match(stdout, /^ℹ tests 2$/m);
  assert.match(stdout, /^ℹ pass 2$/m);
  assert.deepEqual({ stderr, code }, { stderr: '', code: 0 });
});

test('fails when a test does', async (t) => {
  const { ended } = await runTests(t, { 'a.test.ts': PASSES, 'b.test.ts': FAILS });
  const { stdout, code } = await ended;
  assert.match(stdout, /^ℹ fail 1$/m);
  assert.equal(code, 1);
});

test('fails when a file cannot be loaded', async (t) => {
  const { ended } = await runTests(t, { 'a.test.ts': PASSES, 'b.test.ts': "import './absent.ts';" });
  assert.equal((await ended).code, 1);
});

test('fails when no file matches and when a file declares no test', async (t) => {
  const noMatch = await (await runTests(t, { 'a.test.ts': PASSES }, 'other')).ended;
  assert.match(noMatch.stderr, /no test ran/);
  assert.equal(noMatch.code, 1);
  const empty = await (await runTests(t, { 'a.test.ts': PASSES, 'b.test.ts': '' })).ended;
  assert.match(empty.stderr, /no test ran in test\/b\.test\.ts/);
  assert.equal(empty.code, 1);
});

test('runs only what is asked for', async (t) => {
  const files = { 'a.test.ts': PASSES, 'b.test.ts': FAILS, 'c.cluster.test.ts': FAILS };
  const { stdout, code } = await (await runTests(t, files, '--no-cluster', '/a.')).ended;
  assert.match(stdout, /^ℹ tests 1$/m);
  assert.equal(code, 0);
  const unknown = await (await runTests(t, files, '--no-clutser')).ended;
  assert.match(unknown.stderr, /unknown option --no-clutser/);
  assert.equal(unknown.code, 1);
});

// What is left is found in /proc, so only on Linux.
if (process.platform === 'linux') {
  test('a process that a test leaves is ended, and fails the run', async (t) => {
    const leaves = `import { spawn } from 'node:child_process';
      test('leaves', () => spawn('sleep', ['600'], { detached: true, stdio: 'ignore' }).unref());`;
    const { stderr, code } = await (await runTests(t, { 'a.test.ts': leaves })).ended;
    const pid = /a process was left and had to be killed: (\d+) sleep 600/.exec(stderr)?.[1];
    assert.ok(pid !== undefined, stderr);
    assert.equal(code, 1);
  });
}

test('Ctrl-C ends a run that hangs, and its processes', async (t) => {
  const hangs = `test('hangs', async () => {
      console.log('pid', process.pid);
      setInterval(() => {}, 1_000);
      await new Promise(() => {});
    });`;
  const { child, ended } = await runTests(t, { 'a.test.ts': hangs });
  const pid = await new Promise<number>((resolve) => {
    child.stdout.on('data', (chunk) => {
      const found = /pid (\d+)/.exec(String(chunk));
      if (found !== null) resolve(Number(found[1]));
    });
  });
  child.kill('SIGINT');
  const { stderr, code } = await ended;
  assert.match(stderr, /stopped by SIGINT/);
  assert.equal(code, 1);
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
});
