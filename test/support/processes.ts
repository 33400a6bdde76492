import { readdirSync, readFileSync } from 'node:fs';

export interface MarkedProcess {
  readonly pid: number;
  readonly command: string;
}

/**
 * The processes, other than this one, that were started with `variable=value` in their environment, and so were their
 * children, however detached. Reads /proc: on another system than Linux it finds none.
 */
export function processesWith(variable: string, value: string): MarkedProcess[] {
  if (process.platform !== 'linux') return [];
  const marker = `${variable}=${value}`;
  const found: MarkedProcess[] = [];
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    try {
      if (!readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(marker)) continue;
      found.push({ pid, command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim() });
    } catch {
      // It has ended since, or belongs to another user.
    }
  }
  return found;
}
