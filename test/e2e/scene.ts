import { connectHost, type Host } from '../../deploy/demo/host.ts';
import type { Workflow, WorkflowSpec } from '../../src/api/workflow.ts';
import { isFinal, type WorkflowExecution, type WorkflowExecutionSpec } from '../../src/api/workflow-execution.ts';
import { type TestCluster, testCluster } from '../support/cluster.ts';
import { eventually } from '../support/eventually.ts';
import { narrowKubeconfig, type OperatorProcess, startOperatorProcess, succeed } from '../support/operator.ts';
import {
  startUpstream,
  type UpstreamOptions,
  type UpstreamServer,
  type UpstreamTool,
} from '../support/upstream-server.ts';

/** A namespace, an operator process under its narrow rights, an upstream as the MCPServer `up`, and an MCP host. */
export interface Scene {
  readonly cluster: TestCluster;
  readonly namespace: string;
  readonly upstream: UpstreamServer;
  operator: OperatorProcess;
  host: Host;
  kubectl(args: readonly string[], input?: string): Promise<string>;
  /** Applies the Workflow and waits until it is judged: `Ready` True, or whatever condition is named. */
  workflow(name: string, spec: WorkflowSpec, condition?: string): Promise<Workflow>;
  /** `kubectl create` of an execution; resolves with its name. */
  create(spec: WorkflowExecutionSpec): Promise<string>;
  execution(name: string): Promise<WorkflowExecution>;
  /** The execution as it is once its phase is final. */
  ended(name: string): Promise<WorkflowExecution>;
  /** The only execution of that Workflow. */
  onlyRun(workflow: string): Promise<WorkflowExecution>;
  /** Starts another operator, as after a crash or an update; the old one must have ended. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface SceneOptions extends UpstreamOptions {
  /** Default: the one of this test run, where the operator serves its own namespace alone; others run beside it. */
  readonly cluster?: TestCluster;
  readonly flags?: readonly string[];
}

export async function startScene(tools: Record<string, UpstreamTool>, options: SceneOptions = {}): Promise<Scene> {
  const { cluster = await testCluster(), flags = ['--watch=own'], ...upstreamOptions } = options;
  const namespace = await cluster.namespace('e2e');
  const upstream = await startUpstream({ tools, ...upstreamOptions });
  const kubectl = (args: readonly string[], input?: string): Promise<string> =>
    succeed(cluster.kubeconfigPath, ['-n', namespace, ...args], input);
  await kubectl(['apply', '-f', '-'], JSON.stringify(mcpServer('up', upstream.url)));

  const kubeconfig = await narrowKubeconfig(cluster);
  const start = (): Promise<OperatorProcess> =>
    startOperatorProcess({ kubeconfig, namespace, flags: ['--shutdown-grace=5s', ...flags] });
  const operator = await start();
  const get = async <T>(kind: string, name: string): Promise<T> =>
    JSON.parse(await kubectl(['get', kind, name, '-o', 'json'])) as T;

  const scene: Scene = {
    cluster,
    namespace,
    upstream,
    operator,
    host: await connectHost(operator.url),
    kubectl,
    async workflow(name, spec, condition = 'Ready') {
      const body = { apiVersion: 'convoke.dev/v1alpha1', kind: 'Workflow', metadata: { name }, spec };
      await kubectl(['apply', '-f', '-'], JSON.stringify(body));
      return eventually(async () => {
        const workflow = await get<Workflow>('workflow', name);
        const [type, status = 'True'] = condition.split('=');
        const found = workflow.status?.conditions?.find((each) => each.type === type);
        const judged = found?.observedGeneration === workflow.metadata.generation && found?.status === status;
        if (!judged) throw new Error(`not ${condition}: ${JSON.stringify(workflow.status)}`);
        return workflow;
      });
    },
    async create(spec) {
      const metadata = { generateName: 'by-hand-' };
      const body = { apiVersion: 'convoke.dev/v1alpha1', kind: 'WorkflowExecution', metadata, spec };
      const output = await kubectl(['create', '-o', 'name', '-f', '-'], JSON.stringify(body));
      return output.trim().split('/')[1] ?? '';
    },
    execution: (name) => get<WorkflowExecution>('workflowexecution', name),
    ended: (name) =>
      eventually(async () => {
        const execution = await get<WorkflowExecution>('workflowexecution', name);
        if (!isFinal(execution.status?.phase)) throw new Error(`not ended: ${JSON.stringify(execution.status)}`);
        return execution;
      }, 40_000),
    async onlyRun(workflow) {
      const selector = `--field-selector=spec.workflow=${workflow}`;
      const { items } = JSON.parse(await kubectl(['get', 'wfe', selector, '-o', 'json'])) as {
        items: WorkflowExecution[];
      };
      const [only] = items;
      if (items.length !== 1 || only === undefined) throw new Error(`expected one execution, found ${items.length}`);
      return only;
    },
    async restart() {
      await scene.host.close();
      scene.operator = await start();
      scene.host = await connectHost(scene.operator.url);
    },
    async close() {
      await scene.host.close();
      await scene.operator.stop();
      await upstream.close();
    },
  };
  return scene;
}

export function mcpServer(name: string, url: string): object {
  const spec = { type: 'streamable-http', url };
  return { apiVersion: 'convoke.dev/v1alpha1', kind: 'MCPServer', metadata: { name }, spec };
}
