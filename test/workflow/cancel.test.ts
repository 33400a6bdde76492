import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StepSpec } from '../../src/api/workflow.ts';
import type { WorkflowExecution } from '../../src/api/workflow-execution.ts';
import type { ToolCall } from '../../src/workflow/ports.ts';
import { Scene } from './scene.ts';

const asked = (execution: WorkflowExecution): WorkflowExecution => ({
  ...execution,
  spec: { ...execution.spec, cancel: true },
});

const steps: StepSpec[] = [
  { id: 'read', tool: 'up/read' },
  { id: 'do', tool: 'up/do' },
  { id: 'wait', sleep: '5s' },
  { id: 'last', tool: 'up/last' },
];
const readOnlyHint = { annotations: { readOnlyHint: true } };
const tools = { 'up/read': readOnlyHint, 'up/do': { takesMs: 3000 }, 'up/last': {} };

describe('cancel', () => {
  it('field case 1 (A): asked for at any point, by patch or here, the run ends cancelled or was complete already', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    await scene.run();
    const points = scene.world.points.length;
    for (let at = 0; at < points; at++) {
      for (const way of ['patch', 'here']) {
        const tried = new Scene({ spec: { steps }, tools });
        const driven = tried.start();
        let point = 0;
        tried.world.onPoint = () => {
          if (point++ !== at) return;
          if (way === 'here') driven.cancel();
          else if (tried.world.stored === undefined) driven.cancel();
          else {
            tried.world.change(asked);
            driven.observe(tried.stored);
          }
        };
        await tried.until(driven.recorded);
        const { phase, steps: records = [], result } = tried.status;
        const ended = records.at(-1);
        if (ended?.id === 'last' && ended.phase === 'completed') assert.equal(phase, 'completed');
        else {
          assert.equal(phase, 'cancelled', `${way} at point ${at}`);
          assert.equal(result, undefined);
        }
        for (const record of records) assert.ok(record.phase !== 'running' && record.finishedAt !== undefined);
        assert.equal(tried.clock.sleepers, 0);
      }
    }
  });

  it('seen only when the next write meets it, counts all the same', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    const driven = scene.start();
    await scene.advance(100);
    scene.world.change(asked);
    await scene.until(driven.recorded);
    assert.equal(scene.status.phase, 'cancelled');
    assert.equal(scene.stored.spec.cancel, true);
  });

  it('aborts the call in flight, and its step says so', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    const driven = scene.start();
    const start = scene.clock.now();
    await scene.advance(1000);
    driven.cancel();
    await scene.until(driven.recorded);
    assert.deepEqual(
      scene.status.steps?.map(({ id, phase, reason }) => [id, phase, reason]),
      [
        ['read', 'completed', undefined],
        ['do', 'cancelled', 'Cancelled'],
      ],
    );
    assert.equal(Date.parse(scene.status.finishedAt ?? '') - start, 1000);
    assert.deepEqual([scene.status.reason, scene.status.message], ['Cancelled', "cancelled on request, at step 'do'"]);
    assert.deepEqual(scene.events.at(-1), "Normal Cancelled: cancelled on request, at step 'do'");
  });

  it('ends a sleep at once', async () => {
    const scene = new Scene({ spec: { steps: [{ id: 'wait', sleep: '1h' }] } });
    const driven = scene.start();
    await scene.advance(1000);
    driven.cancel();
    await scene.until(driven.recorded);
    assert.deepEqual(
      [scene.status.phase, scene.status.steps?.[0]?.phase, scene.status.duration],
      ['cancelled', 'cancelled', '1s'],
    );
  });

  it('before the start: nothing is called', async () => {
    const scene = new Scene({ spec: { steps }, tools, execution: { cancel: true } });
    scene.apply('nightly');
    await scene.until(scene.takeUp().recorded);
    assert.deepEqual([scene.status.phase, scene.world.calls.length], ['cancelled', 0]);
  });

  it('field case 3 (A): asked for again, and after the end, changes nothing', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    const driven = scene.start();
    await scene.advance(100);
    for (let n = 0; n < 3; n++) driven.cancel();
    await scene.until(driven.recorded);
    const { stored } = scene;
    driven.cancel();
    driven.observe(asked(stored));
    await scene.advance(60_000);
    assert.deepEqual(scene.stored, stored);
  });

  /** An upstream that does not heed the cancel: it answers when it is ready. */
  function stubborn(takesMs: number): Scene {
    return new Scene({
      spec: { steps: [{ id: 'do', tool: 'up/do' }] },
      tools: {
        'up/do': { stubborn: true, takesMs, answer: (_: ToolCall) => ({ content: [{ type: 'text', text: 'done' }] }) },
      },
    });
  }

  it('field case 2 (A): the last step’s result that arrives meanwhile wins, and is kept', async () => {
    const scene = stubborn(3000);
    const driven = scene.start();
    await scene.advance(1000);
    driven.cancel();
    await scene.until(driven.recorded);
    assert.equal(scene.status.phase, 'completed');
    assert.deepEqual(scene.status.result, { content: [{ type: 'text', text: 'done' }] });
  });

  it('waits ten seconds for a call to end, and no longer, however often it is asked for', async () => {
    const scene = stubborn(60_000);
    const driven = scene.start();
    const start = scene.clock.now();
    await scene.advance(1000);
    driven.cancel();
    await scene.advance(5000);
    driven.cancel();
    await scene.until(driven.recorded);
    assert.equal(scene.status.phase, 'cancelled');
    assert.equal(Date.parse(scene.status.finishedAt ?? '') - start, 11_000);
    assert.match(scene.status.steps?.[0]?.message ?? '', /did not end within 10s/);
  });

  it('of a run that nobody drove: the call in doubt is interrupted, the run cancelled', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    const dead = scene.start(8);
    await scene.until(dead.process.killed);
    assert.equal(scene.status.steps?.at(-1)?.phase, 'running');
    scene.world.change(asked);
    await scene.until(scene.takeUp().recorded);
    assert.equal(scene.status.phase, 'cancelled');
    assert.deepEqual(scene.status.steps?.at(-1)?.reason, 'Interrupted');
  });
});
