#!/usr/bin/env node
import { cluster } from './cluster.ts';
import { operator } from './operator.ts';

/** A subcommand gets what follows its name, and gives the exit code: 0 done, 1 failed, 2 called wrongly. */
const COMMANDS: Record<string, { run: (argv: string[]) => Promise<number>; help: string }> = {
  operator: { run: operator, help: 'run the operator (--help lists its options)' },
  cluster: { run: cluster, help: 'start a Kubernetes control plane on this machine, from a checkout' },
};

const [name = '', ...argv] = process.argv.slice(2);
const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
if (command === undefined) {
  const asked = name === '--help' || name === '-h';
  if (!asked && name !== '') process.stderr.write(`convoke: there is no command "${name}"\n\n`);
  const rows = Object.entries(COMMANDS).map(([each, { help }]) => `  ${each.padEnd(12)}${help}\n`);
  (asked ? process.stdout : process.stderr).write(`Usage: convoke <command> [options]\n\n${rows.join('')}`);
  process.exitCode = asked ? 0 : 2;
} else {
  // Nothing that a library keeps open delays the end of a command that is done.
  process.exit(await command.run(argv));
}
