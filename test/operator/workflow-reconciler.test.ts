import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONTROLLER_REVISION, WORKFLOW, WORKFLOW_EXECUTION, WORKFLOW_LABEL } from '../../src/api/constants.ts';
import type { ControllerRevision } from '../../src/api/controller-revision.ts';
import { toolNameOf, type Workflow, type WorkflowSpec } from '../../src/api/workflow.ts';
import type { WorkflowExecution } from '../../src/api/workflow-execution.ts';
import { ConflictError } from '../../src/kube/errors.ts';
import { WorkflowCatalog } from '../../src/operator/workflow-catalog.ts';
import {
  BY_TOOL_NAME,
  BY_WORKFLOW,
  createWorkflowReconciler,
  UNFINISHED,
} from '../../src/operator/workflow-reconciler.ts';
import type { ToolRef } from '../../src/workflow/ports.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { MemoryResource } from './memory-resource.ts';

function scene() {
  const workflows = new MemoryResource<Workflow>(WORKFLOW, {
    [BY_TOOL_NAME]: (workflow) => [`n/${toolNameOf(workflow)}`],
  });
  const executions = new MemoryResource<WorkflowExecution>(WORKFLOW_EXECUTION, { [UNFINISHED]: () => [] });
  const revisions = new MemoryResource<ControllerRevision>(CONTROLLER_REVISION, {
    [BY_WORKFLOW]: ({ metadata }) => [`n/${metadata.labels?.[WORKFLOW_LABEL]}`],
  });
  const catalog = new WorkflowCatalog(() => true);
  const events: string[] = [];
  const woken: string[] = [];
  const clock = createFakeClock();
  let missing: (tool: ToolRef) => string | undefined = () => undefined;
  const reconcile = createWorkflowReconciler({
    workflows: workflows.store,
    executions: executions.store,
    revisions: revisions.store,
    workflowClient: workflows,
    revisionClient: revisions,
    catalog,
    missing: (_, tool) => missing(tool),
    reach: async () => undefined,
    record: ({ metadata }, type, reason) => events.push(`${metadata.name} ${type} ${reason}`),
    enqueue: (key) => woken.push(key),
    clock,
  });
  const stop = new AbortController();
  return {
    workflows,
    revisions,
    catalog,
    events,
    woken,
    clock,
    setMissing: (of: typeof missing) => {
      missing = of;
    },
    apply(name: string, spec: Partial<WorkflowSpec> = {}, creationTimestamp = '2026-01-01T00:00:00Z') {
      const before = workflows.store.get('n', name);
      const generation = (before?.metadata.generation ?? 0) + 1;
      return workflows.put({
        ...before,
        apiVersion: 'convoke.dev/v1alpha1',
        kind: 'Workflow',
        metadata: { name, namespace: 'n', creationTimestamp, ...before?.metadata, generation },
        spec: { steps: [{ id: 'nap', sleep: '1s' }], ...spec },
      });
    },
    async look(name: string) {
      await reconcile(`n/${name}`, stop.signal);
      const status = workflows.store.get('n', name)?.status;
      return Object.fromEntries((status?.conditions ?? []).map(({ type, status, reason }) => [type, [status, reason]]));
    },
  };
}

test('a Workflow that takes a name over wakes the one that had it, which then says so', async () => {
  const { apply, look, catalog, woken } = scene();
  apply('older', {}, '2026-01-01T00:00:00Z');
  apply('younger', { toolName: 'shared' }, '2026-01-02T00:00:00Z');
  await look('older');
  await look('younger');
  assert.deepEqual(woken, []);

  apply('older', { toolName: 'shared' });
  await look('older');
  assert.deepEqual(woken.splice(0), ['n/younger']);
  assert.equal(catalog.tool('n', 'shared')?.workflow, 'older');
  assert.deepEqual((await look('younger')).Accepted, ['False', 'ToolNameTaken']);
  assert.equal(catalog.toolOf('n', 'younger'), undefined);

  apply('older', { toolName: 'mine' });
  await look('older');
  assert.deepEqual(woken.splice(0), ['n/younger']);
  assert.deepEqual((await look('younger')).Accepted, ['True', 'Valid']);
  assert.deepEqual(
    catalog.tools('n').map(({ name }) => name),
    ['mine', 'shared'],
  );
});

test('an old revision that is still in service yields its name to a spec that wants it now', async () => {
  const { apply, look, catalog } = scene();
  apply('first', { toolName: 'shared' });
  await look('first');
  apply('first', { toolName: 'other', steps: [{ id: 'nap', sleep: '1s', if: '1 +' }] });
  await look('first');
  assert.equal(catalog.tool('n', 'shared')?.workflow, 'first', 'in service meanwhile');
  apply('second', { toolName: 'shared' });
  await look('second');
  await look('first');
  assert.equal(catalog.tool('n', 'shared')?.workflow, 'second');
});

test('a revision is written once, and anew when it was deleted or its Workflow is another', async () => {
  const { apply, look, workflows, revisions, catalog } = scene();
  apply('w');
  await look('w');
  const listed = catalog.toolOf('n', 'w');
  await look('w');
  assert.equal(catalog.toolOf('n', 'w'), listed);
  assert.equal(revisions.writes.length, 1);
  const [revision] = revisions.store.list();
  assert.ok(revision);
  await revisions.delete('n', revision.metadata.name);
  await look('w');
  assert.equal(revisions.store.size, 1);

  await workflows.delete('n', 'w');
  await look('w');
  assert.equal(revisions.store.size, 0, 'nobody needs it');
  revisions.store.apply({
    type: 'ADDED',
    object: { ...revision, metadata: { ...revision.metadata, resourceVersion: '99999' } },
  });
  apply('w');
  await look('w');
  assert.equal((await revisions.get('n', revision.metadata.name)).metadata.name, revision.metadata.name);
});

test('what is missing is said, and the tool stays listed; messages fit the CRD however much is', async () => {
  const { apply, look, workflows, catalog, setMissing } = scene();
  const steps = Array.from({ length: 100 }, (_, index) => ({ id: `s${index}`, tool: `up/${'t'.repeat(200)}${index}` }));
  setMissing(({ tool }) => `MCPServer "up" has no tool "${tool}"`);
  apply('w', { steps });
  assert.deepEqual((await look('w')).Ready, ['False', 'ToolsMissing']);
  const message =
    workflows.store.get('n', 'w')?.status?.conditions?.find(({ type }) => type === 'Ready')?.message ?? '';
  assert.ok(message.length <= 8_192 && message.includes('has no tool'), String(message.length));
  assert.ok(catalog.tool('n', 'workflow_w'));
  setMissing(() => undefined);
  assert.deepEqual((await look('w')).Ready, ['True', 'ToolsAvailable']);
});

test('every fault of a spec is a check that the CRD takes, at most 256 of them', async () => {
  const { apply, look, workflows } = scene();
  const args = { [`${'k'.repeat(2_000)}`]: '${1 +}', text: `\${${'nothing.'.repeat(400)}x}` };
  const steps = Array.from({ length: 100 }, (_, index) => ({
    id: `s${index}`,
    tool: 'up/t',
    args: { ...args, a: '${b}', c: '${d}' },
  }));
  apply('w', { steps });
  assert.deepEqual((await look('w')).Accepted, ['False', 'Invalid']);
  const checks = workflows.store.get('n', 'w')?.status?.checks ?? [];
  assert.equal(checks.length, 256);
  for (const { path, message } of checks) assert.ok(path.length <= 512 && message.length <= 2_048);
});

test('an Event tells what was written, and only when it changes', async () => {
  const { apply, look, events, workflows } = scene();
  apply('w');
  workflows.refuse = (verb) => (verb === 'replaceStatus' ? new ConflictError('modified', 409, 'Conflict') : undefined);
  await assert.rejects(look('w'), ConflictError);
  assert.deepEqual(events, []);
  workflows.refuse = () => undefined;
  await look('w');
  await look('w');
  assert.deepEqual(events, ['w Normal Accepted', 'w Normal Ready']);
  assert.equal(workflows.writes.length, 2, 'the one that was refused and the one that was not');
});
