import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { WorkflowCatalog } from '../../src/operator/workflow-catalog.ts';
import { createTool, type WorkflowTool } from '../../src/operator/workflow-tool.ts';
import { planWorkflow } from '../../src/workflow/plan.ts';

function toolOf(workflow: string, toolName: string): WorkflowTool {
  const spec = { toolName, steps: [{ id: 'nap', sleep: '1s' }] };
  const planned = planWorkflow(workflow, spec);
  assert.ok('plan' in planned);
  return createTool({
    workflow: {
      apiVersion: 'convoke.dev/v1alpha1',
      kind: 'Workflow',
      metadata: { name: workflow, namespace: 'n' },
      spec,
    },
    revision: 'r',
    plan: planned.plan,
    missing: () => undefined,
    reach: async () => undefined,
  });
}

/** What the catalog must show, kept in the plainest way: which Workflow has which tool. */
class Model {
  readonly tools = new Map<string, WorkflowTool>();

  set(workflow: string, tool: WorkflowTool | undefined): void {
    for (const [other, { name }] of this.tools) if (name === tool?.name) this.tools.delete(other);
    this.tools.delete(workflow);
    if (tool !== undefined) this.tools.set(workflow, tool);
  }

  get names(): string[] {
    return [...this.tools.values()].map(({ name }) => name).sort();
  }
}

test('whatever is set, taken out and taken over: each name and each Workflow once, sorted, each change told', () => {
  const act = fc.record({
    workflow: fc.constantFrom('a', 'b', 'c'),
    toolName: fc.option(fc.constantFrom('x', 'y', 'z'), { nil: undefined }),
  });
  const property = fc.property(fc.array(act, { maxLength: 20 }), (acts) => {
    const catalog = new WorkflowCatalog(() => true);
    const model = new Model();
    const told: string[] = [];
    catalog.onChange((namespace) => told.push(namespace));
    for (const { workflow, toolName } of acts) {
      const listed = catalog.tools('n');
      const tool = toolName === undefined ? undefined : toolOf(workflow, toolName);
      const changes = tool !== undefined || model.tools.has(workflow);
      model.set(workflow, tool);
      catalog.set('n', workflow, tool);
      assert.deepEqual(told.splice(0), changes ? ['n'] : []);
      assert.equal(catalog.tools('n') === listed, !changes, 'the same array until something changes');
      assert.deepEqual(
        catalog.tools('n').map(({ name }) => name),
        model.names,
      );
      for (const each of ['a', 'b', 'c']) assert.equal(catalog.toolOf('n', each), model.tools.get(each));
      for (const each of catalog.tools('n')) assert.equal(catalog.tool('n', each.name), each);
    }
  });
  fc.assert(property);
});

test('the same tool again is no change, another namespace has none, a listener that left hears nothing', () => {
  const catalog = new WorkflowCatalog((namespace) => namespace === 'n');
  const heard: string[] = [];
  const stop = catalog.onChange((namespace) => heard.push(namespace));
  const tool = toolOf('a', 'x');
  catalog.set('n', 'a', tool);
  catalog.set('n', 'a', tool);
  assert.deepEqual(heard, ['n']);
  assert.deepEqual(catalog.tools('m'), []);
  assert.equal(catalog.tool('m', 'x'), undefined);
  assert.ok(catalog.serves('n') && !catalog.serves('m'));
  stop();
  catalog.set('n', 'a', undefined);
  assert.deepEqual(heard, ['n']);
});
