import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const ROOT = join(import.meta.dirname, '..');

test('what npm runs in this checkout is the pinned node, whatever the machine has', async () => {
  const { devDependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  const pinned = `v${devDependencies.node}`;
  const { stdout } = await promisify(execFile)('npm', ['exec', '-c', 'node --version'], { cwd: ROOT });
  assert.equal(stdout.trim(), pinned);
  assert.equal(
    process.version,
    pinned,
    'tests were started with another node: use `npm test` or `npx node test/run.ts`',
  );
});

test('.ci/run runs what the README tells a reader to run', async () => {
  const script = await readFile(join(ROOT, '.ci', 'run'), 'utf8');
  const commands = script.split('\n').filter((line) => line.startsWith('npm '));
  assert.match(await readFile(join(ROOT, 'README.md'), 'utf8'), new RegExp(`^${commands.join(' && ')}( |$)`, 'm'));
  assert.equal(commands.length, 2);
});

test('the lock file has every optional package, also those of other platforms: npm ci refuses it otherwise', async () => {
  const { packages } = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>;
  };
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !(`node_modules/${name}` in packages || `${path}/node_modules/${name}` in packages),
    ),
  );
  assert.deepEqual(missing, []);
});
