import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { WorkflowExecution, WorkflowExecutionStatus } from '../../src/api/workflow-execution.ts';
import { InvalidError } from '../../src/kube/errors.ts';
import { RunLostError } from '../../src/workflow/recorder.ts';
import { Scene } from './scene.ts';

const steps = ['a', 'b', 'c'].map((id) => ({ id, tool: `up/${id}` }));
const tools = { 'up/a': { takesMs: 2000 }, 'up/b': { takesMs: 2000 }, 'up/c': {} };

/** Does `change` before the write number `nth` (1 for the first) reaches the API server. */
function beforeWrite(scene: Scene, nth: number, change: () => void): void {
  let writes = 0;
  scene.world.onPoint = (point) => {
    if (point === 'before write' && ++writes === nth) change();
  };
}

function withStatus(execution: WorkflowExecution, status: Partial<WorkflowExecutionStatus>): WorkflowExecution {
  return { ...execution, status: { phase: 'inprogress', ...execution.status, ...status } };
}

const lost = (why: RunLostError['why']) => (error: unknown) => error instanceof RunLostError && error.why === why;

describe('another writer', () => {
  it('field case 61 (E): edits annotations before every write; no result is lost and the run ends', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    let edits = 0;
    scene.world.onPoint = (point) => {
      if (point !== 'before write' || edits >= 20) return;
      scene.world.change((execution) => {
        execution.metadata.annotations = { ...execution.metadata.annotations, edit: String(++edits) };
        return execution;
      });
    };
    await scene.run();
    assert.equal(scene.status.phase, 'completed');
    assert.deepEqual(
      scene.status.steps?.map(({ phase }) => phase),
      ['completed', 'completed', 'completed'],
    );
    assert.equal(scene.world.calls.length, 3);
    assert.equal(scene.stored.metadata.annotations?.edit, '20');
  });

  it('field case 4 (A): another runner has claimed it: its calls are aborted and nothing more is written', async () => {
    for (const nth of [1, 2, 3]) {
      const scene = new Scene({ spec: { steps }, tools });
      const driven = scene.start();
      beforeWrite(scene, nth, () =>
        scene.world.change((execution) =>
          withStatus(execution, { runner: { id: 'replica-9', claimedAt: '2026-12-01T00:00:00.000Z' } }),
        ),
      );
      await assert.rejects(scene.until(driven.recorded), lost('claimed'));
      await assert.rejects(driven.ended, lost('claimed'));
      const { stored } = scene;
      await scene.advance(60_000);
      assert.deepEqual(scene.stored, stored);
      assert.equal(scene.status.runner?.id, 'replica-9');
      assert.equal(scene.clock.sleepers, 0);
    }
  });

  it('two replicas take up the same run: one drives it', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    scene.apply('nightly');
    const both = [scene.takeUp(), scene.takeUp()];
    const ends = await scene.until(Promise.allSettled(both.map(({ recorded }) => recorded)));
    assert.deepEqual(ends.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    assert.equal(scene.world.calls.length, 3);
    assert.equal(scene.status.phase, 'completed');
  });

  it('two replicas take up a run that a dead one left: one drives it', async () => {
    const scene = new Scene({ spec: { steps: [{ id: 'wait', sleep: '1h' }, ...steps], timeout: '1d' }, tools });
    const dead = scene.start(3);
    await scene.until(dead.process.killed);
    const both = [scene.takeUp(), scene.takeUp()];
    const ends = await scene.until(Promise.allSettled(both.map(({ recorded }) => recorded)), 60_000);
    assert.deepEqual(ends.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    assert.equal(scene.world.calls.length, 3);
  });

  it('its own write, carried out although the answer was lost, is no other runner', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    const driven = scene.start();
    let again = true;
    scene.world.onPoint = (point) => {
      if (point !== 'after write' || !again) return;
      again = false;
      // What the store's own retry meets: the version that the lost answer would have told.
      scene.world.change((execution) => execution);
    };
    await scene.until(driven.recorded);
    assert.equal(scene.status.phase, 'completed');
    assert.equal(scene.world.calls.length, 3);
  });
});

describe('the execution goes', () => {
  it('deleted: what is in flight is aborted, and the drive ends', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    const driven = scene.start();
    beforeWrite(scene, 2, () => {
      scene.world.stored = undefined;
    });
    await assert.rejects(scene.until(driven.recorded), lost('deleted'));
    await scene.advance(60_000);
    assert.equal(scene.world.stored, undefined);
    assert.equal(scene.clock.sleepers, 0);
  });

  it('deleted and made again under the same name: the new one is not touched', async () => {
    const scene = new Scene({ spec: { steps }, tools });
    scene.apply('nightly');
    const driven = scene.takeUp();
    beforeWrite(scene, 2, () => {
      scene.world.change(({ status: _, ...execution }) => ({
        ...execution,
        metadata: { ...execution.metadata, uid: 'new' },
      }));
    });
    await assert.rejects(scene.until(driven.recorded), lost('deleted'));
    assert.equal(scene.stored.status, undefined);
  });
});

it('a write that is refused for good breaks the run off, and says with what', async () => {
  const scene = new Scene({ spec: { steps }, tools });
  const driven = scene.start();
  beforeWrite(scene, 1, () => {
    throw new InvalidError('denied by a policy', 422, 'Invalid');
  });
  await assert.rejects(scene.until(driven.recorded), /denied by a policy/);
  await assert.rejects(driven.ended, /denied by a policy/);
  assert.equal(scene.world.calls.length, 1);
  assert.equal(scene.clock.sleepers, 0);
});

it('an execution that has ended is not driven', async () => {
  const scene = new Scene({ spec: { steps }, tools });
  await scene.run();
  const { stored } = scene;
  assert.deepEqual(await scene.takeUp().recorded, stored);
  assert.equal(scene.world.calls.length, 3);
});
