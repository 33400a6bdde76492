import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OptionsError, parseOptions, usage } from '../../src/operator/options.ts';

function parsed(argv: string[], env: NodeJS.ProcessEnv = {}): Exclude<ReturnType<typeof parseOptions>, 'help'> {
  const options = parseOptions(argv, env);
  assert.notEqual(options, 'help');
  return options as Exclude<typeof options, 'help'>;
}

test('without flags: loopback, no authentication, the documented times', () => {
  const { host, port, auth, gracePeriodMs, watch, allowStdio, kubeconfig } = parsed([]);
  assert.deepEqual(
    { host, port, auth, gracePeriodMs, watch, allowStdio, kubeconfig },
    {
      host: '127.0.0.1',
      port: 8080,
      auth: 'none',
      gracePeriodMs: 500,
      watch: 'all',
      allowStdio: false,
      kubeconfig: undefined,
    },
  );
});

test('a flag wins over its environment variable, and that over the default', () => {
  const env = { CONVOKE_PORT: '1234', CONVOKE_ALLOW_STDIO: 'true', CONVOKE_ALLOWED_HOSTS: 'a.example, b.example' };
  assert.equal(parsed([], env).port, 1234);
  assert.equal(parsed(['--port', '99'], env).port, 99);
  assert.equal(parsed([], env).allowStdio, true);
  assert.deepEqual(parsed([], env).allowedHosts, ['a.example', 'b.example']);
  assert.equal(parsed([], { CONVOKE_PORT: '' }).port, 8080);
});

test('a value that cannot be is refused with the flag, the variable and what was expected', () => {
  const cases: [string[], RegExp][] = [
    [['--port', 'http'], /--port \(or CONVOKE_PORT\) is "http": expected a port number/],
    [['--port', '65536'], /expected a port number/],
    [['--grace-period', '500'], /--grace-period .* is "500": expected a duration/],
    [['--auth', 'basic'], /--auth .* expected none/],
    [['--watch', 'some'], /expected all or own/],
    [['--log-level', 'loud'], /expected debug or info/],
    [['--runner', 'r'.repeat(254)], /expected at most 253 characters/],
    [['--prot', '1'], /--prot/],
    [['extra'], /extra/],
  ];
  for (const [argv, message] of cases) {
    assert.throws(
      () => parseOptions(argv, {}),
      (error) => error instanceof OptionsError && message.test(error.message),
    );
  }
});

test('the help lists each flag with its default', () => {
  assert.equal(parseOptions(['--help'], {}), 'help');
  const text = usage();
  const listed = [...text.matchAll(/^ {2}--([a-z-]+)/gm)].map(([, name]) => name);
  const options = Object.keys(parsed([])).map((name) => name.replace(/Ms$/, ''));
  const kebab = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  assert.deepEqual(listed.sort(), ['help', ...options.map(kebab)].sort());
  assert.match(text, /--log-level debug\|info\|warn\|error\|silent {2}least level/);
  assert.match(text, /--grace-period DURATION .*\(default 500ms\)/);
});
