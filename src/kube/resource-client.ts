import type { KubeObject, ResourceType } from '../api/object.ts';
import { apiVersionOf } from '../api/object.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../lib/json.ts';
import type { DeleteOptions, ListOptions, ListPage, ResourceClient, WatchEvent, WatchOptions } from './client.ts';
import { NotFoundError, UnavailableError } from './errors.ts';
import { splitLines } from './lines.ts';
import { collectionPath, objectPath, withQuery } from './paths.ts';
import { statusError } from './status-error.ts';
import type { ApiRequest, Transport } from './transport.ts';

/**
 * An unknown field in what we write is our fault, or a CRD older than this operator. By default the API server drops it
 * and says so in a header; a part of an execution's record would be lost in silence. So it is refused, by name.
 */
const STRICT = { fieldValidation: 'Strict' };

/** The typed requests of one resource, each with the fewest parts on the wire. */
export function createResourceClient<T extends KubeObject>(
  transport: Transport,
  type: ResourceType,
): ResourceClient<T> {
  /** Objects leave here without `managedFields`: they are most of an object's size, and nothing here reads them. */
  const receive = (value: unknown): T => {
    const object = value as T & { metadata: { managedFields?: unknown } };
    delete object.metadata.managedFields;
    return object;
  };
  const call = async (request: ApiRequest, signal: AbortSignal | undefined): Promise<T> =>
    receive(parse(request, await transport.call(request, signal)));
  const pathOf = ({ metadata }: T): string => objectPath(type, metadata.namespace, metadata.name);

  return {
    type,
    get: async (namespace, name, signal) => call({ method: 'GET', path: objectPath(type, namespace, name) }, signal),

    async list(namespace, options: ListOptions = {}, signal) {
      const { limit, continue: token, labelSelector, fieldSelector } = options;
      const path = withQuery(collectionPath(type, namespace), { limit, continue: token, labelSelector, fieldSelector });
      const request: ApiRequest = { method: 'GET', path };
      const page = parse(request, await transport.call(request, signal, true)) as unknown as WirePage;
      const { resourceVersion, continue: next } = page.metadata;
      // Lists of built-in types leave these two out of their items.
      const own = { apiVersion: apiVersionOf(type), kind: type.kind };
      const items = (page.items ?? []).map((item) => receive({ ...own, ...item }));
      return { items, resourceVersion, ...(next ? { continue: next } : {}) } satisfies ListPage<T>;
    },

    create: async (object, signal) =>
      call(
        {
          method: 'POST',
          path: withQuery(collectionPath(type, object.metadata.namespace), STRICT),
          body: JSON.stringify(object),
        },
        signal,
      ),

    replace: async (object, signal) =>
      call({ method: 'PUT', path: withQuery(pathOf(object), STRICT), body: JSON.stringify(object) }, signal),

    replaceStatus: async (object, signal) =>
      call(
        { method: 'PUT', path: withQuery(`${pathOf(object)}/status`, STRICT), body: JSON.stringify(object) },
        signal,
      ),

    patch: async (namespace, name, body, signal) =>
      call(
        {
          method: 'PATCH',
          path: withQuery(objectPath(type, namespace, name), STRICT),
          body: JSON.stringify(body),
          contentType: 'application/merge-patch+json',
        },
        signal,
      ),

    async delete(namespace, name, options: DeleteOptions = {}, signal) {
      const body = { apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy: 'Background', preconditions: options };
      try {
        const path = objectPath(type, namespace, name);
        await transport.call({ method: 'DELETE', path, body: JSON.stringify(body) }, signal);
      } catch (error) {
        if (!(error instanceof NotFoundError)) throw error;
      }
    },

    async *watch(namespace, options: WatchOptions, signal) {
      const { silenceMs, ...query } = options;
      const path = withQuery(collectionPath(type, namespace), { watch: true, allowWatchBookmarks: true, ...query });
      const request: ApiRequest = { method: 'GET', path };
      try {
        for await (const line of splitLines(await transport.open(request, silenceMs, signal))) {
          const event = toEvent(request, line, receive);
          // A chunk may hold many events; none of them may reach an owner that has stopped.
          signal.throwIfAborted();
          if (event !== undefined) yield event;
        }
      } catch (error) {
        throw signal.aborted ? signal.reason : transport.failure(request, error);
      }
    },
  };
}

interface WirePage {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  /** `null` for an empty list of some types. */
  readonly items: JsonObject[] | null;
}

/** A line of a watch. @throws the error that an ERROR event stands for. */
function toEvent<T extends KubeObject>(
  request: ApiRequest,
  line: string,
  receive: (value: unknown) => T,
): WatchEvent<T> | undefined {
  const { type, object } = JSON.parse(line) as { type: string; object: JsonValue };
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return { type, object: receive(object) };
    case 'BOOKMARK':
      return { type, resourceVersion: (object as unknown as KubeObject).metadata.resourceVersion ?? '' };
    case 'ERROR': {
      const code = isJsonObject(object) && typeof object.code === 'number' ? object.code : 500;
      throw statusError(`${request.method} ${request.path}`, code, object, false);
    }
    default:
      // Nothing that we know how to heed; the API may gain types of event.
      return undefined;
  }
}

function parse(request: ApiRequest, text: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch (error) {
    const message = `${request.method} ${request.path}: the answer is not JSON: ${text.slice(0, 200)}`;
    throw new UnavailableError(message, 200, '', request.method === 'GET' ? 'none' : 'unknown', { cause: error });
  }
}
