import { parseArgs } from 'node:util';
import { parseDuration } from '../lib/duration.ts';
import type { LogLevel } from '../lib/log.ts';

export interface OperatorOptions {
  readonly host: string;
  readonly port: number;
  readonly healthHost: string;
  readonly healthPort: number;
  readonly auth: 'none';
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly gracePeriodMs: number;
  readonly shutdownGraceMs: number;
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
  readonly namespace: string | undefined;
  readonly watch: 'all' | 'own';
  readonly allowStdio: boolean;
  readonly runner: string | undefined;
  readonly logLevel: LogLevel;
}

interface Flag {
  readonly type: 'string' | 'boolean';
  /** As the help shows it; undefined where there is none. */
  readonly default?: string;
  readonly value?: string;
  readonly help: string;
}

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;

/** Each flag may also be given as an environment variable: --grace-period is CONVOKE_GRACE_PERIOD. */
const FLAGS = {
  host: { type: 'string', default: '127.0.0.1', value: 'ADDRESS', help: 'address that the MCP endpoint listens on' },
  port: { type: 'string', default: '8080', value: 'PORT', help: 'port of the MCP endpoint; 0 takes a free one' },
  'health-host': { type: 'string', default: '127.0.0.1', value: 'ADDRESS', help: 'address of /healthz and /readyz' },
  'health-port': { type: 'string', default: '8081', value: 'PORT', help: 'port of /healthz and /readyz' },
  auth: { type: 'string', default: 'none', value: 'MODE', help: 'who may call: none (only on a loopback address)' },
  'allowed-hosts': {
    type: 'string',
    default: '',
    value: 'NAMES',
    help: 'Host names accepted beside the loopback ones, with commas between them',
  },
  'allowed-origins': {
    type: 'string',
    default: '',
    value: 'NAMES',
    help: 'host names of browser Origins accepted beside the loopback ones, with commas',
  },
  'grace-period': {
    type: 'string',
    default: '500ms',
    value: 'DURATION',
    help: 'how long a call under taskBehavior auto waits for the end before it answers with a task',
  },
  'shutdown-grace': {
    type: 'string',
    default: '20s',
    value: 'DURATION',
    help: 'how long a stop waits for calls in flight to end and to be recorded',
  },
  kubeconfig: { type: 'string', value: 'FILE', help: "path of a kubeconfig; default the pod's, else as kubectl" },
  context: { type: 'string', value: 'NAME', help: 'context of the kubeconfig; default its current one' },
  namespace: { type: 'string', value: 'NAME', help: "namespace that /mcp serves; default the pod's or the context's" },
  watch: { type: 'string', default: 'all', value: 'all|own', help: 'namespaces that are served: all, or only its own' },
  'allow-stdio': { type: 'boolean', default: 'false', help: 'MCPServers of type stdio may start processes here' },
  runner: { type: 'string', value: 'NAME', help: 'identity in status.runner; default the host name and a random part' },
  'log-level': { type: 'string', default: 'info', value: LOG_LEVELS.join('|'), help: 'least level that is logged' },
  help: { type: 'boolean', help: 'show this and end' },
} as const satisfies Record<string, Flag>;

type FlagName = keyof typeof FLAGS;

/** What cannot be run with; the message is for whoever typed the command. */
export class OptionsError extends Error {
  override name = 'OptionsError';
}

/** @throws OptionsError that names the flag or variable and what it takes. Gives 'help' when that was asked for. */
export function parseOptions(argv: readonly string[], env: NodeJS.ProcessEnv): OperatorOptions | 'help' {
  const values = parseFlags(argv);
  if (values.help === true) return 'help';
  const text = (name: FlagName): string | undefined => {
    const given = values[name] ?? env[environmentName(name)];
    if (given !== undefined && given !== '') return String(given);
    const flag: Flag = FLAGS[name];
    return flag.default;
  };
  return {
    host: text('host') ?? '',
    port: port('port', text('port')),
    healthHost: text('health-host') ?? '',
    healthPort: port('health-port', text('health-port')),
    auth: oneOf('auth', text('auth'), ['none']),
    allowedHosts: list(text('allowed-hosts')),
    allowedOrigins: list(text('allowed-origins')),
    gracePeriodMs: duration('grace-period', text('grace-period')),
    shutdownGraceMs: duration('shutdown-grace', text('shutdown-grace')),
    kubeconfig: text('kubeconfig'),
    context: text('context'),
    namespace: text('namespace'),
    watch: oneOf('watch', text('watch'), ['all', 'own']),
    allowStdio: oneOf('allow-stdio', text('allow-stdio'), ['true', 'false']) === 'true',
    runner: identity('runner', text('runner')),
    logLevel: oneOf('log-level', text('log-level'), LOG_LEVELS),
  };
}

export function usage(): string {
  const flags = Object.entries<Flag>(FLAGS).map(([name, flag]) => {
    const left = `  --${name}${flag.value === undefined ? '' : ` ${flag.value}`}`;
    const shown = flag.default === undefined || flag.default === '' ? '' : ` (default ${flag.default})`;
    return [left, flag.help + shown] as const;
  });
  const width = Math.max(...flags.map(([left]) => left.length)) + 2;
  const rows = flags.map(([left, right]) => left.padEnd(width) + right);
  return [
    'Usage: convoke operator [options]',
    '',
    'Runs Workflows as MCP tasks. Each option may also be an environment variable: --grace-period is CONVOKE_GRACE_PERIOD.',
    '',
    ...rows,
    '',
  ].join('\n');
}

function environmentName(name: FlagName): string {
  return `CONVOKE_${name.toUpperCase().replaceAll('-', '_')}`;
}

function parseFlags(argv: readonly string[]): Partial<Record<FlagName, string | boolean>> {
  const options = Object.fromEntries(Object.entries(FLAGS).map(([name, { type }]) => [name, { type }]));
  try {
    return parseArgs({ args: [...argv], options, strict: true, allowPositionals: false }).values;
  } catch (error) {
    throw new OptionsError(error instanceof Error ? error.message : String(error));
  }
}

function port(name: FlagName, text = ''): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > 65_535) throw invalid(name, text, 'a port number from 0 to 65535');
  return value;
}

function duration(name: FlagName, text = ''): number {
  try {
    return parseDuration(text);
  } catch {
    throw invalid(name, text, 'a duration, for instance 500ms, 30s or 5m');
  }
}

/** The CRD takes no longer ones. */
function identity(name: FlagName, text: string | undefined): string | undefined {
  if (text !== undefined && text.length > 253) throw invalid(name, text, 'at most 253 characters');
  return text;
}

function oneOf<T extends string>(name: FlagName, text: string | undefined, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === text);
  if (found === undefined) throw invalid(name, text ?? '', choices.join(' or '));
  return found;
}

function list(text = ''): string[] {
  return text.split(',').flatMap((item) => (item.trim() === '' ? [] : [item.trim()]));
}

function invalid(name: FlagName, text: string, expected: string): OptionsError {
  return new OptionsError(`--${name} (or ${environmentName(name)}) is "${text}": expected ${expected}`);
}
