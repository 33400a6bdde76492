import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { describeError } from '../../src/lib/errors.ts';
import { interruptSignal } from '../local/interrupt-signal.ts';
import { type Answer, connectHost, type Host, type ToolAnswer } from './host.ts';
import { type Stage, setUp } from './stage.ts';

/**
 * `npm run demo [-- --once] [-- --kubeconfig FILE]`: the main job from end to end, on real parts, told to a person. Ends with
 * 1 when anything is not as told.
 */
const USAGE = 'Usage: npm run demo -- [--once] [--kubeconfig FILE]';
/** No task of the demo takes so long. */
const END_MS = 60_000;
const WORKFLOWS = ['weather', 'backup-config', 'long-report'];

const styled = process.stdout.isTTY
  ? (code: string, text: string) => `\x1b[${code}m${text}\x1b[0m`
  : (_: string, text: string) => text;
const title = (text: string): void => console.log(`\n${styled('1', `■ ${text}`)}`);
const say = (text: string): void => console.log(`  ${text}`);
const typed = (text: string): void => console.log(`  ${styled('36', text)}`);
const indented = (text: string): void => console.log(text.trimEnd().replace(/^/gm, '    '));

async function show(stage: Stage, line: string, input?: string): Promise<string> {
  typed(`$ kubectl ${line}${input === undefined ? '' : ' -f -'}`);
  const output = await stage.kubectl([...line.split(' '), ...(input === undefined ? [] : ['-f', '-'])], input);
  indented(output);
  return output;
}

async function applyExamples(stage: Stage): Promise<void> {
  title('An admin applies MCP servers and Workflows');
  say('examples/mcpservers.yaml names the upstream servers; then:');
  for (const name of WORKFLOWS) await show(stage, `apply -f examples/${name}.yaml`);
  await stage.kubectl(['wait', '--for=condition=Ready', '--timeout=60s', 'mcps', '--all']);
  await stage.kubectl(['wait', '--for=condition=Ready', '--timeout=60s', 'wf', '--all']);
  await show(stage, 'get wf,mcps');
}

async function listTools(host: Host): Promise<void> {
  title('An MCP host connects and lists the tools');
  say(`server/discover → ${host.server.name} ${host.server.version}, extensions: ${host.extensions.join(', ')}`);
  typed('tools/list');
  for (const tool of await host.tools()) {
    const args = Object.keys((tool.inputSchema.properties ?? {}) as object).join(', ');
    indented(`${`${tool.name}(${args})`.padEnd(46)} ${tool.description ?? ''}`);
  }
}

async function callInPlace(host: Host): Promise<void> {
  title('A short run answers in place');
  const { answer, ms } = await called(host, 'workflow_weather', { city: 'Chicago' });
  const result = expectResult(answer);
  indented(`after ${ms} ms: ${JSON.stringify(result.structuredContent)}`);
}

async function callWithEffect(host: Host, stage: Stage): Promise<void> {
  title('A run that changes something real: it reads a ConfigMap and writes another');
  await stage.kubectl(['delete', 'configmap', 'settings', 'settings-backup', '--ignore-not-found']);
  await show(stage, 'create configmap settings --from-literal=colour=blue --from-literal=size=42');
  const { answer, ms } = await called(host, 'workflow_backup-config', { name: 'settings', namespace: stage.namespace });
  const result = 'task' in answer ? await poll(host, answer.task.taskId) : expectResult(answer);
  indented(`after ${ms} ms: ${JSON.stringify(result.structuredContent)}`);
  await show(stage, 'get configmap settings settings-backup');
}

async function callAsTask(host: Host): Promise<void> {
  title('A long run answers with a task after the grace period; the host polls it to its end');
  const { answer, ms } = await called(host, 'workflow_long-report', { seconds: 3 });
  if (!('task' in answer)) throw new Error(`expected a task, got ${JSON.stringify(answer)}`);
  indented(`after ${ms} ms: task ${answer.task.taskId}, ${answer.task.status}`);
  const result = await poll(host, answer.task.taskId);
  indented(JSON.stringify(result.structuredContent));
}

async function cancelTask(host: Host, stage: Stage): Promise<void> {
  title('A task is cancelled; the upstream call in flight is cancelled with it');
  const { answer } = await called(host, 'workflow_long-report', { seconds: 600 });
  if (!('task' in answer)) throw new Error(`expected a task, got ${JSON.stringify(answer)}`);
  const { taskId } = answer.task;
  typed(`tasks/cancel ${taskId}`);
  await host.cancel(taskId);
  const ended = await finalTask(host, taskId);
  indented(`tasks/get → ${ended.status}`);
  if (ended.status !== 'cancelled') throw new Error(`expected a cancelled task, got ${JSON.stringify(ended)}`);
  typed(`$ kubectl describe wfe ${taskId}   (its Events)`);
  const described = await stage.kubectl(['describe', 'wfe', taskId]);
  indented(described.slice(described.indexOf('Events:')));
}

async function runByKubectl(stage: Stage): Promise<void> {
  title('To create the object is to start the run: kubectl does it as well');
  const execution = {
    apiVersion: 'convoke.dev/v1alpha1',
    kind: 'WorkflowExecution',
    metadata: { name: 'by-hand' },
    spec: { workflow: 'weather', args: { city: 'New York' } },
  };
  await stage.kubectl(['delete', 'wfe', 'by-hand', '--ignore-not-found']);
  await show(stage, 'create', JSON.stringify(execution));
  await stage.kubectl(['wait', '--for=jsonpath={.status.phase}=completed', '--timeout=30s', 'wfe/by-hand']);
  await show(stage, 'get wfe by-hand -o jsonpath={.status.result.structuredContent}');
}

async function called(
  host: Host,
  name: string,
  args: Record<string, unknown>,
): Promise<{ answer: Answer; ms: number }> {
  typed(`tools/call ${name} ${JSON.stringify(args)}`);
  const begin = performance.now();
  const answer = await host.call(name, args);
  return { answer, ms: Math.round(performance.now() - begin) };
}

async function poll(host: Host, taskId: string): Promise<ToolAnswer> {
  const task = await finalTask(host, taskId, true);
  if (task.status !== 'completed') throw new Error(`expected a completed task, got ${JSON.stringify(task)}`);
  return expectResult({ result: task.result as ToolAnswer });
}

async function finalTask(host: Host, taskId: string, told = false): ReturnType<Host['task']> {
  const giveUpAt = performance.now() + END_MS;
  for (;;) {
    const task = await host.task(taskId);
    if (told)
      indented(`tasks/get → ${task.status}${task.statusMessage === undefined ? '' : `: ${task.statusMessage}`}`);
    if (task.status !== 'working') return task;
    if (performance.now() > giveUpAt) throw new Error(`task ${taskId} has not ended: ${JSON.stringify(task)}`);
    await delay(task.pollIntervalMs ?? 1_000);
  }
}

function expectResult(answer: Answer): ToolAnswer {
  if (!('result' in answer) || answer.result.isError)
    throw new Error(`expected a result, got ${JSON.stringify(answer)}`);
  return answer.result;
}

async function main(signal: AbortSignal): Promise<void> {
  const { values } = parseArgs({
    options: { once: { type: 'boolean' }, kubeconfig: { type: 'string' }, help: { type: 'boolean' } },
  });
  if (values.help) return console.log(USAGE);
  console.log(styled('1', 'Convoke: workflows as MCP tasks, on Kubernetes'));
  title('Setting the stage');
  const stage = await setUp(values.kubeconfig, say, signal);
  try {
    await applyExamples(stage);
    const host = await connectHost(stage.endpoint);
    try {
      await listTools(host);
      await callInPlace(host);
      await callWithEffect(host, stage);
      await callAsTask(host);
      await cancelTask(host, stage);
      await runByKubectl(stage);
    } finally {
      await host.close();
    }
    title('What an admin sees');
    await show(stage, 'get wf,wfe,mcps');
    if (values.once) return;
    await stayUp(stage, signal);
  } finally {
    await stage.stop();
  }
}

async function stayUp(stage: Stage, signal: AbortSignal): Promise<void> {
  const { kubeconfigPath, namespace, endpoint, operatorLog, broken } = stage;
  title('It stays up until Ctrl-C. Try it from another terminal:');
  say(`export KUBECONFIG=${kubeconfigPath}; kubectl -n ${namespace} get wf,wfe,mcps`);
  say(`MCP endpoint: ${endpoint}    operator log: ${operatorLog}`);
  say('configuration of an MCP client:');
  indented(JSON.stringify({ mcpServers: { convoke: { type: 'http', url: endpoint } } }, undefined, 2));
  const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  await Promise.race([stopped, broken]);
}

try {
  await main(interruptSignal());
} catch (error) {
  const usage = error instanceof TypeError && 'code' in error ? `\n${USAGE}` : '';
  console.error(`\n✖ ${describeError(error)}${usage}`);
  process.exitCode = 1;
}
