import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** Starts processes that cannot outlive us, not even when we are killed with SIGKILL. See supervisor.ts. */
export interface Supervisor {
  /** Rejects when the command cannot be started. */
  start(options: ProcessOptions): Promise<SupervisedProcess>;
  /** Ends what was started, last first: SIGTERM, after ten seconds SIGKILL. Then removes the folder. Idempotent. */
  stop(): Promise<void>;
  /** Lets our own process end while what it started still runs; that is then ended at once. */
  unref(): void;
}

export interface ProcessOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Where its stdout and stderr are appended. */
  readonly logFile: string;
}

export interface SupervisedProcess {
  readonly pid: number;
  /** Resolves when it has ended, with how: `exit code 1`, `signal SIGKILL`. Never rejects. */
  readonly ended: Promise<string>;
}

export type ToSupervisor = ProcessOptions & { readonly id: number };
export type FromSupervisor =
  | { readonly id: number; readonly event: 'started'; readonly pid: number }
  | { readonly id: number; readonly event: 'ended'; readonly how: string };

/** @param folder removed at the end, when nothing writes into it any more. */
export function startSupervisor(folder: string): Supervisor {
  const child = fork(fileURLToPath(new URL('supervisor.ts', import.meta.url)), [folder], {
    detached: true,
    // Not ours: flags of the test runner, or a script given with -e.
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit');
  const running = new Map<number, { started(pid: number): void; ended(how: string): void }>();
  child.on('message', (message: FromSupervisor) => {
    if (message.event === 'started') running.get(message.id)?.started(message.pid);
    else running.get(message.id)?.ended(message.how);
  });
  child.once('exit', () => {
    for (const process of running.values()) process.ended('its supervisor has ended');
  });
  let lastId = 0;

  return {
    async start(options) {
      if (!child.connected) throw new Error(`cannot start ${options.command}: its supervisor has ended`);
      lastId += 1;
      const started = Promise.withResolvers<number>();
      const ended = Promise.withResolvers<string>();
      running.set(lastId, { started: started.resolve, ended: ended.resolve });
      child.send({ ...options, id: lastId } satisfies ToSupervisor);
      const endedFirst = ended.promise.then((how) => {
        throw new Error(`cannot start ${options.command}: ${how}`);
      });
      return { pid: await Promise.race([started.promise, endedFirst]), ended: ended.promise };
    },
    async stop() {
      child.ref();
      if (child.connected) child.disconnect();
      await exited;
    },
    unref() {
      child.unref();
      child.channel?.unref();
    },
  };
}
