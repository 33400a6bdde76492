import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectHost } from '../../deploy/demo/host.ts';
import type { WorkflowExecution } from '../../src/api/workflow-execution.ts';
import { startApiProxy } from '../support/api-proxy.ts';
import { testCluster } from '../support/cluster.ts';
import { eventually } from '../support/eventually.ts';
import { narrowToken, startOperatorProcess, succeed } from '../support/operator.ts';
import { startUpstream } from '../support/upstream-server.ts';
import { mcpServer } from './scene.ts';

test('the API server away: a run goes on, a new call is refused after ten seconds, and nothing is lost', async (t) => {
  const cluster = await testCluster();
  const namespace = await cluster.namespace('away');
  const kubectl = (args: readonly string[], input?: string): Promise<string> =>
    succeed(cluster.kubeconfigPath, ['-n', namespace, ...args], input);
  const gate = Promise.withResolvers<string>();
  const upstream = await startUpstream({
    tools: { first: { handler: () => gate.promise }, second: { handler: () => 'second' } },
  });
  t.after(() => upstream.close());
  await kubectl(['apply', '-f', '-'], JSON.stringify(mcpServer('up', upstream.url)));
  const workflow = {
    apiVersion: 'convoke.dev/v1alpha1',
    kind: 'Workflow',
    metadata: { name: 'two' },
    spec: {
      steps: [
        { id: 'one', tool: 'up/first' },
        { id: 'two', tool: 'up/second' },
      ],
    },
  };
  await kubectl(['apply', '-f', '-'], JSON.stringify(workflow));

  const proxy = await startApiProxy({ url: cluster.url, token: await narrowToken(cluster) });
  t.after(() => proxy.close());
  const kubeconfig = proxy.kubeconfigPath;
  const operator = await startOperatorProcess({ kubeconfig, namespace, flags: ['--watch=own', '--shutdown-grace=5s'] });
  t.after(() => operator.stop());
  const host = await connectHost(operator.url);
  t.after(() => host.close());
  await kubectl(['wait', '--for=condition=Ready', '--timeout=30s', 'wf/two']);

  const answer = await host.call('workflow_two', {});
  assert.ok('task' in answer);
  const { taskId } = answer.task;
  await upstream.called('first');
  const away = proxy.fault({}, { cut: 'request' });
  proxy.relay.cut();
  gate.resolve('first');
  await assert.rejects(host.call('workflow_two', {}), /-32603.*did not record the run within 10s/);
  assert.ok(away.hits > 0);
  assert.deepEqual(
    upstream.calls.map(({ tool }) => tool),
    ['first'],
    'a step with effects waits for its record',
  );
  away[Symbol.dispose]();

  const execution = async (): Promise<WorkflowExecution> =>
    JSON.parse(await kubectl(['get', 'wfe', taskId, '-o', 'json'])) as WorkflowExecution;
  await eventually(async () => assert.equal((await execution()).status?.phase, 'completed'), 40_000);
  assert.equal(upstream.calls.filter(({ key }) => key?.includes(taskId)).length, 2);
  await eventually(async () => assert.equal((await host.task(taskId)).status, 'completed'));
  await eventually(async () => {
    const phases = await kubectl(['get', 'wfe', '-o', 'jsonpath={.items[*].status.phase}']);
    assert.deepEqual(phases.split(' ').sort(), ['cancelled', 'completed']);
  }, 40_000);
  assert.equal(upstream.calls.length, 2, 'of the run that was refused nothing was called');
});
