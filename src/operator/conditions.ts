import { isDeepStrictEqual } from 'node:util';
import type { Condition } from '../api/object.ts';
import { shorten } from '../workflow/values.ts';

export type NewCondition = Omit<Condition, 'lastTransitionTime'>;

/** The conditions with `changes` put in, messages cut to what the CRDs take; `lastTransitionTime` moves only when a `status` changes. */
export function withConditions(
  before: readonly Condition[],
  changes: readonly NewCondition[],
  now: string,
): Condition[] {
  const byType = new Map(before.map((condition) => [condition.type, condition]));
  for (const change of changes) {
    const old = byType.get(change.type);
    const lastTransitionTime = old?.status === change.status ? old.lastTransitionTime : now;
    byType.set(change.type, { ...change, message: shorten(change.message), lastTransitionTime });
  }
  return [...byType.values()];
}

/** Whether a write would change anything: key order and keys without a value do not count. */
export function sameStatus(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(normal(a), normal(b));
}

function normal(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
