import { readFile } from 'node:fs/promises';

/** The last lines of a process's log, indented, for an error message. */
export async function logTail(path: string, lines = 15): Promise<string> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const tail = text.trimEnd().split('\n').slice(-lines);
  return tail.map((line) => `    ${line.slice(0, 400)}`).join('\n');
}
