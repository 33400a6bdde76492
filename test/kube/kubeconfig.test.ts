import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { stringify } from 'yaml';
import { UnavailableError } from '../../src/kube/errors.ts';
import { loadCluster } from '../../src/kube/kubeconfig.ts';
import { loopbackCertificates } from '../support/certificates.ts';
import { createFakeClock } from '../support/fake-clock.ts';

const folder = mkdtempSync(join(tmpdir(), 'convoke-kubeconfig-'));
after(() => rmSync(folder, { recursive: true }));

let files = 0;
function file(content: string): string {
  files += 1;
  const path = join(folder, `file-${files}`);
  writeFileSync(path, content);
  return path;
}

interface Parts {
  readonly server?: string;
  readonly cluster?: object;
  readonly user?: object;
  readonly namespace?: string;
}

function kubeconfig({ server = 'https://127.0.0.1:6443', cluster = {}, user = {}, namespace }: Parts = {}): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server, ...cluster } }],
    users: [
      { name: 'u', user },
      { name: 'other', user: { token: 'of-other' } },
    ],
    contexts: [
      { name: 'main', context: { cluster: 'c', user: 'u', namespace } },
      { name: 'second', context: { cluster: 'c', user: 'other', namespace: 'team-b' } },
      { name: 'dangling', context: { cluster: 'nowhere', user: 'u' } },
    ],
    'current-context': 'main',
  });
}

/** Sets variables of the environment for a test, as a pod or a shell would. */
async function withEnv(set: Record<string, string | undefined>, run: () => Promise<void>): Promise<void> {
  const saved = Object.fromEntries(Object.keys(set).map((name) => [name, process.env[name]]));
  const apply = (env: Record<string, string | undefined>): void => {
    for (const [name, value] of Object.entries(env)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
  apply(set);
  try {
    await run();
  } finally {
    apply(saved);
  }
}

/** What kubelet mounts into a pod, below a folder of its own. */
function serviceAccount(token: string, namespace: string): { root: string; tokenFile: string } {
  files += 1;
  const root = join(folder, `pod-${files}`);
  const mounted = join(root, 'var/run/secrets/kubernetes.io/serviceaccount');
  mkdirSync(mounted, { recursive: true });
  writeFileSync(join(mounted, 'token'), token);
  writeFileSync(join(mounted, 'namespace'), namespace);
  writeFileSync(join(mounted, 'ca.crt'), loopbackCertificates[0].cert);
  return { root, tokenFile: join(mounted, 'token') };
}

test('server, namespace and credentials of the current context', async () => {
  const path = file(kubeconfig({ server: 'https://127.0.0.1:6443/', user: { token: 't' }, namespace: 'team-a' }));
  const cluster = loadCluster({ kubeconfig: path });
  assert.equal(cluster.server, 'https://127.0.0.1:6443');
  assert.equal(cluster.namespace, 'team-a');
  assert.equal(cluster.context, 'main');
  assert.deepEqual(await cluster.credentials(), { headers: { authorization: 'Bearer t' }, tls: {} });
});

test('a context by its name; one without a namespace means default', async () => {
  const path = file(kubeconfig({ user: { token: 't' } }));
  const second = loadCluster({ kubeconfig: path, context: 'second' });
  assert.equal(second.namespace, 'team-b');
  assert.equal((await second.credentials()).headers.authorization, 'Bearer of-other');
  assert.equal(loadCluster({ kubeconfig: path }).namespace, 'default');
});

test('a context that is not there, or leads nowhere, is named together with those that are', () => {
  const path = file(kubeconfig());
  const expected = /file-\d+ has no usable context "(nope|dangling)": choose one of main, second, dangling/;
  assert.throws(() => loadCluster({ kubeconfig: path, context: 'nope' }), expected);
  assert.throws(() => loadCluster({ kubeconfig: path, context: 'dangling' }), expected);
  const none = file(kubeconfig().replace('current-context: main', ''));
  assert.throws(() => loadCluster({ kubeconfig: none }), /has no current context: choose one of main/);
  assert.throws(() => loadCluster({ kubeconfig: join(folder, 'missing') }), /missing/);
});

test('basic authentication, impersonation, proxy, CA, server name and client certificate', async () => {
  const { cert, key } = loopbackCertificates[0];
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const path = file(
    kubeconfig({
      cluster: {
        'certificate-authority-data': base64(cert),
        'tls-server-name': 'kubernetes',
        'proxy-url': 'http://proxy:3128',
      },
      user: {
        username: 'u',
        password: 'p',
        as: 'alice',
        'client-certificate': file(cert),
        'client-key-data': base64(key),
      },
    }),
  );
  const cluster = loadCluster({ kubeconfig: path });
  assert.equal(cluster.proxyUrl, 'http://proxy:3128');
  const { headers, tls } = await cluster.credentials();
  assert.deepEqual(headers, { authorization: `Basic ${base64('u:p')}`, 'impersonate-user': 'alice' });
  assert.deepEqual(tls, {
    ca: Buffer.from(cert),
    cert: Buffer.from(cert),
    key: Buffer.from(key),
    servername: 'kubernetes',
  });
});

test("in a pod: the ServiceAccount's token, CA and namespace, without the newlines at their ends", async () => {
  const { root } = serviceAccount('pod-token\n', 'convoke-system\n');
  await withEnv({ KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' }, async () => {
    const cluster = loadCluster({ serviceAccountRoot: root });
    assert.equal(cluster.server, 'https://[fd00::1]:443');
    assert.equal(cluster.namespace, 'convoke-system');
    const { headers, tls } = await cluster.credentials();
    assert.equal(headers.authorization, 'Bearer pod-token');
    assert.deepEqual(tls.ca, Buffer.from(loopbackCertificates[0].cert));
  });
});

test('outside a pod: $KUBECONFIG', async () => {
  const path = file(kubeconfig({ namespace: 'from-env' }));
  await withEnv({ KUBERNETES_SERVICE_HOST: undefined, KUBECONFIG: path }, async () => {
    assert.equal(loadCluster().namespace, 'from-env');
  });
});

test('B7: plain http gives credentials: in a kubeconfig, in a pod with port 8080, and as the last resort', async () => {
  const path = file(kubeconfig({ server: 'http://127.0.0.1:8001', user: { token: 't' } }));
  assert.equal((await loadCluster({ kubeconfig: path }).credentials()).headers.authorization, 'Bearer t');

  const { root } = serviceAccount('pod-token', 'ns');
  await withEnv({ KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: '8080' }, async () => {
    const cluster = loadCluster({ serviceAccountRoot: root });
    assert.equal(cluster.server, 'http://127.0.0.1:8080');
    assert.equal((await cluster.credentials()).headers.authorization, 'Bearer pod-token');
  });

  await withEnv({ KUBERNETES_SERVICE_HOST: undefined, KUBECONFIG: undefined, HOME: folder }, async () => {
    const cluster = loadCluster();
    assert.equal(cluster.server, 'http://localhost:8080');
    await cluster.credentials();
  });
});

test('files are read again after a second, and what did not change is the same object', async () => {
  const clock = createFakeClock();
  const ca = file(loopbackCertificates[0].cert);
  const path = file(kubeconfig({ cluster: { 'certificate-authority': ca } }));
  const cluster = loadCluster({ kubeconfig: path }, clock);
  const first = await cluster.credentials();
  await clock.advance(5_000);
  assert.equal(await cluster.credentials(), first);
  writeFileSync(ca, loopbackCertificates[1].cert);
  assert.equal(await cluster.credentials(), first);
  await clock.advance(1_000);
  assert.deepEqual((await cluster.credentials()).tls.ca, Buffer.from(loopbackCertificates[1].cert));
});

test('a file that is gone fails that call with what is missing, and the next one finds it again', async () => {
  const clock = createFakeClock();
  const ca = file(loopbackCertificates[0].cert);
  const cluster = loadCluster({ kubeconfig: file(kubeconfig({ cluster: { 'certificate-authority': ca } })) }, clock);
  rmSync(ca);
  await assert.rejects(cluster.credentials(), (error: unknown) => {
    assert.ok(error instanceof UnavailableError);
    assert.equal(error.outcome, 'none');
    assert.match(error.message, /cannot read the credentials of context "main": ENOENT.*file-/);
    return true;
  });
  writeFileSync(ca, loopbackCertificates[0].cert);
  await cluster.credentials();
});

test('renew reads a rotated token at once, and stays in its context whatever the file now calls current', async () => {
  const clock = createFakeClock();
  const path = file(kubeconfig({ user: { token: 'old' } }));
  const cluster = loadCluster({ kubeconfig: path }, clock);
  const old = await cluster.credentials();
  writeFileSync(
    path,
    kubeconfig({ user: { token: 'new' } }).replace('current-context: main', 'current-context: second'),
  );
  // Many requests meet the 401 at once: one read serves them all.
  const renewed = await Promise.all([cluster.renew(old), cluster.renew(old), cluster.renew(old)]);
  assert.equal(renewed[0]?.headers.authorization, 'Bearer new');
  assert.equal(new Set(renewed).size, 1);
  assert.equal(await cluster.credentials(), renewed[0]);
});

test('renew of a token file does not wait for the minute that client-node keeps it', async () => {
  const { root, tokenFile } = serviceAccount('old', 'ns');
  await withEnv({ KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: '443' }, async () => {
    const cluster = loadCluster({ serviceAccountRoot: root });
    const old = await cluster.credentials();
    writeFileSync(tokenFile, 'new');
    assert.equal((await cluster.renew(old)).headers.authorization, 'Bearer new');
  });
});

test('renew gives back what was refused when nothing changed, and reads at most once a second', async () => {
  const clock = createFakeClock();
  const path = file(kubeconfig({ user: { token: 'old' } }));
  const cluster = loadCluster({ kubeconfig: path }, clock);
  const refused = await cluster.credentials();
  assert.equal(await cluster.renew(refused), refused);
  writeFileSync(path, kubeconfig({ user: { token: 'new' } }));
  assert.equal(await cluster.renew(refused), refused);
  await clock.advance(1_000);
  assert.equal((await cluster.renew(refused)).headers.authorization, 'Bearer new');
});

test('renew from a kubeconfig that is gone fails each time, and not for longer than it is gone', async () => {
  const clock = createFakeClock();
  const path = file(kubeconfig({ user: { token: 'old' } }));
  const cluster = loadCluster({ kubeconfig: path }, clock);
  const refused = await cluster.credentials();
  rmSync(path);
  for (const _ of [1, 2]) {
    await assert.rejects(cluster.renew(refused), UnavailableError);
    await clock.advance(1_000);
  }
  writeFileSync(path, kubeconfig({ user: { token: 'new' } }));
  assert.equal((await cluster.renew(refused)).headers.authorization, 'Bearer new');
});

test('an exec plugin is started once for all requests that wait for it, and again for renew', async () => {
  const clock = createFakeClock();
  const count = file('');
  const script = file(`
    const { appendFileSync, readFileSync } = require('node:fs');
    appendFileSync(${JSON.stringify(count)}, 'x');
    const token = 'exec-' + readFileSync(${JSON.stringify(count)}, 'utf8').length;
    console.log(JSON.stringify({ apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status: { token } }));
  `);
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: process.execPath, args: [script] };
  const cluster = loadCluster({ kubeconfig: file(kubeconfig({ user: { exec } })) }, clock);
  const [first, second] = await Promise.all([cluster.credentials(), cluster.credentials()]);
  assert.equal(first?.headers.authorization, 'Bearer exec-1');
  assert.equal(first, second);
  await clock.advance(60_000);
  assert.equal(await cluster.credentials(), first);
  assert.equal((await cluster.renew(first)).headers.authorization, 'Bearer exec-2');
  assert.equal(readFileSync(count, 'utf8').length, 2);
});

test('an exec plugin that fails is reported with what it said', async () => {
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: process.execPath,
    args: ['-e', 'console.error("please log in"); process.exit(1)'],
  };
  const cluster = loadCluster({ kubeconfig: file(kubeconfig({ user: { exec } })) });
  await assert.rejects(cluster.credentials(), /cannot read the credentials of context "main": please log in/);
});
