import { hostname } from 'node:os';
import packageJson from '../../package.json' with { type: 'json' };
import {
  CONTROLLER_REVISION,
  MCP_SERVER,
  SECRET,
  WORKFLOW,
  WORKFLOW_EXECUTION,
  WORKFLOW_LABEL,
} from '../api/constants.ts';
import type { ControllerRevision, Secret } from '../api/controller-revision.ts';
import type { MCPServer } from '../api/mcp-server.ts';
import { type KubeObject, type ResourceType, splitKey } from '../api/object.ts';
import { toolNameOf, type Workflow } from '../api/workflow.ts';
import { isFinal, type WorkflowExecution } from '../api/workflow-execution.ts';
import type { KubeClient } from '../kube/client.ts';
import { connect } from '../kube/connect.ts';
import { createEventRecorder } from '../kube/event-recorder.ts';
import { loadCluster } from '../kube/kubeconfig.ts';
import { type Reflector, type ReflectorOptions, startReflector } from '../kube/reflector.ts';
import { type Outcome, startWorkQueue, type WorkQueue } from '../kube/work-queue.ts';
import { settledWithin } from '../lib/abort.ts';
import { systemClock } from '../lib/clock.ts';
import { systemIds } from '../lib/ids.ts';
import type { Logger } from '../lib/log.ts';
import { startEndpoint } from '../mcp/endpoint.ts';
import { hostOfUrl } from '../mcp/host-check.ts';
import { startUpstreams } from '../upstream/upstreams.ts';
import { ActiveRuns } from './active-runs.ts';
import { createExecutionReconciler } from './execution-reconciler.ts';
import { type HealthServer, startHealthServer } from './health-server.ts';
import type { OperatorOptions } from './options.ts';
import { workflowOfRevision } from './revisions.ts';
import { createRunStore } from './run-store.ts';
import { createServerReconciler } from './server-reconciler.ts';
import { WorkflowCatalog } from './workflow-catalog.ts';
import { BY_TOOL_NAME, BY_WORKFLOW, createWorkflowReconciler, UNFINISHED } from './workflow-reconciler.ts';

export interface RunningOperator {
  /** Of the MCP endpoint of its own namespace. */
  readonly url: string;
  /** Base of `/healthz` and `/readyz`. */
  readonly healthUrl: string;
  /** Resolves when everything is judged once that was there at the start. */
  readonly ready: Promise<void>;
  /** No new runs; those in flight end their step and are handed on through their record. */
  stop(): Promise<void>;
}

/** Index of the Workflow store by `<namespace>/<MCPServer>`. */
const BY_SERVER = 'server';
const FLUSH_MS = 2_000;
const BROKEN_RETRY_MS = 10_000;

/**
 * Joins everything; the only file that knows all of it.
 * @throws Error when the kubeconfig is unusable or a port is taken. An API server that is away is no error: it is waited for.
 */
export async function startOperator(options: OperatorOptions, log: Logger): Promise<RunningOperator> {
  const clock = systemClock;
  const cluster = loadCluster({
    ...(options.kubeconfig !== undefined && { kubeconfig: options.kubeconfig }),
    ...(options.context !== undefined && { context: options.context }),
  });
  const ownNamespace = options.namespace ?? cluster.namespace;
  const runner = options.runner ?? `${hostname()}-${systemIds.newId().slice(0, 8)}`;
  const client = connect(cluster);
  /** Ends what takes up new work; then, after what is in flight, `lifetime` ends the rest. */
  const intake = new AbortController();
  const lifetime = new AbortController();
  const { signal } = lifetime;

  const events = createEventRecorder(
    { client, component: 'convoke', instance: runner, clock, ids: systemIds, log },
    signal,
  );
  const recordEvent = (object: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string): void =>
    events.record(object, type, reason, message);

  const watched = options.watch === 'own' ? ownNamespace : undefined;
  const reflect = <T extends KubeObject>(
    type: ResourceType,
    parts: Pick<ReflectorOptions<T>, 'onKey' | 'indexes' | 'labelSelector'>,
  ): Reflector<T> =>
    startReflector({ client: client.resource<T>(type), namespace: watched, clock, log, ...parts }, signal);

  const workflows = reflect<Workflow>(WORKFLOW, {
    onKey: (key) => workflowQueue.add(key),
    indexes: {
      [BY_TOOL_NAME]: (workflow) => [`${workflow.metadata.namespace}/${toolNameOf(workflow)}`],
      [BY_SERVER]: (workflow) => serversOf(workflow),
    },
  });
  const executions = reflect<WorkflowExecution>(WORKFLOW_EXECUTION, {
    onKey: (key) => executionQueue.add(key),
    indexes: {
      [UNFINISHED]: ({ metadata, spec, status }) =>
        isFinal(status?.phase) ? [] : [`${metadata.namespace}/${spec.workflow}`],
    },
  });
  const servers = reflect<MCPServer>(MCP_SERVER, { onKey: (key) => serverQueue.add(key) });
  const revisions = reflect<ControllerRevision>(CONTROLLER_REVISION, {
    labelSelector: WORKFLOW_LABEL,
    onKey: (key) => {
      const { namespace, name } = splitKey(key);
      workflowQueue.add(`${namespace}/${workflowOfRevision(name)}`);
    },
    indexes: { [BY_WORKFLOW]: ({ metadata }) => [`${metadata.namespace}/${metadata.labels?.[WORKFLOW_LABEL]}`] },
  });
  const reflectors = [workflows, executions, servers, revisions];
  const synced = Promise.all(reflectors.map((reflector) => reflector.synced));
  synced.catch(() => {}); // only a stop before the first sync rejects it

  const upstreams = startUpstreams(
    {
      resolveSecret: secretReader(client),
      allowStdio: options.allowStdio,
      version: packageJson.version,
      clock,
      log,
      onChange: (key) => serverQueue.add(key),
    },
    signal,
  );
  const catalog = new WorkflowCatalog((namespace) => watched === undefined || namespace === watched);
  const executionClient = client.resource<WorkflowExecution>(WORKFLOW_EXECUTION);
  const observe = (execution: WorkflowExecution): void => executions.observe(execution);
  const runs = new ActiveRuns(
    {
      executions: executions.store,
      client: executionClient,
      observe,
      store: createRunStore({ client: executionClient, observe, clock, log }),
      tools: upstreams.caller,
      recordEvent,
      onLeft: (workflowKey) => workflowQueue.add(workflowKey),
      onBroken: (key) => executionQueue.addAfter(key, BROKEN_RETRY_MS),
      runner,
      clock,
      ids: systemIds,
      log,
    },
    signal,
  );

  /** Nothing is judged by half a picture. */
  const queue = (
    name: string,
    concurrency: number,
    reconcile: (key: string, signal: AbortSignal) => Promise<Outcome>,
  ): WorkQueue =>
    startWorkQueue(
      {
        name,
        concurrency,
        clock,
        log,
        reconcile: async (key, stop) => {
          await synced;
          return reconcile(key, stop);
        },
      },
      intake.signal,
    );
  const { missing, reach } = upstreams;
  const workflowClient = client.resource<Workflow>(WORKFLOW);
  const revisionClient = client.resource<ControllerRevision>(CONTROLLER_REVISION);
  const stores = { workflows: workflows.store, executions: executions.store, revisions: revisions.store };
  const workflowQueue: WorkQueue = queue(
    'workflows',
    4,
    createWorkflowReconciler({
      ...stores,
      workflowClient,
      revisionClient,
      catalog,
      missing,
      reach,
      record: recordEvent,
      enqueue: (key) => workflowQueue.add(key),
      clock,
    }),
  );
  const serverQueue: WorkQueue = queue(
    'mcpservers',
    4,
    createServerReconciler({
      servers: servers.store,
      client: client.resource<MCPServer>(MCP_SERVER),
      upstreams,
      onServer: (key) => {
        for (const { metadata } of workflows.store.by(BY_SERVER, key)) {
          workflowQueue.add(`${metadata.namespace}/${metadata.name}`);
        }
      },
      clock,
    }),
  );
  const executionQueue: WorkQueue = queue(
    'executions',
    8,
    createExecutionReconciler({
      ...stores,
      client: executionClient,
      revisionClient,
      catalog,
      missing,
      runs,
      recordEvent,
      onEnd: (namespace, workflow) => workflowQueue.add(`${namespace}/${workflow}`),
      startedAt: clock.now(),
      clock,
    }),
  );

  let notReady: string | undefined = 'waiting for the first sync with the API server';
  const ready = (async () => {
    await synced;
    await workflowQueue.idle();
    intake.signal.throwIfAborted();
    notReady = undefined;
    log.info({ workflows: workflows.store.size, executions: executions.store.size }, 'ready');
  })();
  ready.catch(() => {}); // as `synced`

  let health: HealthServer | undefined;
  const close = async (): Promise<void> => {
    intake.abort();
    lifetime.abort();
    await Promise.all([upstreams.done, ...reflectors.map((reflector) => reflector.done)]);
    await client.close();
    await health?.close();
  };
  try {
    const { healthHost: host, healthPort: port } = options;
    health = await startHealthServer({ host, port, notReady: () => notReady });
    const endpoint = await startEndpoint(
      {
        catalog,
        runs,
        clock,
        ids: systemIds,
        log,
        options: { ...options, ownNamespace, version: packageJson.version },
      },
      signal,
    );
    const healthUrl = `http://${hostOfUrl(host)}:${health.port}`;
    log.info({ url: endpoint.url, healthUrl, namespace: ownNamespace, runner }, 'listening');
    return {
      url: endpoint.url,
      healthUrl,
      ready,
      async stop() {
        notReady = 'stopping';
        intake.abort();
        // Twice: a call that was waiting for a server may have started a run meanwhile.
        const closed = endpoint.close().then(() => runs.drain());
        await settledWithin(options.shutdownGraceMs, Promise.all([runs.drain(), closed]), clock);
        await settledWithin(FLUSH_MS, events.flush(), clock);
        // A write that was left to end by itself may wait for an API server that never answers.
        await settledWithin(FLUSH_MS, close(), clock);
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function serversOf(workflow: Workflow): string[] {
  const names = workflow.spec.steps.flatMap(({ tool }) => (tool === undefined ? [] : [tool.split('/', 1)[0]]));
  return [...new Set(names)].map((name) => `${workflow.metadata.namespace}/${name}`);
}

function secretReader(client: KubeClient): (namespace: string, name: string, key: string) => Promise<string> {
  const secrets = client.resource<Secret>(SECRET);
  return async (namespace, name, key) => {
    const { data } = await secrets.get(namespace, name);
    const value = data?.[key];
    if (value === undefined) throw new Error(`Secret "${name}" has no key "${key}"`);
    return Buffer.from(value, 'base64').toString();
  };
}
