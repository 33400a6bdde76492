import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectHost } from '../../deploy/demo/host.ts';
import { ownCluster } from '../support/cluster.ts';
import { eventually } from '../support/eventually.ts';
import { startScene } from './scene.ts';

test('an operator that watches all namespaces has an endpoint for each, with the tools and runs of that one', async () => {
  const cluster = await ownCluster();
  const scene = await startScene({}, { cluster, flags: ['--watch=all'] });
  await scene.workflow('here', { steps: [{ id: 'nap', sleep: '1ms' }] });
  const other = await cluster.namespace('other');
  const elsewhere = {
    apiVersion: 'convoke.dev/v1alpha1',
    kind: 'Workflow',
    metadata: { name: 'elsewhere', namespace: other },
    spec: { taskBehavior: 'always', steps: [{ id: 'nap', sleep: '1h' }] },
  };
  await scene.kubectl(['-n', other, 'apply', '-f', '-'], JSON.stringify(elsewhere));
  const host = await connectHost(scene.operator.url.replace('/mcp', `/namespaces/${other}/mcp`));
  const names = async (from: typeof host): Promise<string[]> => (await from.tools()).map(({ name }) => name);
  await eventually(async () => assert.deepEqual(await names(host), ['workflow_elsewhere']));
  assert.deepEqual(await names(scene.host), ['workflow_here']);

  const answer = await host.call('workflow_elsewhere', {});
  assert.ok('task' in answer);
  assert.equal((await host.task(answer.task.taskId)).status, 'working');
  await assert.rejects(scene.host.task(answer.task.taskId), /-32602|not found|unknown/i);
  await host.close();
  await scene.close();
  await cluster.stop();
});
