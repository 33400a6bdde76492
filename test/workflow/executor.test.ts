import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JsonValue } from '../../src/lib/json.ts';
import { RunLostError } from '../../src/workflow/recorder.ts';
import { Scene } from './scene.ts';
import type { ScriptedTool } from './scripted-world.ts';

const readOnly: ScriptedTool = { annotations: { readOnlyHint: true } };
const withEffects: ScriptedTool = {};

function gives(structuredContent: JsonValue): Pick<ScriptedTool, 'outcome'> {
  return { outcome: { kind: 'result', result: { content: [], structuredContent } } };
}

describe('what is recorded before a call, and what a run costs (design §4)', () => {
  it('one repeatable step: it is called beside the create, and there is one write', async () => {
    const scene = new Scene({ spec: { steps: [{ id: 'read', tool: 'up/read' }] }, tools: { 'up/read': readOnly } });
    await scene.run();
    assert.deepEqual(scene.world.points, [
      'before create',
      'before call',
      'after create',
      'after call',
      'before write',
      'after write',
    ]);
  });

  it('one step with effects: the create announces it, and there is one write', async () => {
    const scene = new Scene({ spec: { steps: [{ id: 'do', tool: 'up/do' }] }, tools: { 'up/do': withEffects } });
    await scene.run();
    assert.deepEqual(scene.world.points, [
      'before create',
      'after create',
      'before call',
      'after call',
      'before write',
      'after write',
    ]);
  });

  it('steps with effects: one write each, that says it runs and holds what it depends on, and one at the end', async () => {
    const steps = [
      { id: 'read', tool: 'up/read' },
      { id: 'do', tool: 'up/do', args: { n: '${results.read.n}' } },
      { id: 'done', tool: 'up/done' },
    ];
    const tools = { 'up/read': { ...readOnly, ...gives({ n: 7 }) }, 'up/do': {}, 'up/done': {} };
    const scene = new Scene({ spec: { steps }, tools });
    const shown: unknown[] = [];
    scene.world.onPoint = (point) => {
      if (point === 'before call')
        shown.push(scene.world.stored?.status?.steps?.map(({ id, phase, result }) => [id, phase, result]));
    };
    await scene.run();
    assert.deepEqual(shown, [
      undefined,
      [
        ['read', 'completed', { n: 7 }],
        ['do', 'running', undefined],
      ],
      [
        ['read', 'completed', undefined],
        ['do', 'completed', undefined],
        ['done', 'running', undefined],
      ],
    ]);
    assert.equal(scene.world.writes.length, 3);
    assert.deepEqual(scene.world.calls[1]?.args, { n: 7 });
  });

  it('a hundred repeatable steps: one write', async () => {
    const steps = Array.from({ length: 100 }, (_, n) => ({ id: `s${n}`, tool: 'up/read' }));
    const scene = new Scene({ spec: { steps }, tools: { 'up/read': readOnly } });
    await scene.until(scene.start().recorded, 1);
    assert.equal(scene.world.calls.length, 100);
    assert.equal(scene.world.writes.length, 1);
  });

  it('a run that was found is claimed before anything is called', async () => {
    const scene = new Scene({ spec: { steps: [{ id: 'read', tool: 'up/read' }] }, tools: { 'up/read': readOnly } });
    scene.apply('nightly');
    await scene.until(scene.takeUp().recorded);
    assert.deepEqual(scene.world.points.slice(0, 3), ['before write', 'after write', 'before call']);
    assert.deepEqual(scene.world.writes[0]?.status?.runner?.id, 'replica-1');
    assert.equal(scene.world.calls[0]?.key, 'team-a/the-uid/read');
  });

  it('what the spec says of a step counts more than what its tool says', async () => {
    const steps = [{ id: 'read', tool: 'up/read', repeatable: false }];
    const scene = new Scene({ spec: { steps }, tools: { 'up/read': readOnly } });
    await scene.run();
    assert.deepEqual(scene.world.points.slice(0, 3), ['before create', 'after create', 'before call']);
  });
});

describe('when the caller is answered', () => {
  /** The API server takes the create and holds the last write. */
  async function heldAtTheLastWrite(
    tool: ScriptedTool,
  ): Promise<{ scene: Scene; answered: boolean; recorded: boolean }> {
    const scene = new Scene({ spec: { steps: [{ id: 's', tool: 'up/s' }] }, tools: { 'up/s': tool } });
    const driven = scene.start(scene.world.points.length + 4);
    const seen = { answered: false, recorded: false };
    driven.ended.then(() => {
      seen.answered = true;
    }, assert.ifError);
    driven.recorded.then(() => {
      seen.recorded = true;
    }, assert.ifError);
    await scene.until(driven.process.killed);
    await scene.advance(10);
    assert.equal(scene.world.points.at(-1), 'before write');
    return { scene, ...seen };
  }

  it('after a run whose every call may be repeated: before the last record', async () => {
    const { answered, recorded } = await heldAtTheLastWrite(readOnly);
    assert.deepEqual({ answered, recorded }, { answered: true, recorded: false });
  });

  it('after a run with effects: once it is recorded', async () => {
    const { answered, recorded } = await heldAtTheLastWrite(withEffects);
    assert.deepEqual({ answered, recorded }, { answered: false, recorded: false });
  });

  it('never before the create is acknowledged', async () => {
    const scene = new Scene({ spec: { steps: [{ id: 's', tool: 'up/s' }] }, tools: { 'up/s': readOnly } });
    scene.world.onPoint = (point) => assert.notEqual(point, 'before write');
    const driven = scene.start(2); // after the call has begun, the create is never acknowledged
    let answered = false;
    driven.ended.then(() => {
      answered = true;
    }, assert.ifError);
    await scene.until(driven.process.killed);
    await scene.advance(60_000);
    assert.equal(answered, false);
  });

  it('a refused create is the rejection of both, and aborts the call', async () => {
    const scene = new Scene({
      spec: { steps: [{ id: 's', tool: 'up/s' }] },
      tools: { 'up/s': { ...readOnly, takesMs: Infinity } },
    });
    scene.world.onPoint = (point) => {
      if (point === 'before create') throw new Error('quota');
    };
    const { ended, recorded } = scene.start();
    await assert.rejects(scene.until(recorded), /quota/);
    await assert.rejects(ended, /quota/);
    assert.equal(scene.clock.sleepers, 0);
  });
});

describe('what an admin sees', () => {
  it('field case 74 (G): a step that lasts is shown running with its start, and its real duration after', async () => {
    for (const tool of [readOnly, withEffects]) {
      const scene = new Scene({
        spec: { steps: [{ id: 's', tool: 'up/s' }] },
        tools: { 'up/s': { ...tool, takesMs: 5000 } },
      });
      const start = scene.clock.now();
      const { recorded } = scene.start();
      await scene.advance(1500);
      const [running] = scene.status.steps ?? [];
      assert.deepEqual([running?.phase, Date.parse(running?.startedAt ?? '')], ['running', start]);
      assert.equal(scene.status.step, 's');
      await scene.until(recorded);
      const [done] = scene.status.steps ?? [];
      assert.equal(Date.parse(done?.finishedAt ?? '') - Date.parse(done?.startedAt ?? ''), 5000);
      assert.equal(scene.status.duration, '5s');
      assert.equal(scene.world.writes.length, 2);
    }
  });

  it('Events of what is recorded', async () => {
    const steps = [
      { id: 'bad', tool: 'up/bad', allowFailure: true },
      { id: 'good', tool: 'up/good' },
    ];
    const bad: ScriptedTool = { outcome: { kind: 'unavailable', message: 'no server' } };
    const scene = new Scene({ spec: { steps }, tools: { 'up/bad': bad, 'up/good': {} } });
    scene.world.onPoint = (point) => {
      if (point === 'before create') assert.deepEqual(scene.events, []);
    };
    await scene.run();
    assert.deepEqual(scene.events, [
      "Warning StepFailed: step 'bad' (up/bad) failed: Unavailable on attempt 1: no server",
      'Normal Completed: completed in 0s',
    ]);
  });

  it('the times of retention', async () => {
    const scene = new Scene({ spec: { steps: [{ id: 's', sleep: '1m' }], ttlAfterFinished: '24h' } });
    const start = scene.clock.now();
    const { startedAt, finishedAt, expiresAt, duration } = await scene.run();
    assert.deepEqual(
      [startedAt, finishedAt, expiresAt].map((time) => Date.parse(time ?? '') - start),
      [0, 60_000, 60_000 + 24 * 3_600_000],
    );
    assert.equal(duration, '1m');
  });
});

describe('progress', () => {
  it('of a run of one step is its upstream’s, and never goes back', async () => {
    const scene = new Scene({
      spec: { steps: [{ id: 's', tool: 'up/s' }] },
      tools: {
        'up/s': {
          answer: ({ onProgress }) => {
            for (const progress of [0, 50, 40, 50, 100]) onProgress?.({ progress, total: 100 });
            return { content: [] };
          },
        },
      },
    });
    await scene.run();
    assert.deepEqual(
      scene.progress.map(({ progress }) => progress),
      [0, 50, 100],
    );
  });

  it('of several steps counts the steps, and skips what is skipped', async () => {
    const steps = [
      { id: 'a', tool: 'up/s' },
      { id: 'b', tool: 'up/s', if: 'false' },
      { id: 'c', sleep: '1s' },
    ];
    const scene = new Scene({ spec: { steps }, tools: { 'up/s': {} } });
    await scene.run();
    assert.deepEqual(scene.progress, [
      { progress: 0, total: 3, message: "step 'a' (1 of 3)" },
      { progress: 2, total: 3, message: "step 'c' (3 of 3)" },
    ]);
  });
});

describe('handing on', () => {
  const twoSteps = {
    spec: { steps: ['a', 'b'].map((id) => ({ id, tool: `up/${id}` })) },
    tools: { 'up/a': { takesMs: 3000 }, 'up/b': {} },
  };
  const handedOn = (error: unknown): boolean => error instanceof RunLostError && error.why === 'handed-on';

  it('drain: the call in flight ends and is recorded, nothing new begins, the next replica goes on', async () => {
    const scene = new Scene(twoSteps);
    const driven = scene.start();
    await scene.advance(100);
    driven.drain();
    await assert.rejects(scene.until(driven.recorded), handedOn);
    assert.deepEqual(
      scene.status.steps?.map(({ id, phase }) => [id, phase]),
      [['a', 'completed']],
    );
    assert.equal(scene.world.calls.length, 1);
    await scene.until(scene.takeUp().recorded);
    assert.equal(scene.status.phase, 'completed');
    assert.deepEqual(
      scene.world.calls.map(({ tool }) => tool),
      ['up/a', 'up/b'],
    );
  });

  it('stop: a call with effects is given up, and its record still says that it runs', async () => {
    const scene = new Scene(twoSteps);
    const driven = scene.start();
    await scene.advance(1500);
    driven.stop();
    await assert.rejects(scene.until(driven.recorded), handedOn);
    await assert.rejects(driven.ended, handedOn);
    assert.deepEqual(
      scene.status.steps?.map(({ id, phase }) => [id, phase]),
      [['a', 'running']],
    );
    await scene.until(scene.takeUp().recorded);
    assert.deepEqual([scene.status.phase, scene.status.reason], ['failed', 'Interrupted']);
    assert.equal(scene.world.calls.length, 1);
  });

  it('stop: a call that waits for its record is not made, and the next replica makes it', async () => {
    const scene = new Scene({ ...twoSteps, tools: { 'up/a': {}, 'up/b': {} } });
    const driven = scene.start();
    scene.world.onPoint = (point) => {
      if (point === 'before write') driven.stop();
    };
    await assert.rejects(scene.until(driven.recorded), handedOn);
    scene.world.onPoint = () => {};
    assert.deepEqual(
      scene.status.steps?.map(({ id, phase }) => [id, phase]),
      [['a', 'completed']],
    );
    await scene.until(scene.takeUp().recorded);
    assert.equal(scene.status.phase, 'completed');
    assert.deepEqual(
      scene.world.calls.map(({ tool }) => tool),
      ['up/a', 'up/b'],
    );
  });

  it('stop while the API server is away ends after a grace all the same', async () => {
    const scene = new Scene({ ...twoSteps, tools: { 'up/a': {}, 'up/b': {} } });
    const driven = scene.start(4); // nothing that is sent is ever answered from the first write on
    await scene.until(driven.process.killed);
    driven.stop();
    await assert.rejects(scene.until(driven.recorded), handedOn);
    assert.equal(scene.clock.sleepers, 0);
  });

  it('a sleep goes on to its own end, however long nobody drove it', async () => {
    const scene = new Scene({ spec: { steps: [{ id: 'wait', sleep: '10m' }] } });
    const start = scene.clock.now();
    const driven = scene.start();
    await scene.advance(60_000);
    driven.stop();
    await assert.rejects(scene.until(driven.recorded), handedOn);
    await scene.advance(4 * 60_000);
    await scene.until(scene.takeUp().recorded);
    assert.equal(Date.parse(scene.status.steps?.[0]?.finishedAt ?? '') - start, 600_000);
    assert.equal(scene.clock.sleepers, 0);
  });

  it('taken up after its time-out passed: it ends by that, and nothing more is called', async () => {
    const scene = new Scene({ ...twoSteps, spec: { ...twoSteps.spec, timeout: '1m' } });
    const driven = scene.start();
    await scene.advance(100);
    driven.drain();
    await assert.rejects(scene.until(driven.recorded), handedOn);
    await scene.advance(60_000);
    await scene.until(scene.takeUp().recorded);
    assert.deepEqual([scene.status.phase, scene.status.reason], ['failed', 'Timeout']);
    assert.equal(scene.world.calls.length, 1);
  });

  it('a repeatable call that is repeated is the next attempt, and the steps behind it begin at the first', async () => {
    const repeatable = {
      steps: [
        { id: 'a', tool: 'up/a', repeatable: true },
        { id: 'b', tool: 'up/b' },
      ],
    };
    const scene = new Scene({ ...twoSteps, spec: repeatable });
    const dead = scene.start(4); // right after the first status is written, while the call is under way
    await scene.until(dead.process.killed);
    await scene.until(scene.takeUp().recorded);
    assert.deepEqual(
      scene.status.steps?.map(({ phase, attempt }) => [phase, attempt]),
      [
        ['completed', 2],
        ['completed', 1],
      ],
    );
    const [first, second] = scene.world.calls;
    assert.equal(first?.key, second?.key);
  });

  it('the create fails because the operator stops: the run is handed on, not broken', async () => {
    const scene = new Scene(twoSteps);
    const driven = scene.start(0); // the create is never answered
    await scene.until(driven.process.killed);
    driven.stop();
    await assert.rejects(scene.until(driven.recorded), handedOn);
    assert.equal(scene.clock.sleepers, 0);
  });

  it('forget: the execution was deleted, the call is aborted and nothing is written', async () => {
    const scene = new Scene(twoSteps);
    const driven = scene.start();
    await scene.advance(100);
    driven.forget();
    await assert.rejects(driven.recorded, (error) => error instanceof RunLostError && error.why === 'deleted');
    await scene.advance(60_000);
    assert.equal(scene.world.writes.length, 0);
    assert.equal(scene.clock.sleepers, 0);
  });
});
