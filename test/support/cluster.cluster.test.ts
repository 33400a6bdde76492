import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testCluster } from './cluster.ts';
import { eventually } from './eventually.ts';
import { kubectl } from './kubectl.ts';

test('the cluster of a test is ready, has the CRDs and gives namespaces', async () => {
  const cluster = await testCluster();
  assert.equal((await kubectl(cluster.kubeconfigPath, ['get', '--raw', '/readyz'])).stdout, 'ok');
  const crds = await kubectl(cluster.kubeconfigPath, ['get', 'crd', '-o', 'name']);
  assert.match(crds.stdout, /workflows\.convoke\.dev/);
  const names = await Promise.all([cluster.namespace('one'), cluster.namespace('one'), cluster.namespace()]);
  assert.equal(new Set(names).size, 3);
  const { stdout } = await kubectl(cluster.kubeconfigPath, ['get', 'namespaces', '-o', 'name']);
  for (const name of names) assert.ok(stdout.includes(`namespace/${name}\n`), stdout);
});

test('an ordinary user may do nothing until RBAC says so', async () => {
  const cluster = await testCluster();
  const namespace = await cluster.namespace();
  const asAlice = await cluster.kubeconfigFor(cluster.user('alice'));
  const list = ['get', 'workflows', '-n', namespace];
  const refused = await kubectl(asAlice, list);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /User "alice" cannot list resource "workflows"/);
  const allow = async (...args: string[]): Promise<void> => {
    const { code, stderr } = await kubectl(cluster.kubeconfigPath, ['create', ...args, '-n', namespace]);
    assert.equal(code, 0, stderr);
  };
  await allow('role', 'reader', '--verb=list', '--resource=workflows.convoke.dev');
  await allow('rolebinding', 'reader', '--role=reader', '--user=alice');
  await eventually(async () => assert.equal((await kubectl(asAlice, list)).code, 0));
});

test('a failure of kubectl is a result', async () => {
  const { kubeconfigPath } = await testCluster();
  const { code, stdout, stderr } = await kubectl(kubeconfigPath, ['get', 'namespace', 'no-such-namespace']);
  assert.deepEqual({ code, stdout }, { code: 1, stdout: '' });
  assert.match(stderr, /NotFound/);
});
