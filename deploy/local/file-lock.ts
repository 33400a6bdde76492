import { DatabaseSync } from 'node:sqlite';
import { systemClock } from '../../src/lib/clock.ts';

const SQLITE_BUSY = 5;
const RETRY_MS = 250;

export interface FileLock {
  release(): void;
}

/**
 * A lock between processes, waited for until the signal aborts. It is the lock that SQLite takes on its file: the kernel
 * lets go of it when the holder dies, however it dies, so there is no stale lock to recognise. The file stays; it is empty.
 * @param onWait called once when another process holds it.
 */
export async function lockFile(path: string, onWait: () => void, signal: AbortSignal): Promise<FileLock> {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    for (let waited = false; !tryLock(database); ) {
      if (!waited) onWait();
      waited = true;
      await systemClock.sleep(RETRY_MS, signal);
    }
  } catch (error) {
    database.close();
    throw error;
  }
  return { release: () => database.close() };
}

function tryLock(database: DatabaseSync): boolean {
  try {
    // A journal on disk would be left by a holder that is killed.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return false;
    throw error;
  }
}
