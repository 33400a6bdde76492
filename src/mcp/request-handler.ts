import {
  createMcpHandler,
  isJsonContentType,
  ProtocolErrorCode,
  type ServerEventBus,
} from '@modelcontextprotocol/server';
import { describeError } from '../lib/errors.ts';
import { isDeeperThan, isJsonObject, type JsonObject } from '../lib/json.ts';
import { refused, tasksRequired, toProtocolError } from './errors.ts';
import { BodyTooLargeError, type HttpRequest, isEventStream } from './http-server.ts';
import type { Catalog } from './ports.ts';
import type { Scope, Services } from './scope.ts';
import { createServer } from './server.ts';
import { streamWhenSlow } from './slow-answer.ts';
import { declaresTasks } from './wire.ts';

export interface RequestHandlerOptions {
  readonly services: Services;
  readonly ownNamespace: string;
  /** Why a request with these headers is refused; undefined when it is not. */
  readonly refusalOf: (headers: HttpRequest['headers']) => string | undefined;
  readonly keepAliveMs: number;
  readonly maxSubscriptions: number;
}

export interface RequestHandler {
  /** Never rejects. */
  answer(request: HttpRequest): Promise<Response>;
  /** Refuses what comes from now on and ends the open subscriptions with their result. */
  close(): void;
}

/** With `--auth=none` everyone is this one. */
const ANONYMOUS = 'system:anonymous';
/** What checks arguments recurses, so it must not be the caller who says how deep. */
const DEEPEST_BODY = 256;
const PATH = /^(?:\/namespaces\/(?<namespace>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?))?\/mcp$/;

/** One request at a time, in the order of reference B.8: Host and Origin, path, JSON, then the SDK's own ladder. */
export function createRequestHandler(options: RequestHandlerOptions): RequestHandler {
  const { services, keepAliveMs, maxSubscriptions } = options;
  const { catalog, log } = services;
  /** Each ends one that is open. */
  const subscriptions = new Set<AbortController>();
  let isClosed = false;

  const route = async (request: HttpRequest): Promise<Response> => {
    const namespace = namespaceOf(request.path, options.ownNamespace);
    if (namespace === undefined) return refuse(404, 'Not found: the paths are /mcp and /namespaces/<name>/mcp.');
    if (!catalog.serves(namespace)) return refuse(404, `This operator does not serve the namespace ${namespace}.`);
    if (request.method !== 'POST') return refuse(405, 'Only POST is served here.', { allow: 'POST' });
    if (!isJsonContentType(request.headers['content-type'] ?? null)) {
      return refuse(415, 'The Content-Type of a request must be application/json.');
    }
    const read = await readJson(request);
    if ('refusal' in read) return read.refusal;
    if (isClosed) return refuse(503, 'This operator is stopping.', { connection: 'close' });
    const { body } = read;
    const scope: Scope = { ...services, namespace, subject: ANONYMOUS };
    if (isJsonObject(body) && body.method === 'subscriptions/listen') return listen(scope, request, body);
    // Its faults are answers too: a stream that is open by then can only be told, not refused.
    const answer = serve(scope, request, body).catch((error: unknown) => faultOf(request, error));
    const canStream = request.headers.accept?.includes('text/event-stream') ?? false;
    return canStream ? streamWhenSlow(answer, keepAliveMs) : answer;
  };

  /** `taskIds` are not honoured yet, and the ack, which lists what is, says so. */
  const listen = async (scope: Scope, request: HttpRequest, body: JsonObject): Promise<Response> => {
    if (subscriptions.size >= maxSubscriptions) {
      return refuse(503, `This replica has ${maxSubscriptions} subscriptions, the most it takes.`);
    }
    const end = new AbortController();
    subscriptions.add(end);
    const forget = (): boolean => subscriptions.delete(end);
    if (request.signal.aborted) forget();
    else request.signal.addEventListener('abort', forget, { once: true });
    const response = await serve(scope, request, body, end.signal);
    if (!isEventStream(response) || !asksForTasks(body)) return response;
    // Only now, so that whatever the SDK refuses in a request comes first.
    end.abort();
    const { code, message, data } = tasksRequired();
    return refused(400, { code, message, data, id: body.id as string | number });
  };

  /** The SDK's answer, by a server of this request alone. `end` ends a subscription with its result. */
  const serve = async (scope: Scope, request: HttpRequest, body: unknown, end?: AbortSignal): Promise<Response> => {
    let last: Error | undefined;
    const handler = createMcpHandler(({ era }) => createServer(scope, era), {
      bus: listChangesOf(catalog, scope.namespace),
      keepAliveMs,
      onerror: (error) => {
        last = error;
        log.debug({ namespace: scope.namespace, error: describeError(error) }, 'request refused');
      },
    });
    end?.addEventListener('abort', () => void handler.close(), { once: true });
    const response = await handler.fetch(toWebRequest(request), { parsedBody: body });
    if (response.status === 500) throw last ?? new Error('the SDK answered 500 and gave no reason');
    return response;
  };

  const faultOf = (request: HttpRequest, error: unknown): Response => {
    const { code, message } = toProtocolError(error, { ...services, namespace: request.path, method: request.method });
    return refused(500, { code, message });
  };

  return {
    async answer(request) {
      try {
        const refusal = options.refusalOf(request.headers);
        return refusal === undefined ? await route(request) : refuse(403, refusal);
      } catch (error) {
        return faultOf(request, error);
      }
    },
    close() {
      isClosed = true;
      for (const end of subscriptions) end.abort();
    },
  };
}

function refuse(status: number, message: string, headers?: Record<string, string>): Response {
  return refused(status, { code: ProtocolErrorCode.InvalidRequest, message }, headers);
}

async function readJson(request: HttpRequest): Promise<{ body: unknown } | { refusal: Response }> {
  let text: string;
  try {
    text = await request.text();
  } catch (error) {
    const isTooLarge = error instanceof BodyTooLargeError;
    const [status, message] = isTooLarge ? [413, error.message] : [400, 'The body ended before its time.'];
    return { refusal: refuse(status, message, { connection: 'close' }) };
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    const error = { code: ProtocolErrorCode.ParseError, message: 'Parse error: the body is not JSON.' };
    return { refusal: refused(400, error) };
  }
  if (!isDeeperThan(body, DEEPEST_BODY)) return { body };
  const message = `Invalid params: lists and objects lie more than ${DEEPEST_BODY} deep within each other.`;
  return { refusal: refused(400, { code: ProtocolErrorCode.InvalidParams, message }) };
}

function namespaceOf(path: string, ownNamespace: string): string | undefined {
  const match = PATH.exec(path);
  return match === null ? undefined : (match.groups?.namespace ?? ownNamespace);
}

function listChangesOf(catalog: Catalog, namespace: string): ServerEventBus {
  return {
    publish() {},
    subscribe: (listener) =>
      catalog.onChange((changed) => {
        if (changed === namespace) listener({ kind: 'tools_list_changed' });
      }),
  };
}

/** A listen with `taskIds` from a client that did not declare the extension in it. */
function asksForTasks({ params }: JsonObject): boolean {
  if (!isJsonObject(params) || !isJsonObject(params.notifications)) return false;
  return params.notifications.taskIds !== undefined && !declaresTasks(params._meta);
}

/** The body is parsed already and goes beside it. */
function toWebRequest({ method, path, headers, signal }: HttpRequest): Request {
  const web = new Headers();
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) web.set(name, String(value));
  return new Request(`http://localhost${path}`, { method, headers: web, signal });
}
