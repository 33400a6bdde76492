import { randomUUID } from 'node:crypto';
import { Agent, request } from 'undici';
import { API_VERSION, REVISION_ANNOTATION, WORKFLOW_EXECUTION, WORKFLOW_LABEL } from '../../src/api/constants.ts';
import type { WorkflowExecution } from '../../src/api/workflow-execution.ts';
import { connect } from '../../src/kube/connect.ts';
import { loadCluster } from '../../src/kube/kubeconfig.ts';
import { ownCluster } from '../support/cluster.ts';
import { narrowKubeconfig, startOperatorProcess, succeed } from '../support/operator.ts';

/**
 * How long from `tools/call` to a task handle, beside a bare create of the same object by the same kind of client; both in
 * turn, one at a time. etcd does not wait for the disk here. Usage: `npm run bench [-- ROUNDS]`
 */
const ROUNDS = Number(process.argv[2] ?? 300);
const WARM_UP = 30;

const cluster = await ownCluster();
const namespace = await cluster.namespace('bench');
const bare = await cluster.namespace('bare');
const spec = { taskBehavior: 'always', steps: [{ id: 'nap', sleep: '1h' }] };
const workflow = { apiVersion: API_VERSION, kind: 'Workflow', metadata: { name: 'nap', namespace }, spec };
await succeed(cluster.kubeconfigPath, ['apply', '-f', '-'], JSON.stringify(workflow));
const kubeconfig = await narrowKubeconfig(cluster);
const operator = await startOperatorProcess({ kubeconfig, namespace, flags: ['--watch=own', '--log-level=info'] });
const client = connect(loadCluster({ kubeconfig }));
const executions = client.resource<WorkflowExecution>(WORKFLOW_EXECUTION);
const agent = new Agent();

async function createBare(): Promise<void> {
  await executions.create({
    apiVersion: API_VERSION,
    kind: WORKFLOW_EXECUTION.kind,
    metadata: {
      name: randomUUID(),
      namespace: bare,
      labels: { [WORKFLOW_LABEL]: 'nap' },
      annotations: { [REVISION_ANNOTATION]: 'nap-0123456789' },
    },
    spec: { workflow: 'nap', args: {}, requestedBy: { subject: 'anonymous', via: 'mcp' } },
  });
}

async function call(): Promise<void> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'workflow_nap',
  };
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
  };
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'workflow_nap', arguments: {}, _meta } };
  const answer = await request(operator.url, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
    dispatcher: agent,
  });
  const { result } = (await answer.body.json()) as { result?: { resultType?: string } };
  if (result?.resultType !== 'task') throw new Error(`no task: ${JSON.stringify(result)}`);
}

const times = { 'bare create': [] as number[], 'tools/call → task handle': [] as number[] };
for (let round = -WARM_UP; round < ROUNDS; round++) {
  for (const [name, run] of [
    ['bare create', createBare],
    ['tools/call → task handle', call],
  ] as const) {
    const begin = performance.now();
    await run();
    if (round >= 0) times[name].push(performance.now() - begin);
  }
}
const quantile = (values: number[], q: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * q)] ?? 0;
for (const q of [0.5, 0.99]) {
  const [base, measured] = Object.values(times).map((values) => quantile(values, q));
  const ratio = ((measured ?? 0) / (base ?? 1)).toFixed(2);
  console.log(
    `p${q * 100}: bare create ${base?.toFixed(2)} ms, tools/call → task handle ${measured?.toFixed(2)} ms, ratio ${ratio}`,
  );
}
await agent.close();
await client.close();
await operator.stop();
await cluster.stop();
