import type { KubeObject, ResourceType } from '../../src/api/object.ts';
import { keyOf } from '../../src/api/object.ts';
import type { DeleteOptions, ListPage, ResourceClient, WatchEvent } from '../../src/kube/client.ts';
import { AlreadyExistsError, ConflictError, NotFoundError } from '../../src/kube/errors.ts';
import { type Indexes, ObjectStore } from '../../src/kube/object-store.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/lib/json.ts';

let version = 0;

/**
 * One resource of an API server without a network: for tests of what a reconciler decides. `store` is what a reflector would
 * show, and follows each write at once.
 */
export class MemoryResource<T extends KubeObject> implements ResourceClient<T> {
  readonly type: ResourceType;
  readonly store: ObjectStore<T>;
  /** `<verb> <namespace>/<name>` of each write that was asked for. */
  readonly writes: string[] = [];
  /** What a request fails with. */
  refuse: (verb: string) => Error | undefined = () => undefined;
  readonly #objects = new Map<string, T>();

  constructor(type: ResourceType, indexes: Indexes<T> = {}) {
    this.type = type;
    this.store = new ObjectStore(indexes);
  }

  /** As kubectl would. */
  put(object: T): T {
    const uid = this.#objects.get(keyOf(object))?.metadata.uid ?? crypto.randomUUID();
    return this.#put({ ...object, metadata: { uid, ...object.metadata } });
  }

  async get(namespace: string, name: string): Promise<T> {
    this.#admit('get', `${namespace}/${name}`);
    const object = this.#objects.get(`${namespace}/${name}`);
    if (object === undefined) throw new NotFoundError(`${name} not found`, 404, 'NotFound');
    return object;
  }

  async list(): Promise<ListPage<T>> {
    return { items: [...this.#objects.values()], resourceVersion: String(version) };
  }

  async create(object: T): Promise<T> {
    this.#admit('create', keyOf(object));
    if (this.#objects.has(keyOf(object))) throw new AlreadyExistsError('already exists', 409, 'AlreadyExists');
    return this.put(object);
  }

  async replace(object: T): Promise<T> {
    return this.#replace('replace', object);
  }

  async replaceStatus(object: T): Promise<T> {
    return this.#replace('replaceStatus', object);
  }

  async patch(namespace: string, name: string, body: JsonValue): Promise<T> {
    this.#admit('patch', `${namespace}/${name}`);
    const object = await this.get(namespace, name);
    return this.#put(merged(object as unknown as JsonObject, body) as unknown as T);
  }

  async delete(namespace: string, name: string, { uid }: DeleteOptions = {}): Promise<void> {
    this.#admit('delete', `${namespace}/${name}`);
    const object = this.#objects.get(`${namespace}/${name}`);
    if (object === undefined) return;
    if (uid !== undefined && uid !== object.metadata.uid) throw new ConflictError('another uid', 409, 'Conflict');
    this.#objects.delete(`${namespace}/${name}`);
    this.store.apply({ type: 'DELETED', object: versioned(object) });
  }

  async *watch(): AsyncIterable<WatchEvent<T>> {}

  #replace(verb: string, object: T): T {
    this.#admit(verb, keyOf(object));
    const current = this.#objects.get(keyOf(object));
    if (current === undefined) throw new NotFoundError('not found', 404, 'NotFound');
    if (current.metadata.resourceVersion !== object.metadata.resourceVersion) {
      throw new ConflictError('the object has been modified', 409, 'Conflict');
    }
    return this.#put(object);
  }

  #put(object: T): T {
    const stored = versioned(object);
    this.#objects.set(keyOf(stored), stored);
    this.store.apply({ type: 'MODIFIED', object: stored });
    return stored;
  }

  #admit(verb: string, key: string): void {
    if (verb !== 'get') this.writes.push(`${verb} ${key}`);
    const error = this.refuse(verb);
    if (error !== undefined) throw error;
  }
}

function versioned<T extends KubeObject>(object: T): T {
  version += 1;
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
}

/** RFC 7386. */
function merged(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isJsonObject(patch)) return patch;
  const result: JsonObject = isJsonObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}
