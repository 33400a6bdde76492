import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { StepSpec } from '../../src/api/workflow.ts';
import { isFinal, type WorkflowExecution } from '../../src/api/workflow-execution.ts';
import type { ToolOutcome } from '../../src/workflow/ports.ts';
import { createRun, DEFAULT_LIMITS, type Effect, type Run, type RunEvent, type State } from '../../src/workflow/run.ts';
import { dueAt, step } from '../../src/workflow/state.ts';
import { planOf } from './scene.ts';

const execution: WorkflowExecution = {
  apiVersion: 'convoke.dev/v1alpha1',
  kind: 'WorkflowExecution',
  metadata: { name: 'run', namespace: 'team-a' },
  spec: { workflow: 'deploy' },
};
const IDS = ['s0', 's1', 's2', 's3'];

const stepSpec = (id: string): fc.Arbitrary<StepSpec> =>
  fc.oneof(
    fc.constant({ id, sleep: '10s' }),
    fc
      .record({ allowFailure: fc.boolean(), repeatable: fc.boolean(), skipped: fc.boolean() })
      .map(({ skipped, ...more }) => ({
        id,
        tool: `up/${id}`,
        timeout: '20s',
        ...more,
        ...(skipped && { if: 'false' }),
      })),
  );

const run: fc.Arbitrary<Run> = fc
  .tuple(...IDS.map(stepSpec))
  .map((steps) =>
    createRun({ plan: planOf({ steps, timeout: '1m' }), execution, limits: DEFAULT_LIMITS, isRepeatable: () => false }),
  );

const outcome: fc.Arbitrary<ToolOutcome> = fc.constantFrom<ToolOutcome>(
  { kind: 'result', result: { content: [] } },
  { kind: 'result', result: { content: [], isError: true } },
  { kind: 'protocolError', error: { code: 1, message: 'x' } },
  { kind: 'unknown', message: 'x' },
  { kind: 'aborted' },
);

interface Later {
  readonly after: number;
  readonly make: (at: number) => RunEvent;
}

/** Of what happens to a run that its runner does not leave: any event, late, early, twice, of calls that were never made. */
const staying: fc.Arbitrary<(at: number) => RunEvent> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(fc.constantFrom(...IDS), fc.integer({ min: 1, max: 2 }), outcome)
      .map(([id, attempt, ended]) => (at: number): RunEvent => {
        return { type: 'outcome', at, call: { step: id, attempt }, outcome: ended };
      }),
  },
  { weight: 4, arbitrary: fc.constant((at: number): RunEvent => ({ type: 'tick', at })) },
  fc.constant((at: number): RunEvent => ({ type: 'cancel', at })),
  fc.constant((at: number): RunEvent => ({ type: 'resume', at, runner: 'b', cancel: false })),
  fc.constant(startEvent),
);

const any: fc.Arbitrary<(at: number) => RunEvent> = fc.oneof(
  { weight: 8, arbitrary: staying },
  fc.constant((at: number): RunEvent => ({ type: 'stop', at })),
  fc.constantFrom(...IDS).map((id) => (at: number): RunEvent => {
    return { type: 'withdrawn', at, call: { step: id, attempt: 1 } };
  }),
);

function startEvent(at: number): RunEvent {
  return { type: 'start', at, runner: 'a', revision: 'r', cancel: false, creating: true, announced: undefined };
}

interface Moment {
  readonly before: State;
  readonly event: RunEvent;
  readonly after: State;
  readonly effects: readonly Effect[];
}

/** What happens when the run starts and the events come, each as much later as it says. */
function play(of: Run, events: readonly Later[]): Moment[] {
  let state: State = { status: undefined };
  let at = Date.UTC(2026, 11, 1);
  return [{ after: 0, make: startEvent }, ...events].map(({ after, make }) => {
    at += after;
    const before = structuredClone(state);
    const transition = step(of, state, make(at));
    assert.deepEqual(state, before, 'the state that was given was changed');
    state = transition.state;
    return { before, event: make(at), after: state, effects: transition.effects };
  });
}

function holds(check: (moment: Moment, of: Run) => void, make = any): void {
  const events = fc.array(fc.record({ after: fc.nat(15_000), make }), { maxLength: 25 });
  const property = fc.property(run, events, (of, drawn) => {
    for (const moment of play(of, drawn)) check(moment, of);
  });
  fc.assert(property, { numRuns: 500 });
}

describe('whatever happens in whatever order', () => {
  it('field case 4 (A): only the legal transitions, and a final status is never left', () => {
    holds(({ before, after, effects }) => {
      if (!isFinal(before.status?.phase)) return;
      assert.deepEqual(after, before);
      assert.deepEqual(effects, []);
    });
  });

  it('a step that has ended keeps its record, but for values that nothing reads any more', () => {
    holds(({ before, after }) => {
      for (const [index, { result: _, content: __, ...record }] of (before.status?.steps ?? []).entries()) {
        if (record.phase !== 'running') assert.deepEqual(after.status?.steps?.[index], record);
      }
    });
  });

  it('a run that has started has its facts, and one that has ended its times', () => {
    holds(({ after: { status } }) => {
      assert.ok(status?.startedAt && status.runner && status.revision);
      const times = [status.finishedAt, status.expiresAt, status.duration].map((time) => time !== undefined);
      assert.deepEqual(times, Array(3).fill(isFinal(status.phase)));
    });
  });

  it('every record has its times, and only the last step of a run that goes on can be running', () => {
    holds(({ after: { status } }) => {
      const steps = status?.steps ?? [];
      for (const [index, { phase, startedAt, finishedAt, reason, message }] of steps.entries()) {
        assert.equal(phase === 'running', finishedAt === undefined);
        if (phase === 'running') assert.deepEqual([index, status?.phase], [steps.length - 1, 'inprogress']);
        if (finishedAt !== undefined) assert.ok(startedAt <= finishedAt);
        if (phase === 'failed') assert.ok(reason && message);
      }
    });
  });

  it('an end has a result, an error or neither, as its phase says', () => {
    holds(({ after: { status } }) => {
      if (status === undefined || !isFinal(status.phase)) return;
      if (status.phase === 'completed')
        assert.ok(status.result && !status.result.isError && !status.error && !status.reason);
      if (status.phase === 'failed')
        assert.ok(status.reason && (status.result?.isError === true) !== (status.error !== undefined));
      if (status.phase === 'cancelled') assert.ok(status.reason === 'Cancelled' && !status.result && !status.error);
    });
  });

  it('a call is asked for exactly when its step begins, with effects only behind a record, and never on the way out', () => {
    holds(({ before, event, after, effects }, of) => {
      const calls = effects.filter((effect) => effect.type === 'callTool');
      const last = after.status?.steps?.at(-1);
      if (last?.phase !== 'running' || last.tool === undefined) assert.deepEqual(calls, []);
      for (const { call, after: barrier } of calls) {
        assert.deepEqual([last?.id, last?.attempt], [call.step, call.attempt]);
        const planned = of.plan.steps.find(({ id }) => id === call.step);
        const repeatable = planned?.kind === 'tool' && planned.repeatable === true;
        assert.equal(last?.repeatable ?? false, repeatable);
        if (!repeatable) assert.equal(barrier, 'status');
        assert.ok(event.type === 'resume' || (!before.stopping && before.cancelBy === undefined));
      }
    });
  });

  it('a call that is in flight when its step ends by time is cancelled, once', () => {
    holds(({ before, event, after, effects }) => {
      const index = (before.status?.steps?.length ?? 0) - 1;
      const running = before.status?.steps?.[index];
      if (event.type !== 'tick' || running?.phase !== 'running' || running.tool === undefined) return;
      const ended = after.status?.steps?.[index]?.phase !== 'running';
      const cancels = effects.filter((effect) => effect.type === 'cancelCall').map(({ call }) => call);
      const due = ended && before.cancelBy === undefined;
      assert.deepEqual(cancels, due ? [{ step: running.id, attempt: running.attempt }] : []);
    });
  });

  it('a run that goes on has a step that runs, and a time at which it goes on by itself', () => {
    holds(({ event, after }, of) => {
      if (after.status === undefined || isFinal(after.status.phase)) {
        assert.equal(dueAt(of, after), undefined);
        return;
      }
      assert.equal(after.status.steps?.at(-1)?.phase, 'running');
      const due = dueAt(of, after) ?? Number.NaN;
      assert.ok(event.type === 'tick' ? due > event.at : Number.isFinite(due));
    }, staying);
  });

  it('ticked whenever it is due, with no answer ever, a run ends by its time-out at the latest', () => {
    fc.assert(
      fc.property(run, (of) => {
        const at = Date.UTC(2026, 11, 1);
        let state: State = { status: undefined };
        state = step(of, state, startEvent(at)).state;
        for (let turn = 0; turn < 20 && !isFinal(state.status?.phase); turn++) {
          state = step(of, state, { type: 'tick', at: dueAt(of, state) ?? Number.NaN }).state;
        }
        assert.ok(isFinal(state.status?.phase));
        assert.ok(Date.parse(state.status?.finishedAt ?? '') <= at + 60_000);
      }),
    );
  });

  it('a record that somebody else wrote ends all the same: without a start, or with steps that the plan has not', () => {
    const at = Date.UTC(2026, 0, 1);
    const plan = planOf({ steps: [{ id: 'nap', sleep: '10s' }], timeout: '1m' });
    const made = createRun({ plan, execution, limits: DEFAULT_LIMITS, isRepeatable: () => false });
    const resume: RunEvent = { type: 'resume', at, runner: 'b', cancel: false };

    const bare = step(made, { status: { phase: 'inprogress' } }, resume).state;
    assert.equal(dueAt(made, bare), at + 10_000);
    assert.equal(step(made, bare, { type: 'tick', at: at + 10_000 }).state.status?.phase, 'completed');

    const startedAt = new Date(at).toISOString();
    const steps = [{ id: 'other', phase: 'running', attempt: 1, startedAt }] as const;
    const { status } = step(made, { status: { phase: 'inprogress', startedAt, steps: [...steps] } }, resume).state;
    assert.equal(status?.phase, 'failed');
    assert.equal(status?.reason, 'InvalidWorkflow');
    assert.match(status?.message ?? '', /step 'other'/);
  });
});
