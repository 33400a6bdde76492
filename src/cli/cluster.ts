import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** `convoke cluster`: the same as `npm run cluster`; what it starts is no part of an installed operator. */
export async function cluster(argv: string[]): Promise<number> {
  const program = fileURLToPath(new URL('../../deploy/local/main.ts', import.meta.url));
  if (!existsSync(program)) {
    process.stderr.write('convoke cluster: works in a checkout of the project only (deploy/local is missing here)\n');
    return 2;
  }
  const child = spawn(process.execPath, [program, ...argv], { stdio: 'inherit' });
  // Ctrl-C reaches the child as well; it ends first, and then we do.
  const ignore = (): void => {};
  process.on('SIGINT', ignore);
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}
