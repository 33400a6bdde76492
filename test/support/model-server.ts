import type { KubeObject, ResourceType } from '../../src/api/object.ts';
import type { ListOptions, ListPage, ResourceClient, WatchEvent, WatchOptions } from '../../src/kube/client.ts';
import { GoneError } from '../../src/kube/errors.ts';
import { isLater, versionOf } from '../../src/kube/resource-version.ts';
import { abortable } from '../../src/lib/abort.ts';

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
  #next = Promise.withResolvers<'event' | 'end'>();
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
    this.#record({ type: before === undefined ? 'ADDED' : 'MODIFIED', object });
    return object;
  }

  remove(name: string): void {
    const before = this.#objects.get(name);
    if (before === undefined) return;
    this.#version += 1;
    this.#objects.delete(name);
    const last = deepFreeze({ ...before, metadata: { ...before.metadata, resourceVersion: this.version } });
    this.#record({ type: 'DELETED', object: last });
  }

  /** Ends every watch that waits for an event, as a server does when their time is over. */
  endWatches(): void {
    this.#tell('end');
  }

  /** Breaks every watch that waits for an event. */
  breakWatches(error: Error): void {
    const { promise, reject } = this.#next;
    this.#next = Promise.withResolvers();
    promise.catch(() => {}); // there may be none
    reject(error);
  }

  /** What a watch that has seen everything waits for. */
  next(): Promise<'event' | 'end'> {
    return this.#next.promise;
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

  #record(event: ObjectEvent): void {
    this.#history.push(event);
    this.#tell('event');
  }

  #tell(what: 'event' | 'end'): void {
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers();
    resolve(what);
  }
}

function gone(what: string): never {
  throw new GoneError(`the ${what} is too old`, 410, 'Expired');
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  return Object.freeze(value);
}

/** What a client asks of a model server. */
export interface ModelRequest {
  readonly kind: 'list' | 'watch';
  readonly namespace: string | undefined;
  readonly options: ListOptions & Partial<WatchOptions>;
  readonly signal: AbortSignal;
}

/** A client of `server` that lists and watches. `before` sees each request first, may hold it, and may throw in its place. */
export function modelClient(
  server: ModelServer,
  before: (request: ModelRequest) => Promise<void> | void = () => {},
): ResourceClient<ConfigMap> {
  const unused = (): never => {
    throw new Error('a reflector only lists and watches');
  };
  return {
    type: CONFIG_MAP,
    get: unused,
    create: unused,
    replace: unused,
    replaceStatus: unused,
    patch: unused,
    delete: unused,
    async list(namespace, options = {}, signal = new AbortController().signal) {
      await before({ kind: 'list', namespace, options, signal });
      return server.page(options.limit ?? Number.POSITIVE_INFINITY, options.continue);
    },
    async *watch(namespace, options, signal) {
      await before({ kind: 'watch', namespace, options, signal });
      for (let version = options.resourceVersion; ; ) {
        const event = server.eventAfter(version);
        if (event === undefined && (await abortable(server.next(), signal)) === 'end') return;
        if (event === undefined) continue;
        version = versionOf(event.object);
        yield event;
      }
    },
  };
}
