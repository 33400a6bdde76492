import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StepSpec, WorkflowSpec } from '../../src/api/workflow.ts';
import { planWorkflow, type ToolStep } from '../../src/workflow/plan.ts';
import { planOf } from './scene.ts';

const tool = (id: string, more: Partial<StepSpec> = {}): StepSpec => ({ id, tool: `docker/${id}`, ...more });

/** A fault as `path:column: message`. */
function faultsOf(spec: WorkflowSpec): string[] {
  const planned = planWorkflow('deploy', spec);
  if ('plan' in planned) return [];
  return planned.checks.map(
    ({ path, column, message }) => `${path}${column === undefined ? '' : `:${column}`}: ${message}`,
  );
}

const ARG_KEYS = '(known: app, replicas)';
const NO_DURATION = 'is not a duration: expected for instance 500ms, 30s, 5m, 1h30m or 7d';
const NO_STEP_ID =
  'cannot name a step: expected letters, digits and _, no digit first, so that results.<id> can be written';
const NO_TOOL = 'is not a tool: expected <MCPServer>/<tool>, both written out';
const NO_TOOL_NAME = 'cannot name a tool: expected 1 to 128 of letters, digits, _ . -';

describe('the faults of a spec, each with its place', () => {
  const args = { app: { type: 'string' as const }, replicas: { type: 'integer' as const } };
  const cases: [string, WorkflowSpec, string[]][] = [
    ['no step', { steps: [] }, ['spec.steps: a workflow has at least one step']],
    ['no kind', { steps: [{ id: 'a' }] }, ['spec.steps[0]: a step has exactly one of tool and sleep']],
    ['two kinds', { steps: [tool('a', { sleep: '1s' })] }, ['spec.steps[0]: a step has exactly one of tool and sleep']],
    [
      'an id twice',
      { steps: [tool('a'), tool('b'), tool('a')] },
      ["spec.steps[2].id: the id 'a' is taken by spec.steps[0]"],
    ],
    ['an id with a dash', { steps: [{ id: 'a-b', sleep: '1s' }] }, [`spec.steps[0].id: "a-b" ${NO_STEP_ID}`]],
    ['an id __proto__', { steps: [{ id: '__proto__', sleep: '1s' }] }, [`spec.steps[0].id: "__proto__" ${NO_STEP_ID}`]],
    ['a tool without server', { steps: [tool('a', { tool: 'build' })] }, [`spec.steps[0].tool: "build" ${NO_TOOL}`]],
    [
      'a server without tool',
      { steps: [tool('a', { tool: 'docker/' })] },
      [`spec.steps[0].tool: "docker/" ${NO_TOOL}`],
    ],
    [
      'field case 52 (D): a tool that is an expression',
      { steps: [tool('a', { tool: 'x/${input.mc}_query' })] },
      [`spec.steps[0].tool: "x/\${input.mc}_query" ${NO_TOOL}`],
    ],
    [
      'durations that are none',
      { timeout: '1 hour', ttlAfterFinished: '', steps: [tool('a', { timeout: '5' }), { id: 'b', sleep: 'soon' }] },
      [
        `spec.timeout: "1 hour" ${NO_DURATION}`,
        `spec.ttlAfterFinished: "" ${NO_DURATION}`,
        `spec.steps[0].timeout: "5" ${NO_DURATION}`,
        `spec.steps[1].sleep: "soon" ${NO_DURATION}`,
      ],
    ],
    [
      'what belongs to a tool, on a sleep',
      { steps: [{ id: 'a', sleep: '1s', args: {}, repeatable: true, timeout: '1s' }] },
      ['args', 'repeatable', 'timeout'].map((key) => `spec.steps[0].${key}: belongs to a tool, not to a sleep`),
    ],
    [
      'a tool name with a blank',
      { toolName: 'deploy app', steps: [tool('a')] },
      [`spec.toolName: "deploy app" ${NO_TOOL_NAME}`],
    ],
    [
      'a tool name that is too long',
      { toolName: 'x'.repeat(129), steps: [tool('a')] },
      [`spec.toolName: "${'x'.repeat(129)}" ${NO_TOOL_NAME}`],
    ],
    [
      'a tool name of ours',
      { toolName: 'workflow_execution_get', steps: [tool('a')] },
      ['spec.toolName: names that begin with workflow_execution_ belong to the operator'],
    ],
    [
      'args',
      { args: { a: { type: 'integer', default: '3' } }, steps: [tool('a')] },
      ['spec.args.a.default: must be integer, but is string'],
    ],
    [
      'a variable that is none',
      { steps: [tool('a', { args: { x: 'v${inputs.app}' } })] },
      ["spec.steps[0].args.x:4: no variable 'inputs' (did you mean 'input'?)"],
    ],
    [
      'an argument that is none',
      { args, steps: [tool('a', { args: { x: '${input.replica}', y: '${input.other}' } })] },
      [
        "spec.steps[0].args.x:3: no argument 'replica' (did you mean 'replicas'?)",
        `spec.steps[0].args.y:3: no argument 'other' ${ARG_KEYS}`,
      ],
    ],
    [
      'a step that is none',
      { steps: [tool('build'), tool('b', { args: { text: 'image ${results.biuld.id}' } })] },
      ["spec.steps[1].args.text:9: no step 'biuld' (did you mean 'build'?)"],
    ],
    [
      'a step that comes later, and the step itself',
      { steps: [tool('a', { args: { x: '${results.b.id}', y: '${steps.a.phase}' } }), tool('b')] },
      [
        "spec.steps[0].args.x:3: step 'b' comes later: only steps before this one can be read",
        "spec.steps[0].args.y:3: step 'a' cannot read itself",
      ],
    ],
    [
      'the result of a sleep',
      { steps: [{ id: 'a', sleep: '1s' }], output: '${results.a}' },
      ["spec.output:3: step 'a' is a sleep and has no result"],
    ],
    [
      'what no step and no execution has',
      { steps: [tool('a'), tool('b', { if: 'steps.a.phas == "failed"', args: { x: '${execution.uid}' } })] },
      [
        "spec.steps[1].if:1: a step has no 'phas' (did you mean 'phase'?)",
        "spec.steps[1].args.x:3: an execution has no 'uid' (did you mean 'id'?)",
      ],
    ],
    [
      'an output that reads a step that is none',
      { steps: [tool('a')], output: { list: ['x', '${results.z}'] } },
      ["spec.output.list[1]:3: no step 'z' (known: a)"],
    ],
  ];
  for (const [title, spec, expected] of cases) it(title, () => assert.deepEqual(faultsOf(spec), expected));

  it('expressions that do not compile, with the column', () => {
    const [first = '', second = '', ...more] = faultsOf({
      steps: [tool('a', { if: 'input. ==', args: { x: 'text ${1 +}' } })],
    });
    assert.match(first, /^spec\.steps\[0\]\.if:\d+: /);
    assert.match(second, /^spec\.steps\[0\]\.args\.x:\d+: /);
    assert.deepEqual(more, []);
  });

  it('all of them at once', () => {
    const spec: WorkflowSpec = {
      toolName: 'a b',
      args: { a: { type: 'string', default: 1 } },
      timeout: 'x',
      steps: [tool('a', { args: { x: '${result.y}' } }), { id: 'a', sleep: 'y' }],
      output: '${results.c}',
    };
    assert.equal(faultsOf(spec).length, 7);
  });
});

describe('a plan', () => {
  it('has the defaults, in ms', () => {
    const plan = planOf({ steps: [tool('a'), { id: 'b', sleep: '1m30s' }] });
    const [first, second] = plan.steps;
    assert.deepEqual([plan.timeoutMs, plan.ttlMs], [3_600_000, 7 * 86_400_000]);
    assert.ok(first?.kind === 'tool' && second?.kind === 'sleep');
    assert.deepEqual([first.timeoutMs, first.allowFailure, first.repeatable], [300_000, false, undefined]);
    assert.equal(second.ms, 90_000);
  });

  it('splits a tool at the first slash, and names each tool once', () => {
    const plan = planOf({
      steps: [tool('a', { tool: 'my.server/ns/tool' }), tool('b'), tool('c', { tool: 'docker/b' })],
    });
    assert.deepEqual(plan.tools, [
      { server: 'my.server', tool: 'ns/tool' },
      { server: 'docker', tool: 'b' },
    ]);
  });

  /** `[resultUntil, contentUntil, mayAnswer]` of each tool step. */
  function kept(spec: WorkflowSpec): (number | boolean)[][] {
    const steps = planOf(spec).steps.filter((step): step is ToolStep => step.kind === 'tool');
    return steps.map(({ resultUntil, contentUntil, mayAnswer }) => [resultUntil, contentUntil, mayAnswer]);
  }

  it('knows until when a value is read', () => {
    const steps = [
      tool('a'),
      tool('b', { if: 'results.a.ok' }),
      tool('c', { args: { x: ['${results.a.n} and ${results["b"].n}'] } }),
      tool('d', { args: { blocks: '${steps.b.content}', phase: '${steps.a.phase}' } }),
    ];
    assert.deepEqual(kept({ steps, output: '${results.d}' }), [
      [2, -1, false],
      [2, 3, false],
      [-1, -1, false],
      [4, -1, false],
    ]);
  });

  it('takes a key that is not written out for any', () => {
    const args = { who: { type: 'string' as const } };
    const steps = [tool('a'), tool('b', { args: { x: '${results[input.who]}', y: '${steps}' } }), tool('c')];
    assert.deepEqual(kept({ args, steps, output: 'x' }), [
      [1, 1, false],
      [1, 1, false],
      [1, 1, false],
    ]);
  });

  it('knows whose result may be the answer: the last tool step’s, and those before steps that may give nothing', () => {
    const sleep: StepSpec = { id: 'z', sleep: '1s' };
    const answers = (steps: StepSpec[], output?: string): unknown[] =>
      kept({ steps, ...(output && { output }) }).map((of) => of[2]);
    assert.deepEqual(answers([tool('a'), tool('b')]), [false, true]);
    assert.deepEqual(answers([tool('a'), tool('b'), sleep]), [false, true]);
    assert.deepEqual(answers([tool('a'), tool('b', { if: 'true' }), tool('c', { allowFailure: true })]), [
      true,
      true,
      true,
    ]);
    assert.deepEqual(answers([tool('a'), tool('b')], 'x'), [false, false]);
  });
});
