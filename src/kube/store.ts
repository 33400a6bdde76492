import type { KubeObject } from '../api/object.ts';

/** What a reflector has seen: read-only for everyone else. Objects are shared, never to be changed. */
export interface Store<T extends KubeObject> {
  get(namespace: string, name: string): T | undefined;
  /** In no particular order. */
  list(namespace?: string): T[];
  /** Objects whose index `index` has the value `value`. @throws RangeError for an index that was not declared. */
  by(index: string, value: string): T[];
  readonly size: number;
}
