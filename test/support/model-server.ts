import type { KubeObject, ResourceType } from '../../src/api/object.ts';
import type { ListPage, ResourceClient, WatchEvent } from '../../src/kube/client.ts';
import { GoneError } from '../../src/kube/errors.ts';
import { isLater, versionOf } from '../../src/kube/resource-version.ts';

export const CONFIG_MAP: ResourceType = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps' };

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

type ObjectEvent = Exclude<WatchEvent<ConfigMap>, { type: 'BOOKMARK' }>;

/**
 * The part of an API server's behaviour that a reflector depends on, in memory: one sequence of versions, pages of a
 * list that all show one moment, watches from a version, and a history that is compacted now and then.
 */
export class ModelServer {
  #version = 8; // so that a test soon crosses from one digit to two, where the order of texts is not that of numbers
  #compacted = 0;
  #uids = 0;
  readonly #objects = new Map<string, ConfigMap>();
  readonly #history: ObjectEvent[] = [];
  /** Token → the rest of a list, and the version that it shows. */
  readonly #lists = new Map<string, { rest: ConfigMap[]; version: number }>();

  get version(): string {
    return String(this.#version);
  }

  get objects(): ConfigMap[] {
    return [...this.#objects.values()];
  }

  get(name: string): ConfigMap | undefined {
    return this.#objects.get(name);
  }

  /** Creates or updates. */
  put(name: string): ConfigMap {
    const before = this.#objects.get(name);
    this.#version += 1;
    const uid = before?.metadata.uid ?? `uid-${++this.#uids}`;
    const metadata = { namespace: 'default', name, uid, resourceVersion: this.version };
    const object = deepFreeze({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { at: this.version } });
    this.#objects.set(name, object);
    this.#history.push({ type: before === undefined ? 'ADDED' : 'MODIFIED', object });
    return object;
  }

  remove(name: string): void {
    const before = this.#objects.get(name);
    if (before === undefined) return;
    this.#version += 1;
    this.#objects.delete(name);
    const last = deepFreeze({ ...before, metadata: { ...before.metadata, resourceVersion: this.version } });
    this.#history.push({ type: 'DELETED', object: last });
  }

  /** Forgets how it came to this: older watches and lists under way are answered 410. */
  compact(): void {
    this.#compacted = this.#version;
  }

  /** @throws GoneError when the list that `token` goes on with is from before the last compaction. */
  page(limit: number, token?: string): ListPage<ConfigMap> {
    const { rest, version } =
      token === undefined ? { rest: this.objects, version: this.#version } : (this.#lists.get(token) ?? gone('token'));
    if (token !== undefined && version < this.#compacted) gone('token');
    const page = { items: rest.slice(0, limit), resourceVersion: String(version) };
    if (rest.length <= limit) return page;
    const next = `${version}-${rest.length - limit}`;
    this.#lists.set(next, { rest: rest.slice(limit), version });
    return { ...page, continue: next };
  }

  /** The first event after `version`, if there is one. @throws GoneError when it was compacted. */
  eventAfter(version: string): ObjectEvent | undefined {
    if (isLater(String(this.#compacted), version)) gone('resourceVersion');
    return this.#history.find(({ object }) => isLater(versionOf(object), version));
  }
}

function gone(what: string): never {
  throw new GoneError(`the ${what} is too old`, 410, 'Expired');
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  return Object.freeze(value);
}

/** A client of which a test supplies what the reflector uses. */
export function readClient(reads: Pick<ResourceClient<ConfigMap>, 'list' | 'watch'>): ResourceClient<ConfigMap> {
  const unused = (): never => {
    throw new Error('a reflector only lists and watches');
  };
  const writes = { get: unused, create: unused, replace: unused, replaceStatus: unused, patch: unused, delete: unused };
  return { type: CONFIG_MAP, ...writes, ...reads };
}
