import { type KubeObject, keyOf } from '../api/object.ts';
import type { WatchEvent } from './client.ts';
import { isLater, versionOf } from './resource-version.ts';
import type { Store } from './store.ts';

/** Name of an index → the values under which an object is found there. Must not throw, nor depend on anything else. */
export type Indexes<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

export type ChangeKind = 'added' | 'changed' | 'deleted';

export interface Change {
  readonly key: string;
  readonly kind: ChangeKind;
}

interface Index<T> {
  readonly valuesOf: (object: T) => readonly string[];
  readonly entries: Map<string, Map<string, T>>;
}

/**
 * The store that a reflector fills. Every writer returns what it changed, in order; what is as new already changes
 * nothing. An object that was deleted and made anew under its name is both `deleted` and `added`.
 */
export class ObjectStore<T extends KubeObject> implements Store<T> {
  readonly #objects = new Map<string, T>();
  readonly #namespaces: Index<T>;
  readonly #indexes: ReadonlyMap<string, Index<T>>;
  /** Whatever happened up to this resourceVersion is in the store. */
  #seen = '';

  constructor(indexes: Indexes<T> = {}) {
    this.#namespaces = { valuesOf: (object) => [object.metadata.namespace ?? ''], entries: new Map() };
    this.#indexes = new Map(
      Object.entries(indexes).map(([name, valuesOf]) => [name, { valuesOf, entries: new Map() }] as const),
    );
  }

  get size(): number {
    return this.#objects.size;
  }

  get(namespace: string, name: string): T | undefined {
    return this.#objects.get(`${namespace}/${name}`);
  }

  list(namespace?: string): T[] {
    const objects = namespace === undefined ? this.#objects : this.#namespaces.entries.get(namespace);
    return objects === undefined ? [] : [...objects.values()];
  }

  by(index: string, value: string): T[] {
    const declared = this.#indexes.get(index);
    if (declared === undefined) {
      throw new RangeError(`no index "${index}" was declared (there are: ${[...this.#indexes.keys()].join(', ')})`);
    }
    return [...(declared.entries.get(value)?.values() ?? [])];
  }

  /** The full list as of `resourceVersion`. Keeps what `observe` put in since then. */
  replace(objects: Iterable<T>, resourceVersion: string): Change[] {
    // A list older than what was seen means that the server's history was set back (etcd restored): the list is right.
    const setBack = isLater(this.#seen, resourceVersion);
    const outlives = (held: T): boolean => !setBack && isLater(versionOf(held), resourceVersion);
    const listed = new Map<string, T>();
    for (const object of objects) listed.set(keyOf(object), object);

    const changes: Change[] = [];
    for (const [key, held] of this.#objects) {
      if (!listed.has(key) && !outlives(held)) changes.push(this.#remove(key, held));
    }
    for (const [key, object] of listed) {
      const held = this.#objects.get(key);
      if (held === undefined || !outlives(held)) changes.push(...this.#put(key, object));
    }
    this.#seen = resourceVersion;
    return changes;
  }

  /** What the watch delivered. */
  apply(event: WatchEvent<T>): Change[] {
    if (event.type === 'BOOKMARK') {
      this.#advance(event.resourceVersion);
      return [];
    }
    // The object of a DELETED event carries the resourceVersion of the deletion.
    const { object } = event;
    this.#advance(versionOf(object));
    const key = keyOf(object);
    const held = this.#objects.get(key);
    if (held !== undefined && isLater(versionOf(held), versionOf(object))) return [];
    if (event.type !== 'DELETED') return this.#put(key, object);
    return held === undefined ? [] : [this.#remove(key, held)];
  }

  /**
   * What a write of our own was answered, ahead of the watch. An answer that is not later than what was seen is
   * dropped: its object may have been deleted since, and nothing else would ever take it out again.
   */
  observe(object: T): Change[] {
    if (!isLater(versionOf(object), this.#seen)) return [];
    const key = keyOf(object);
    const held = this.#objects.get(key);
    return held !== undefined && isLater(versionOf(held), versionOf(object)) ? [] : this.#put(key, object);
  }

  #advance(resourceVersion: string): void {
    if (isLater(resourceVersion, this.#seen)) this.#seen = resourceVersion;
  }

  #put(key: string, object: T): Change[] {
    const held = this.#objects.get(key);
    if (held === undefined) {
      this.#insert(key, object);
      return [{ key, kind: 'added' }];
    }
    const same = held.metadata.uid === object.metadata.uid;
    if (same && versionOf(held) === versionOf(object)) return [];
    const deleted = this.#remove(key, held);
    this.#insert(key, object);
    return same ? [{ key, kind: 'changed' }] : [deleted, { key, kind: 'added' }];
  }

  #insert(key: string, object: T): void {
    this.#objects.set(key, object);
    for (const { valuesOf, entries } of this.#allIndexes()) {
      for (const value of valuesOf(object)) {
        const entry = entries.get(value);
        if (entry === undefined) entries.set(value, new Map([[key, object]]));
        else entry.set(key, object);
      }
    }
  }

  #remove(key: string, held: T): Change {
    this.#objects.delete(key);
    for (const { valuesOf, entries } of this.#allIndexes()) {
      for (const value of valuesOf(held)) {
        const entry = entries.get(value);
        entry?.delete(key);
        if (entry?.size === 0) entries.delete(value);
      }
    }
    return { key, kind: 'deleted' };
  }

  *#allIndexes(): Iterable<Index<T>> {
    yield this.#namespaces;
    yield* this.#indexes.values();
  }
}
