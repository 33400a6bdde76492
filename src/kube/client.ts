import type { KubeObject, ResourceType } from '../api/object.ts';
import type { JsonValue } from '../lib/json.ts';

/**
 * The contract of this folder; read it first. `connect` (connect.ts) gives a `KubeClient`; each call is one request on
 * the shared connection, bounded in time, and fails with an error of errors.ts. Nothing here caches: that is the reflector's.
 */
export interface KubeClient {
  resource<T extends KubeObject>(type: ResourceType): ResourceClient<T>;
  /** A request outside the typed resources, for instance `GET /readyz`. Resolves with the body's text. */
  raw(method: 'GET' | 'POST', path: string, options?: { body?: JsonValue; signal?: AbortSignal }): Promise<string>;
  /** Ends when every open watch was aborted by its owner and has ended. Idempotent. */
  close(): Promise<void>;
}

export interface ResourceClient<T extends KubeObject> {
  readonly type: ResourceType;
  get(namespace: string, name: string, signal?: AbortSignal): Promise<T>;
  /** One page; `namespace` undefined means all namespaces. */
  list(namespace: string | undefined, options?: ListOptions, signal?: AbortSignal): Promise<ListPage<T>>;
  /** @throws AlreadyExistsError when the name is taken. */
  create(object: T, signal?: AbortSignal): Promise<T>;
  /** PUT of the whole object; `metadata.resourceVersion` is the compare-and-swap. @throws ConflictError */
  replace(object: T, signal?: AbortSignal): Promise<T>;
  /** PUT of `/status`; the same compare-and-swap. @throws ConflictError */
  replaceStatus(object: T, signal?: AbortSignal): Promise<T>;
  /** JSON merge patch (RFC 7386); `null` deletes. With `metadata.resourceVersion` in it: @throws ConflictError */
  patch(namespace: string, name: string, body: JsonValue, signal?: AbortSignal): Promise<T>;
  /** Resolves also when there was nothing to delete. */
  delete(namespace: string, name: string, options?: DeleteOptions, signal?: AbortSignal): Promise<void>;
  /**
   * One watch request, to its end. Ends without an error when the server closes it; throws `GoneError` on 410 (as HTTP
   * status or as ERROR event), `UnavailableError` after `silenceMs` without a byte, the signal's reason when that aborts.
   */
  watch(namespace: string | undefined, options: WatchOptions, signal: AbortSignal): AsyncIterable<WatchEvent<T>>;
}

export interface ListOptions {
  readonly limit?: number;
  readonly continue?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface ListPage<T> {
  readonly items: T[];
  readonly resourceVersion: string;
  /** Absent on the last page. */
  readonly continue?: string;
}

export interface DeleteOptions {
  /** Preconditions: nothing is deleted but that very object. @throws ConflictError */
  readonly uid?: string;
  readonly resourceVersion?: string;
}

export interface WatchOptions {
  readonly resourceVersion: string;
  readonly timeoutSeconds: number;
  /** A watch without a byte for so long is dead (bookmarks come about once a minute). */
  readonly silenceMs: number;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };
