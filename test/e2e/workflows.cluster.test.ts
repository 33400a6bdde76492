import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { MCPServer } from '../../src/api/mcp-server.ts';
import { eventually } from '../support/eventually.ts';
import { startUpstream } from '../support/upstream-server.ts';
import { mcpServer, type Scene, startScene } from './scene.ts';

const echo = { echo: { handler: () => 'echo' } };
let scene: Scene;

before(async () => {
  scene = await startScene(echo);
});
after(() => scene?.close());

const names = async (): Promise<string[]> => (await scene.host.tools()).map(({ name }) => name);

test('a Workflow that names what is not there says which, and becomes Ready by itself when it appears', async (t) => {
  const steps = [
    { id: 'a', tool: 'late/echo' },
    { id: 'b', tool: 'up/nothing' },
  ];
  const missing = await scene.workflow('waiting', { taskBehavior: 'never', steps }, 'Ready=False');
  const [message] =
    missing.status?.conditions?.flatMap(({ type, message }) => (type === 'Ready' ? [message] : [])) ?? [];
  assert.match(message ?? '', /late/);
  assert.match(message ?? '', /nothing/);
  const answer = await scene.host.call('workflow_waiting', {});
  assert.ok('result' in answer && answer.result.isError);
  assert.match(answer.result.content?.[0]?.text ?? '', /late/);
  assert.equal((await scene.kubectl(['get', 'wfe', '-o', 'name'])).trim(), '', 'no run was created');

  const late = await startUpstream({ tools: echo });
  t.after(() => late.close());
  await scene.kubectl(['apply', '-f', '-'], JSON.stringify(mcpServer('late', late.url)));
  await scene.upstream.setTools({ ...echo, nothing: { handler: () => 'something' } });
  await scene.workflow('waiting', { taskBehavior: 'never', steps });
  const server = JSON.parse(await scene.kubectl(['get', 'mcps', 'late', '-o', 'json'])) as MCPServer;
  assert.equal(server.status?.serverInfo?.name, 'scripted');
  assert.deepEqual(
    server.status?.tools?.map(({ name }) => name),
    ['echo'],
  );

  await late.close();
  const failed = await scene.host.call('workflow_waiting', {});
  assert.ok('result' in failed && failed.result.isError);
  await scene.workflow('waiting', { taskBehavior: 'never', steps }, 'Ready=False');
  const again = await startUpstream({ tools: echo, port: late.port });
  t.after(() => again.close());
  await scene.workflow('waiting', { taskBehavior: 'never', steps });
  await scene.kubectl(['delete', 'wf', 'waiting']);
});

test('a faulty spec is not accepted, says every fault, and its last accepted revision stays in service', async () => {
  await scene.workflow('edited', { description: 'before', steps: [{ id: 'a', tool: 'up/echo' }] });
  const faulty = {
    description: 'after',
    steps: [{ id: 'a', tool: 'up/echo', args: { x: '${results.b}', y: '${1 +}' } }],
  };
  const refused = await scene.workflow('edited', faulty, 'Accepted=False');
  assert.deepEqual(refused.status?.checks?.map(({ path }) => path).sort(), [
    'spec.steps[0].args.x',
    'spec.steps[0].args.y',
  ]);
  const listed = (await scene.host.tools()).find(({ name }) => name === 'workflow_edited');
  assert.equal(listed?.description, 'before');
  await scene.operator.kill();
  await scene.restart();
  assert.ok((await names()).includes('workflow_edited'), 'after a restart too');
  const fixed = await scene.workflow('edited', { description: 'fixed', steps: [{ id: 'a', tool: 'up/echo' }] });
  assert.equal(fixed.status?.checks, undefined);
  const events = await scene.kubectl(['get', 'events', '--field-selector', 'involvedObject.name=edited']);
  assert.match(events, /Warning +Invalid/);
});

test('field case 40 (B): of two Workflows with one tool name the older has it; the other says so, and follows', async () => {
  const spec = { toolName: 'shared', steps: [{ id: 'nap', sleep: '1ms' }] };
  await scene.workflow('zz-older', spec);
  await eventually(async () => {
    // Creation times are whole seconds: the younger one must be of a later second.
    const { metadata } = JSON.parse(await scene.kubectl(['get', 'wf', 'zz-older', '-o', 'json'])) as {
      metadata: { creationTimestamp: string };
    };
    assert.ok(Date.now() - Date.parse(metadata.creationTimestamp) > 1_000);
  });
  const loser = await scene.workflow('aa-younger', spec, 'Accepted=False');
  assert.match(JSON.stringify(loser.status?.conditions), /belongs to the older Workflow \\"zz-older\\"/);
  assert.equal((await names()).filter((name) => name === 'shared').length, 1);
  await scene.kubectl(['delete', 'wf', 'zz-older']);
  await scene.workflow('aa-younger', spec);
});

test('revisions beyond the limit go, the current one stays', async () => {
  const spec = (n: number) => ({ description: `v${n}`, revisionHistoryLimit: 1, steps: [{ id: 'nap', sleep: '1ms' }] });
  for (const n of [1, 2, 3, 4]) await scene.workflow('history', spec(n));
  await eventually(async () => {
    const list = await scene.kubectl([
      'get',
      'controllerrevisions',
      '-l',
      'convoke.dev/workflow=history',
      '-o',
      'name',
    ]);
    assert.equal(list.trim().split('\n').length, 2);
  });
});
