import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

test('npm run demo -- --once tells its story to the end', async () => {
  const child = spawn(process.execPath, ['deploy/demo/main.ts', '--once'], { signal: AbortSignal.timeout(150_000) });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  assert.equal(code, 0, stderr);
  for (const told of [
    /workflow_backup-config\(name, namespace\)/,
    /"warm":(true|false)/,
    /configmap|settings-backup/,
    /tasks\/get → working: step 2 of 4 'work' is running/,
    /tasks\/get → completed/,
    /tasks\/get → cancelled/,
    /by-hand +weather +completed/,
  ]) {
    assert.match(stdout, told);
  }
});
