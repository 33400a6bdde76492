import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ControllerRevision } from '../../src/api/controller-revision.ts';
import type { Workflow, WorkflowSpec } from '../../src/api/workflow.ts';
import { revisionName, superfluous } from '../../src/operator/revisions.ts';

const spec = (seconds: number, revisionHistoryLimit?: number): WorkflowSpec => ({
  steps: [{ id: 'nap', sleep: `${seconds}s` }],
  ...(revisionHistoryLimit !== undefined && { revisionHistoryLimit }),
});

const workflow = (current: WorkflowSpec): Workflow => ({
  apiVersion: 'convoke.dev/v1alpha1',
  kind: 'Workflow',
  metadata: { name: 'w', namespace: 'n' },
  spec: current,
  status: { revision: revisionName('w', current) },
});

const revision = (seconds: number): ControllerRevision => ({
  apiVersion: 'apps/v1',
  kind: 'ControllerRevision',
  metadata: { name: revisionName('w', spec(seconds)), namespace: 'n' },
  data: { spec: spec(seconds) },
  revision: seconds,
});

test('the name follows the content, whatever the order of keys', () => {
  const { steps } = spec(1);
  assert.equal(revisionName('w', { title: 't', steps }), revisionName('w', { steps, title: 't' }));
  assert.notEqual(revisionName('w', spec(1)), revisionName('w', spec(2)));
});

test('what is current or in use stays, and of the rest the newest up to the limit', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: 1, max: 99 }), { maxLength: 20 }),
      fc.integer({ min: 0, max: 5 }),
      fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }),
      (generations, limit, used) => {
        const revisions = generations.map(revision);
        const inUse = new Set(revisions.filter((_, index) => used[index]).map(({ metadata }) => metadata.name));
        const current = workflow(spec(generations[0] ?? 100, limit));
        current.status = { revision: revisionName('w', spec(generations[0] ?? 100)) };
        const gone = superfluous({ workflow: current, revisions, inUse });
        const idle = revisions.filter(
          ({ metadata }) => !inUse.has(metadata.name) && metadata.name !== current.status?.revision,
        );
        assert.equal(gone.length, Math.max(0, idle.length - limit));
        assert.ok(
          gone.every(({ metadata }) => !inUse.has(metadata.name) && metadata.name !== current.status?.revision),
        );
        const kept = idle.filter((each) => !gone.includes(each));
        assert.ok(kept.every((each) => gone.every((other) => each.revision > other.revision)));
      },
    ),
  );
});

test('of a deleted Workflow only what runs need is kept', () => {
  const revisions = [1, 2, 3].map(revision);
  const inUse = new Set([revisionName('w', spec(2))]);
  const gone = superfluous({ workflow: undefined, revisions, inUse });
  assert.deepEqual(
    gone.map((each) => each.revision),
    [3, 1],
  );
});
