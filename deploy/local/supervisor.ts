import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { FromSupervisor, ToSupervisor } from './supervise.ts';

/**
 * The process between us and what we start (`supervise.ts` is our side of it). It ends its children and removes their
 * folder as soon as the channel to its parent closes, whether the parent asked for that, ended or was killed: nobody
 * else is left to do it after `kill -9`. It runs in a session of its own, so Ctrl-C reaches only the parent, which then
 * stops in its own order.
 */
const GRACE_MS = 10_000;

const [folder] = process.argv.slice(2);
const children: ChildProcess[] = [];
let ending = false;

function send(message: FromSupervisor): void {
  if (process.connected) process.send?.(message);
}

function start({ id, command, args, cwd, env, logFile }: ToSupervisor): void {
  const log = openSync(logFile, 'a');
  // A group of its own: what the child starts (the compilers below `go build`) is signalled with it.
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', log, log], detached: true });
  closeSync(log);
  children.push(child);
  child.once('spawn', () => send({ id, event: 'started', pid: child.pid ?? 0 }));
  child.once('error', (error) => send({ id, event: 'ended', how: error.message }));
  child.once('exit', (code, signal) => {
    signalGroup(child, 'SIGKILL');
    send({ id, event: 'ended', how: signal === null ? `exit code ${code}` : `signal ${signal}` });
  });
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // The whole group has ended: what we wanted.
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  signalGroup(child, 'SIGTERM');
  const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS);
  await ended;
  clearTimeout(timer);
}

/** Last started, first ended: an API server without its etcd would not shut down in time. */
async function endAll(): Promise<void> {
  if (ending) return;
  ending = true;
  for (const child of children.reverse()) await end(child);
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  process.exit();
}

process.on('message', (message: ToSupervisor) => {
  if (!ending) start(message);
});
process.once('disconnect', () => void endAll());
process.on('SIGTERM', () => void endAll());
process.on('SIGINT', () => void endAll());
