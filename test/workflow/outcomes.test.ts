import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StepSpec } from '../../src/api/workflow.ts';
import type { JsonValue } from '../../src/lib/json.ts';
import type { ToolOutcome } from '../../src/workflow/ports.ts';
import { Scene, type SceneOptions } from './scene.ts';
import type { ScriptedTool } from './scripted-world.ts';

const call = (id: string, more: Partial<StepSpec> = {}): StepSpec => ({ id, tool: `up/${id}`, ...more });
const says = (text: string, isError = false): ScriptedTool => ({
  outcome: { kind: 'result', result: { content: [{ type: 'text', text }], ...(isError && { isError }) } },
});
const gives = (structuredContent: JsonValue): ScriptedTool => ({
  outcome: { kind: 'result', result: { content: [], structuredContent } },
});
const ends = (outcome: ToolOutcome): ScriptedTool => ({ outcome });
const hangs: ScriptedTool = { takesMs: Infinity };

async function run(options: SceneOptions): Promise<Scene> {
  const scene = new Scene(options);
  await scene.run();
  return scene;
}

describe('a step that fails', () => {
  const cases: [string, ScriptedTool, { reason: string; step: string; message: string; code?: number }][] = [
    [
      'field case 73 (G): isError fails the run',
      says('disk full', true),
      { reason: 'StepFailed', step: 'ToolError', message: "step 'a' (up/a) failed: ToolError on attempt 1: disk full" },
    ],
    [
      'an isError without a word',
      ends({ kind: 'result', result: { content: [], isError: true } }),
      {
        reason: 'StepFailed',
        step: 'ToolError',
        message: "step 'a' (up/a) failed: ToolError on attempt 1: the tool gave no reason",
      },
    ],
    [
      'field case 76 (G): an upstream that was gone mid-call: its name and the tool’s, the class and the attempt',
      ends({ kind: 'unknown', message: 'up/a: the connection was lost after the call was sent' }),
      {
        reason: 'StepFailed',
        step: 'OutcomeUnknown',
        message:
          "step 'a' (up/a) failed: OutcomeUnknown on attempt 1: up/a: the connection was lost after the call was sent",
      },
    ],
    [
      'an upstream that is not there',
      ends({ kind: 'unavailable', message: 'MCPServer "up" is not connected' }),
      {
        reason: 'StepFailed',
        step: 'Unavailable',
        message: 'step \'a\' (up/a) failed: Unavailable on attempt 1: MCPServer "up" is not connected',
      },
    ],
    [
      'a JSON-RPC error',
      ends({ kind: 'protocolError', error: { code: 4711, message: 'no', data: { why: 'x' } } }),
      {
        reason: 'ProtocolError',
        step: 'ProtocolError',
        message: "step 'a' (up/a) failed: ProtocolError on attempt 1: no",
        code: 4711,
      },
    ],
    [
      'a JSON-RPC error with a code that MCP keeps for itself',
      ends({ kind: 'protocolError', error: { code: -32021, message: 'no' } }),
      {
        reason: 'ProtocolError',
        step: 'ProtocolError',
        message: "step 'a' (up/a) failed: ProtocolError on attempt 1: no",
        code: -32603,
      },
    ],
  ];
  for (const [title, tool, expected] of cases) {
    it(title, async () => {
      const { status, events } = await run({
        spec: { steps: [call('a'), call('b')] },
        tools: { 'up/a': tool, 'up/b': {} },
      });
      assert.equal(status.phase, 'failed');
      assert.deepEqual([status.reason, status.message], [expected.reason, expected.message]);
      assert.deepEqual(
        status.steps?.map(({ id, phase, reason }) => [id, phase, reason]),
        [['a', 'failed', expected.step]],
      );
      assert.deepEqual(events, [`Warning StepFailed: ${expected.message}`, `Warning Failed: ${expected.message}`]);
      if (expected.code === undefined) {
        assert.deepEqual(status.result, { content: [{ type: 'text', text: expected.message }], isError: true });
        assert.equal(status.error, undefined);
      } else {
        assert.equal(status.error?.code, expected.code);
        assert.equal(status.error?.message, expected.message);
        assert.equal(status.result, undefined);
      }
    });
  }

  it('and is tolerated: the run goes on, and later steps can see it', async () => {
    const steps = [
      call('a', { allowFailure: true }),
      call('b', { if: 'steps.a.phase == "failed"' }),
      call('c', { if: 'steps.a.phase != "failed"' }),
    ];
    const tools = { 'up/a': says('no', true), 'up/b': says('mended'), 'up/c': {} };
    const { status } = await run({ spec: { steps }, tools });
    assert.equal(status.phase, 'completed');
    assert.deepEqual(
      status.steps?.map(({ phase, attempt }) => [phase, attempt]),
      [
        ['failed', 1],
        ['completed', 1],
        ['skipped', 0],
      ],
    );
    assert.deepEqual(status.result, { content: [{ type: 'text', text: 'mended' }] });
  });

  it('before it is called, in an expression: the message names the place', async () => {
    const steps = [call('a'), call('b', { args: { deep: ['${results.a.image}'] } })];
    const { status, world } = await run({ spec: { steps }, tools: { 'up/a': gives({ tag: 1 }), 'up/b': {} } });
    assert.equal(status.steps?.[1]?.reason, 'ExpressionError');
    assert.match(
      status.message ?? '',
      /^step 'b' \(up\/b\) failed: ExpressionError on attempt 1: .*spec\.steps\[1\]\.args\.deep\[0\]/,
    );
    assert.equal(world.calls.length, 1);
  });

  it('with a long text: what is left out is said', async () => {
    const { status } = await run({ spec: { steps: [call('a')] }, tools: { 'up/a': says('x'.repeat(20_000), true) } });
    assert.ok((status.message ?? '').length < 8192);
    assert.match(status.message ?? '', /… \(\d+ characters more\)$/);
  });
});

describe('time-outs', () => {
  it('field case 77 (G): a step’s time-out names the step’s, and its length', async () => {
    const { status } = await run({ spec: { steps: [call('a', { timeout: '90s' })] }, tools: { 'up/a': hangs } });
    assert.deepEqual([status.phase, status.reason, status.duration], ['failed', 'StepFailed', '1m30s']);
    assert.match(
      status.message ?? '',
      /^step 'a' \(up\/a\) failed: Timeout on attempt 1: no answer within the step's timeout of 1m30s/,
    );
    assert.doesNotMatch(status.message ?? '', /run/);
  });

  it('field case 77 (G): the run’s time-out names the run’s, and its length', async () => {
    const spec = {
      steps: [{ id: 'wait', sleep: '1m' }, call('a', { timeout: '10m', allowFailure: true })],
      timeout: '3m',
    };
    const { status } = await run({ spec, tools: { 'up/a': hangs } });
    assert.deepEqual([status.phase, status.reason, status.duration], ['failed', 'Timeout', '3m']);
    assert.equal(status.message, "the run did not end within its timeout of 3m; step 'a' (up/a) was running");
    assert.deepEqual(
      status.steps?.map(({ phase, reason, message }) => [phase, reason, message]),
      [
        ['completed', undefined, undefined],
        ['failed', 'Timeout', "the run's timeout of 3m passed"],
      ],
    );
  });

  it('field case 55 (D): the class of a time-out is its own, and nothing is called again', async () => {
    const { status, world } = await run({ spec: { steps: [call('a', { timeout: '5s' })] }, tools: { 'up/a': hangs } });
    assert.equal(status.steps?.[0]?.reason, 'Timeout');
    assert.equal(world.calls.length, 1);
  });

  it('of a step is tolerated where failure is, of the run never', async () => {
    const steps = [call('a', { timeout: '5s', allowFailure: true }), call('b')];
    const { status } = await run({ spec: { steps }, tools: { 'up/a': hangs, 'up/b': {} } });
    assert.deepEqual([status.phase, status.duration], ['completed', '5s']);
  });

  it('a step has five minutes when it says nothing, a run an hour', async () => {
    const step = await run({ spec: { steps: [call('a')] }, tools: { 'up/a': hangs } });
    assert.equal(step.status.duration, '5m');
    const whole = await run({ spec: { steps: [call('a', { timeout: '2h' })] }, tools: { 'up/a': hangs } });
    assert.equal(whole.status.duration, '1h');
  });
});

describe('what the caller gets', () => {
  it('without output: the result of the last tool step, as it came', async () => {
    const result = { content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }], structuredContent: { n: 1 } };
    const { status } = await run({
      spec: { steps: [call('a'), call('b')] },
      tools: { 'up/a': says('x'), 'up/b': ends({ kind: 'result', result }) },
    });
    assert.deepEqual(status.result, result);
  });

  it('without output, the last steps skipped, failed or asleep: of the last that completed', async () => {
    const steps = [call('a'), call('b', { if: 'false' }), call('c', { allowFailure: true }), { id: 'd', sleep: '1s' }];
    const { status } = await run({
      spec: { steps },
      tools: { 'up/a': says('from a'), 'up/b': {}, 'up/c': says('no', true) },
    });
    assert.deepEqual(status.result, { content: [{ type: 'text', text: 'from a' }] });
  });

  it('without output and without a tool step: nothing, and that is no error', async () => {
    const { status } = await run({ spec: { steps: [{ id: 'd', sleep: '1s' }] } });
    assert.deepEqual([status.phase, status.result], ['completed', { content: [] }]);
  });

  it('field case 51 (D): with output only that, as structured content and as its JSON', async () => {
    const spec = {
      steps: [call('a'), call('b')],
      output: { image: '${results.a.image}', n: '${results.a.n}', fixed: [null, true] },
    };
    const { status } = await run({
      spec,
      tools: { 'up/a': gives({ image: 'i', n: 3, secret: 's' }), 'up/b': says('secret') },
    });
    const value = { image: 'i', n: 3, fixed: [null, true] };
    assert.deepEqual(status.result, {
      content: [{ type: 'text', text: JSON.stringify(value) }],
      structuredContent: value,
    });
    assert.doesNotMatch(JSON.stringify(status), /secret/);
  });

  it('an output that is a text stays as it is', async () => {
    const { status } = await run({
      spec: { steps: [call('a')], output: 'image ${results.a.image}' },
      tools: { 'up/a': gives({ image: 'i' }) },
    });
    assert.deepEqual(status.result, { content: [{ type: 'text', text: 'image i' }], structuredContent: 'image i' });
  });

  it('an output that cannot be made fails the run and says where', async () => {
    const { status } = await run({
      spec: { steps: [call('a')], output: { x: '${results.a.image}' } },
      tools: { 'up/a': gives({}) },
    });
    assert.deepEqual([status.phase, status.reason], ['failed', 'OutputFailed']);
    assert.match(status.message ?? '', /^the output could not be made: .*spec\.output\.x/);
    assert.equal(status.result?.isError, true);
  });

  it('field case 34 (B): a failed run has no structured content, also where a step before had some', async () => {
    const { status } = await run({
      spec: { steps: [call('a'), call('b')] },
      tools: { 'up/a': gives({ n: 1 }), 'up/b': says('no', true) },
    });
    assert.equal(status.result?.structuredContent, undefined);
  });
});

describe('arguments and facts', () => {
  it('field case 48 (D): what a call is given keeps its JSON types', async () => {
    const args = { replicas: '${input.replicas}', n: 10, yes: true, list: [1, ['${input.app}'], { a: null }] };
    const spec = {
      args: { app: { type: 'string' as const }, replicas: { type: 'integer' as const, default: 3 } },
      steps: [call('a', { args })],
    };
    const { world } = await run({ spec, tools: { 'up/a': {} }, execution: { args: { app: 'shop' } } });
    assert.deepEqual(world.calls[0]?.args, { replicas: 3, n: 10, yes: true, list: [1, ['shop'], { a: null }] });
  });

  it('an execution whose arguments do not fit fails with every fault, and calls nothing', async () => {
    const spec = { args: { app: { type: 'string' as const, required: true } }, steps: [call('a')] };
    const { status, world } = await run({ spec, tools: { 'up/a': {} }, execution: { args: { replicas: 3 } } });
    assert.deepEqual([status.phase, status.reason], ['failed', 'InvalidArguments']);
    assert.equal(
      status.message,
      'the arguments do not fit:\napp: is required\nreplicas: is not an argument (known: app)',
    );
    assert.equal(world.calls.length, 0);
  });

  it('expressions see the execution', async () => {
    const args = {
      id: '${execution.id}',
      who: '${execution.requestedBy.subject}',
      at: '${execution.startedAt}',
      of: '${execution.namespace}/${execution.workflow}',
    };
    const scene = new Scene({
      spec: { steps: [call('a', { args })] },
      tools: { 'up/a': {} },
      execution: { requestedBy: { subject: 'alice', via: 'mcp' } },
    });
    const at = new Date(scene.clock.now()).toISOString();
    await scene.run();
    assert.deepEqual(scene.world.calls[0]?.args, {
      id: scene.stored.metadata.name,
      who: 'alice',
      at,
      of: 'team-a/deploy',
    });
  });
});

describe('size', () => {
  const limits = { valueBytes: 1000, executionBytes: 1500 };
  const big = (n: number): ScriptedTool => gives({ text: 'x'.repeat(n) });
  const read = (...ids: string[]): JsonValue => ids.map((id) => `\${results.${id}.text}`);

  it('a value above the limit fails the step, and both sizes are named', async () => {
    const spec = { steps: [call('a'), call('b', { args: { x: read('a') } })] };
    const { status } = await run({ spec, tools: { 'up/a': big(2000), 'up/b': {} }, limits });
    assert.deepEqual(
      [status.phase, status.reason, status.steps?.[0]?.reason],
      ['failed', 'ResultTooLarge', 'ResultTooLarge'],
    );
    assert.match(status.message ?? '', /its result, 2 KiB, is above the limit of 1000 bytes for one value$/);
  });

  it('values that together are above the limit fail the step that brings them there', async () => {
    const spec = { steps: [call('a'), call('b'), call('c', { args: { x: read('a', 'b') } })] };
    const { status } = await run({ spec, tools: { 'up/a': big(800), 'up/b': big(900), 'up/c': {} }, limits });
    assert.deepEqual(
      status.steps?.map(({ phase }) => phase),
      ['completed', 'failed'],
    );
    assert.match(
      status.message ?? '',
      /its result, 911 bytes, would bring the values of this run to 1\.7 KiB, above the limit of 1\.5 KiB$/,
    );
  });

  it('what nothing reads any more does not count', async () => {
    const steps = [call('a'), call('b', { args: { x: read('a') } }), call('c', { args: { x: read('b') } })];
    const { status } = await run({
      spec: { steps },
      tools: { 'up/a': big(900), 'up/b': big(900), 'up/c': {} },
      limits,
    });
    assert.equal(status.phase, 'completed');
  });

  it('what nothing reads may have any size, and is not kept', async () => {
    const spec = { steps: [call('a'), call('b')], output: 'done' };
    const { status, world } = await run({ spec, tools: { 'up/a': big(100_000), 'up/b': {} }, limits });
    assert.equal(status.phase, 'completed');
    for (const write of world.writes) assert.ok(JSON.stringify(write).length < 2000);
  });

  it('an answer so far counts beside what is read', async () => {
    const seen = { if: 'size(steps.b.content) > 0' };
    const steps = [call('a'), call('b', { allowFailure: true }), call('c', seen)];
    const { status } = await run({
      spec: { steps },
      tools: { 'up/a': big(900), 'up/b': says('x'.repeat(900), true) },
      limits,
    });
    assert.deepEqual(
      status.steps?.map(({ phase, reason }) => [phase, reason]),
      [
        ['completed', undefined],
        ['failed', 'ResultTooLarge'],
        ['skipped', undefined],
      ],
    );
    assert.equal(JSON.stringify(status.result).length > 900, true);
  });

  it('an answer and an output are held to the limit too', async () => {
    const answer = await run({ spec: { steps: [call('a')] }, tools: { 'up/a': big(2000) }, limits });
    assert.equal(answer.status.reason, 'ResultTooLarge');
    const output = await run({
      spec: { steps: [call('a')], output: '${results.a}' },
      tools: { 'up/a': big(800) },
      limits,
    });
    assert.equal(output.status.reason, 'ResultTooLarge');
    assert.match(
      output.status.message ?? '',
      /^the output, 1\.6 KiB as structured content and text, is above the limit of 1000 bytes/,
    );
  });

  it('a value nested too deeply to be written fails its step', async () => {
    const depth = 200_000;
    const nested: JsonValue = JSON.parse('['.repeat(depth) + ']'.repeat(depth));
    const spec = { steps: [call('a')], output: '${size(results.a)}' };
    const { status } = await run({
      spec,
      tools: { 'up/a': { answer: () => ({ content: [], structuredContent: nested }) } },
    });
    assert.equal(status.reason, 'ResultTooLarge');
  });

  it('a record that the API server does not take ends the run with a small one', async () => {
    const scene = new Scene({
      spec: { steps: [call('a')] },
      tools: { 'up/a': { annotations: { readOnlyHint: true }, ...big(5000) } },
    });
    scene.world.maxBytes = 2000;
    await scene.run();
    assert.deepEqual([scene.status.phase, scene.status.reason], ['failed', 'ResultTooLarge']);
    assert.match(scene.status.message ?? '', /^the record of this run, 5\.\d KiB, is larger than the API server takes/);
  });
});
