import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FIRST_STEP_ANNOTATION } from '../../src/api/constants.ts';
import type { StepSpec, WorkflowSpec } from '../../src/api/workflow.ts';
import type { StepStatus, WorkflowExecution, WorkflowExecutionStatus } from '../../src/api/workflow-execution.ts';
import type { ToolOutcome } from '../../src/workflow/ports.ts';
import { Scene } from './scene.ts';
import type { ScriptedTool } from './scripted-world.ts';

/*
 * Random workflows over random upstreams, killed at each point in turn (before and after each create, write and call),
 * then taken up by another replica from what is stored. Where the record names a call with effects as under way, nobody can
 * know what it did: that step must end `failed/Interrupted`, and the run as if the call had failed. Everywhere else the run
 * must end as the unbroken one. No call with effects is ever made twice.
 */

interface Case {
  readonly spec: WorkflowSpec;
  readonly tools: Readonly<Record<string, ScriptedTool>>;
}

const OUTCOMES: Record<string, Pick<ScriptedTool, 'outcome' | 'takesMs'>> = {
  structured: { outcome: { kind: 'result', result: { content: [], structuredContent: { n: 1, ok: true } } } },
  json: { outcome: { kind: 'result', result: { content: [{ type: 'text', text: '{"n":2,"ok":false}' }] } } },
  slow: { takesMs: 2500, outcome: { kind: 'result', result: { content: [], structuredContent: { n: 3, ok: true } } } },
  isError: { outcome: { kind: 'result', result: { content: [{ type: 'text', text: 'no' }], isError: true } } },
  protocolError: { outcome: { kind: 'protocolError', error: { code: -32602, message: 'bad' } } },
  unavailable: { outcome: { kind: 'unavailable', message: 'away' } },
  unknown: { outcome: { kind: 'unknown', message: 'gone' } },
  hangs: { takesMs: Infinity },
};
const outcomeNames = Object.keys(OUTCOMES);

interface StepDraft {
  readonly outcome: string;
  readonly repeatable: boolean | undefined;
  readonly annotated: boolean;
  readonly allowFailure: boolean;
  readonly sleeps: boolean;
  readonly condition: 'none' | 'false' | 'phase' | 'value';
  readonly reads: boolean;
  readonly about: number;
}

const stepDraft: fc.Arbitrary<StepDraft> = fc.record({
  outcome: fc.oneof(
    { weight: 2, arbitrary: fc.constantFrom('structured', 'json', 'slow') },
    fc.constantFrom(...outcomeNames),
  ),
  repeatable: fc.constantFrom(undefined, true, false),
  annotated: fc.boolean(),
  allowFailure: fc.boolean(),
  sleeps: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
  condition: fc.constantFrom('none', 'none', 'none', 'false', 'phase', 'value'),
  reads: fc.boolean(),
  about: fc.nat(4),
});

const workflow: fc.Arbitrary<Case> = fc
  .record({
    steps: fc.array(stepDraft, { minLength: 1, maxLength: 5 }),
    output: fc.constantFrom('none', 'phases', 'value'),
  })
  .map(({ steps, output }) => {
    const isTool = (index: number): boolean => steps[index]?.sleeps === false;
    const tools: Record<string, ScriptedTool> = {};
    const specs = steps.map((draft, index): StepSpec => {
      const id = `s${index}`;
      const earlier = draft.about % Math.max(index, 1);
      const condition = conditionOf(draft, index > 0 ? `s${earlier}` : undefined, isTool(earlier));
      const common = { id, ...(condition !== undefined && { if: condition }), allowFailure: draft.allowFailure };
      if (draft.sleeps) return { ...common, sleep: '3s' };
      const annotations = draft.annotated ? { annotations: { idempotentHint: true } } : {};
      tools[`up/${id}`] = { ...OUTCOMES[draft.outcome], ...annotations };
      return {
        ...common,
        tool: `up/${id}`,
        timeout: '10s',
        ...(draft.repeatable !== undefined && { repeatable: draft.repeatable }),
        args: draft.reads && index > 0 && isTool(earlier) ? { n: `\${results.s${earlier}.n}` } : { n: 0 },
      };
    });
    const last = steps.length - 1;
    const phases = Object.fromEntries(specs.map(({ id }) => [id, `\${steps.${id}.phase}`]));
    if (output === 'phases') return { spec: { steps: specs, output: phases }, tools };
    if (output === 'value' && isTool(last)) return { spec: { steps: specs, output: `\${results.s${last}}` }, tools };
    return { spec: { steps: specs }, tools };
  });

function conditionOf({ condition }: StepDraft, earlier: string | undefined, isTool: boolean): string | undefined {
  if (condition === 'false') return 'false';
  if (condition === 'phase' && earlier !== undefined) return `steps.${earlier}.phase == "completed"`;
  if (condition === 'value' && earlier !== undefined && isTool) return `results.${earlier}.ok`;
  return undefined;
}

/** The step of which nobody knows what its call did. */
function inDoubt({ status, metadata }: WorkflowExecution): string | undefined {
  if (status === undefined) return metadata.annotations?.[FIRST_STEP_ANNOTATION];
  const last = status.steps?.at(-1);
  return last?.phase === 'running' && last.tool !== undefined && last.repeatable !== true ? last.id : undefined;
}

/** How the run ends when nothing breaks it; with the call of step `doubtful` lost, if there is one. */
async function unbroken({ spec, tools }: Case, doubtful?: string): Promise<WorkflowExecutionStatus> {
  const lost: ToolOutcome = { kind: 'unknown', message: '' };
  const scene = new Scene({
    spec,
    tools:
      doubtful === undefined
        ? tools
        : { ...tools, [`up/${doubtful}`]: { ...tools[`up/${doubtful}`], takesMs: 0, outcome: lost } },
  });
  return scene.run();
}

/** What must be equal: all but times, runner, attempts, and the words for a call in doubt. */
function essence(status: WorkflowExecutionStatus, doubtful: string | undefined): unknown {
  const steps = (status.steps ?? []).map(({ id, phase, reason, tool, result, content }: StepStatus) => {
    const word = id === doubtful && reason === 'OutcomeUnknown' ? 'Interrupted' : reason;
    return { id, phase, reason: word, tool, result, content };
  });
  const failed = steps.at(-1)?.id === doubtful && steps.at(-1)?.reason === 'Interrupted';
  const reason = failed && status.reason === 'StepFailed' ? 'Interrupted' : status.reason;
  const { phase, revision, step, error } = status;
  const result = status.result?.isError === true ? 'isError' : status.result;
  return { phase, reason, revision, step, error: error?.code, result, steps };
}

function checkRecord(status: WorkflowExecutionStatus): void {
  assert.ok(status.startedAt !== undefined && status.finishedAt !== undefined && status.expiresAt !== undefined);
  for (const { id, phase, startedAt, finishedAt } of status.steps ?? []) {
    assert.notEqual(phase, 'running', `step ${id} runs in a finished run`);
    assert.ok(finishedAt !== undefined && startedAt <= finishedAt, `step ${id} has no times`);
  }
}

/** Each phase that the record ever showed, and whether a step that had ended was ever touched again. */
function checkHistory(writes: readonly WorkflowExecution[]): void {
  let before: WorkflowExecutionStatus | undefined;
  for (const { status } of writes) {
    assert.ok(status);
    assert.ok(before === undefined || before.phase === 'inprogress', 'a final status was left');
    for (const [index, record] of (before?.steps ?? []).entries()) {
      if (record.phase === 'running') continue;
      assert.equal(status.steps?.[index]?.phase, record.phase, `step ${record.id} ended twice`);
    }
    before = status;
  }
}

function checkCalls(scene: Scene, { spec, tools }: Case): void {
  for (const { id, tool, repeatable } of spec.steps) {
    if (tool === undefined || (repeatable ?? tools[tool]?.annotations?.idempotentHint)) continue;
    const calls = scene.world.calls.filter((call) => call.tool === tool);
    assert.ok(calls.length <= 1, `step ${id} has effects and was called ${calls.length} times`);
  }
  for (const { id, tool } of spec.steps) {
    const keys = new Set(scene.world.calls.filter((call) => call.tool === tool).map(({ key }) => key));
    assert.ok(keys.size <= 1, `the calls of step ${id} have different keys`);
  }
}

/** Kills at point `killAt` of the first process, and at `again` of the one that takes up; false when it ended before. */
async function killAndTakeUp(drawn: Case, killAt: number, again?: number): Promise<boolean> {
  const scene = new Scene(drawn);
  const first = scene.start(killAt);
  const ended = await scene.until(Promise.race([first.recorded.then(() => 'ended'), first.process.killed]));
  if (scene.world.stored !== undefined) {
    const doubts: (string | undefined)[] = [inDoubt(scene.stored)];
    if (again !== undefined) {
      const second = scene.takeUp(again);
      await scene.until(Promise.race([second.recorded.then(() => 'ended'), second.process.killed]));
      doubts.push(inDoubt(scene.stored));
    }
    await scene.until(scene.takeUp().recorded);
    const { status } = scene;
    checkRecord(status);
    checkHistory(scene.world.writes);
    checkCalls(scene, drawn);
    // Of two kills only the step that was in doubt and had not ended by itself counts; two may be, when the first is tolerated.
    const interrupted = (status.steps ?? []).filter(({ reason }) => reason === 'Interrupted').map(({ id }) => id);
    for (const id of interrupted) assert.ok(doubts.includes(id), `step ${id} was interrupted without need`);
    if (interrupted.length < 2) {
      const [doubtful] = interrupted;
      assert.deepEqual(essence(status, doubtful), essence(await unbroken(drawn, doubtful), doubtful));
    }
    if (again === undefined && interrupted.length === 0 && doubts[0] !== undefined) {
      const record = status.steps?.find(({ id }) => id === doubts[0]);
      assert.ok(record?.phase === 'skipped' || record?.reason === 'ExpressionError', 'a call in doubt was made again');
    }
  }
  return ended === 'killed';
}

describe('field case 79 (G): a run that is killed anywhere ends as the unbroken one, and no effect comes twice', () => {
  it('killed once, at each point', async () => {
    await fc.assert(
      fc.asyncProperty(workflow, async (drawn) => {
        for (let killAt = 0; await killAndTakeUp(drawn, killAt); killAt++);
      }),
      { numRuns: 60 },
    );
  });

  it('killed, and the next replica too', async () => {
    await fc.assert(
      fc.asyncProperty(workflow, fc.nat(12), fc.nat(12), async (drawn, killAt, again) => {
        await killAndTakeUp(drawn, killAt, again);
      }),
      { numRuns: 150 },
    );
  });
});
