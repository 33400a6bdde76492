import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { testCluster } from '../support/cluster.ts';
import { kubectl } from '../support/kubectl.ts';

let config: string;
let namespace: string;

before(async () => {
  const cluster = await testCluster();
  config = cluster.kubeconfigPath;
  namespace = await cluster.namespace('crds');
});

const run = (args: string[], input = ''): ReturnType<typeof kubectl> =>
  kubectl(config, ['-n', namespace, ...args], input);

async function succeeds(args: string[], input?: string): Promise<string> {
  const { code, stdout, stderr } = await run(args, input);
  assert.equal(code, 0, stderr);
  return stdout;
}

async function refused(args: string[], reason: RegExp, input?: string): Promise<void> {
  const { code, stderr } = await run(args, input);
  assert.notEqual(code, 0);
  assert.match(stderr, reason);
}

const patch = (name: string, body: unknown): string[] => [
  'patch',
  'wfe',
  name,
  '--type=merge',
  '-p',
  JSON.stringify(body),
];
const patchStatus = (name: string, body: unknown): string[] => [...patch(name, body), '--subresource=status'];

const workflow = (spec: object, name = 'w'): string =>
  JSON.stringify({ apiVersion: 'convoke.dev/v1alpha1', kind: 'Workflow', metadata: { name }, spec });
const server = (spec: object): string =>
  JSON.stringify({ apiVersion: 'convoke.dev/v1alpha1', kind: 'MCPServer', metadata: { name: 's' }, spec });
const nap = { id: 'nap', sleep: '1s' };

async function execution(spec: object): Promise<string> {
  const body = {
    apiVersion: 'convoke.dev/v1alpha1',
    kind: 'WorkflowExecution',
    metadata: { generateName: 'x-' },
    spec,
  };
  const stdout = await succeeds(['create', '-f', '-', '-o', 'name'], JSON.stringify(body));
  return stdout.trim().split('/')[1] ?? '';
}

test('field case 53 (D): a misspelt field is refused by name', async () => {
  await refused(
    ['apply', '-f', '-'],
    /unknown field "spec\.taskBehaviour"/,
    workflow({ steps: [nap], taskBehaviour: 'auto' }),
  );
  await refused(
    ['apply', '-f', '-'],
    /unknown field "spec\.steps\[0\]\.parralel"/,
    workflow({ steps: [{ ...nap, parralel: [] }] }),
  );
});

test('a Workflow that cannot be meant is refused with the reason', async () => {
  const cases: [object, RegExp][] = [
    [{ steps: [] }, /spec\.steps.*should have at least 1 items/],
    [{ steps: [{ id: 'a' }] }, /exactly one of tool and sleep/],
    [{ steps: [{ id: 'a', sleep: '1s', tool: 's/t' }] }, /exactly one of tool and sleep/],
    [{ steps: [{ id: 'a', sleep: '1s', args: {} }] }, /args, repeatable and timeout belong to a tool/],
    [{ steps: [{ id: 'a', sleep: '1s', timeout: '2s' }] }, /args, repeatable and timeout belong to a tool/],
    [{ steps: [nap], args: { '1st': { type: 'string' } } }, /the name of an argument/],
    [{ steps: [{ id: 'a-b', sleep: '1s' }] }, /steps\[0\]\.id/],
    [{ steps: [{ id: 'a', sleep: '1 s' }] }, /steps\[0\]\.sleep/],
    [{ steps: [nap, nap] }, /Duplicate value/],
    [{ steps: [{ id: 'a', tool: 'no-slash' }] }, /steps\[0\]\.tool/],
    [{ steps: [nap], toolName: 'workflow_execution_get' }, /belong to the operator/],
    [{ steps: [nap], args: { n: { type: 'string', minimum: 1 } } }, /minimum and maximum belong to/],
    [{ steps: [nap], args: { n: { type: 'integer', minimum: 3, maximum: 1 } } }, /minimum is greater than maximum/],
  ];
  for (const [spec, reason] of cases) await refused(['apply', '--dry-run=server', '-f', '-'], reason, workflow(spec));
  await refused(['apply', '-f', '-'], /at most 55 characters/, workflow({ steps: [nap] }, 'w'.repeat(56)));
  await refused(['apply', '-f', '-'], /a DNS label, without dots/, workflow({ steps: [nap] }, 'a.b'));
});

test('an MCPServer has the fields of its type, and one source for each value', async () => {
  const cases: [object, RegExp][] = [
    [{ type: 'streamable-http' }, /needs url/],
    [{ type: 'stdio' }, /needs command/],
    [{ type: 'stdio', command: 'x', url: 'http://x/mcp' }, /url and headers belong to/],
    [{ type: 'streamable-http', url: 'http://x/mcp', command: 'x' }, /command, args and env belong to/],
    [{ type: 'streamable-http', url: 'http://user:word@x/mcp' }, /spec\.url/],
    [{ type: 'streamable-http', url: 'http://x/mcp', headers: [{ name: 'A' }] }, /exactly one of value and secretRef/],
    [{ type: 'sse', url: 'http://x/sse' }, /Unsupported value: "sse"/],
  ];
  for (const [spec, reason] of cases) await refused(['apply', '-f', '-'], reason, server(spec));
});

test('what an execution was asked cannot be changed, also not by another name for the same number of keys', async () => {
  const name = await execution({ workflow: 'w', args: { a: 1, deep: { list: [1, { b: null }] } } });
  await refused(patch(name, { spec: { workflow: 'v' } }), /spec\.workflow cannot be changed/);
  const changed = [
    { a: 2 },
    { a: '1' },
    { c: 1 },
    { a: null },
    { a: null, c: 1 },
    { deep: { list: [1, { c: null }] } },
  ];
  for (const args of changed) await refused(patch(name, { spec: { args } }), /spec\.args cannot be changed/);
  await refused(patch(name, { spec: { args: null } }), /spec\.args cannot be changed/);
  const requestedBy = { subject: 'mallory', via: 'mcp' };
  await refused(patch(name, { spec: { requestedBy } }), /spec\.requestedBy cannot be changed/);
});

test('cancel is set once', async () => {
  const name = await execution({ workflow: 'w' });
  await succeeds(patch(name, { spec: { cancel: true } }));
  await refused(patch(name, { spec: { cancel: false } }), /cannot be taken back/);
});

test('answers are only added, and only to questions that were asked', async () => {
  const name = await execution({ workflow: 'w' });
  const answer = (key: string, content: object): string[] =>
    patch(name, { spec: { inputResponses: { [key]: { action: 'accept', content } } } });
  await refused(answer('q-1', { a: 1 }), /an answer needs a question that was asked/);
  await succeeds(patchStatus(name, { status: { phase: 'inprogress', inputRequests: { 'q-1': {}, 'q-2': {} } } }));
  await succeeds(answer('q-1', { a: 1 }));
  await succeeds(answer('q-2', {}));
  await refused(answer('q-3', {}), /an answer needs a question that was asked/);
  await refused(answer('q-1', { a: 2 }), /only ever added to/);
  await refused(answer('q-1', { a: null, b: 1 }), /only ever added to/);
  await refused(patch(name, { spec: { inputResponses: { 'q-1': null } } }), /only ever added to/);
  await succeeds(patchStatus(name, { status: { inputRequests: null } }));
});

test('a final phase is never left', async () => {
  const name = await execution({ workflow: 'w' });
  await succeeds(patchStatus(name, { status: { phase: 'completed' } }));
  await refused(patchStatus(name, { status: { phase: 'inprogress' } }), /does not change its phase/);
});

test('kubectl finds, selects and explains them', async () => {
  await succeeds(['apply', '-f', '-'], workflow({ steps: [nap] }, 'selected'));
  const name = await execution({ workflow: 'selected' });
  assert.match(await succeeds(['get', 'convoke', '-o', 'name']), new RegExp(`workflowexecution.*/${name}`));
  const selected = await succeeds(['get', 'wfe', '--field-selector=spec.workflow=selected', '-o', 'name']);
  assert.equal(selected.trim(), `workflowexecution.convoke.dev/${name}`);
  assert.match(await succeeds(['get', 'wfe']), /^NAME +WORKFLOW +PHASE +STEP +AGE +DURATION/);
  assert.match(await succeeds(['explain', 'workflow.spec.taskBehavior']), /answers in place/);
});
