import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  type JSONRPCMessage,
  PROTOCOL_VERSION_META_KEY,
  type Transport,
} from '@modelcontextprotocol/client';
import type { RpcError } from '../api/workflow-execution.ts';
import { isJsonObject, type JsonObject } from '../lib/json.ts';
import type { Progress } from '../workflow/ports.ts';
import { type Failure, failure, failureOf, parseRpcError, rpcErrorOf } from './failure.ts';
import { currentExchange, type Exchange } from './http.ts';

export type Answer =
  /** As it came: nothing is checked, taken out or added. */
  | { readonly kind: 'result'; readonly result: JsonObject }
  | { readonly kind: 'error'; readonly error: RpcError }
  | { readonly kind: 'failure'; readonly failure: Failure }
  /** The signal aborted first. */
  | { readonly kind: 'aborted' };

export interface LaneRequest {
  readonly method: string;
  readonly params?: JsonObject;
  readonly headers?: Record<string, string>;
  /** Asks for progress notifications. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

export interface LaneOptions {
  readonly transport: Transport;
  /** Of 2026-07-28: every request says anew who asks; undefined for a 2025-era server. */
  readonly envelope: { readonly protocolVersion: string; readonly clientInfo: JsonObject } | undefined;
  readonly limitBytes: number;
}

const UNFINISHED = 'broke off its answer';
/** What ends a stream whose server does not, ms after its answer. */
const LINGER_MS = 5_000;
/** A 2025-era server is given so long to take a cancellation before its stream is closed, ms. */
const CANCEL_MS = 5_000;

/**
 * Requests beside the SDK's Client, on its transport. `Client.request` would hang when a stream ends without an answer,
 * would end each call after a time-out of its own, lets one odd tool spoil a whole list, and loses an answer that is a
 * task. Its requests have numbers as ids, ours texts; `take` sorts what comes in.
 */
export class Lane {
  readonly #options: LaneOptions;
  readonly #open = new Map<string, OpenRequest>();
  #count = 0;
  #onIdle: (() => void) | undefined;

  constructor(options: LaneOptions) {
    this.#options = options;
  }

  /** Requests that wait for their answer. */
  get pending(): number {
    return this.#open.size;
  }

  /** Never rejects. When `signal` aborts, it settles at once and cancels the request at the server. */
  request(request: LaneRequest, signal: AbortSignal): Promise<Answer> {
    if (signal.aborted) return Promise.resolve({ kind: 'aborted' });
    const id = `call:${++this.#count}`;
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const stream = new AbortController();
    const settle = (answer: Answer): void => {
      if (!this.#open.delete(id)) return;
      signal.removeEventListener('abort', onAbort);
      this.#endStream(id, stream, answer);
      resolve(answer);
      if (this.#open.size === 0) this.#onIdle?.();
    };
    const onAbort = (): void => settle({ kind: 'aborted' });
    signal.addEventListener('abort', onAbort, { once: true });
    this.#open.set(id, { settle, onProgress: request.onProgress });
    void this.#send(id, request, stream.signal, settle);
    return promise;
  }

  /** Whether `message` was for this lane. */
  take(message: JSONRPCMessage): boolean {
    if ('method' in message) {
      if (message.method !== 'notifications/progress' || 'id' in message) return false;
      const open = this.#open.get(String(message.params?.progressToken));
      const progress = open === undefined ? undefined : parseProgress(message.params);
      if (progress !== undefined) open?.onProgress?.(progress);
      return open !== undefined;
    }
    if (typeof message.id !== 'string' || !message.id.startsWith('call:')) return false;
    // One that was given up meanwhile is nobody's.
    this.#open.get(message.id)?.settle(parseAnswer(message));
    return true;
  }

  /** The transport is gone: nothing that was sent will be answered. */
  fail(reason: Failure): void {
    for (const { settle } of [...this.#open.values()]) settle({ kind: 'failure', failure: reason });
  }

  /** Calls `listener` when no request is open, now or at the end of the last one. */
  whenIdle(listener: () => void): void {
    this.#onIdle = listener;
    if (this.#open.size === 0) listener();
  }

  async #send(id: string, request: LaneRequest, stream: AbortSignal, settle: (answer: Answer) => void): Promise<void> {
    const { transport, limitBytes } = this.#options;
    const broken = (message: string): void =>
      settle({ kind: 'failure', failure: failure('broken', 'ConnectionFailed', message) });
    const exchange: Exchange = {
      streaming: false,
      tooLarge: () => settle({ kind: 'failure', failure: tooLarge(limitBytes) }),
      broken: () => broken(UNFINISHED),
    };
    const hasSession = transport.sessionId !== undefined;
    try {
      const message = this.#message(id, request);
      const options = {
        requestSignal: stream,
        onRequestStreamEnd: () => broken(UNFINISHED),
        ...(request.headers !== undefined && { headers: request.headers }),
      };
      await currentExchange.run(exchange, () => transport.send(message, options));
      if (this.#isHttp && !exchange.streaming) broken('gave no answer to the request');
    } catch (error) {
      const rpc = rpcErrorOf(error, hasSession);
      if (rpc !== undefined) settle({ kind: 'error', error: rpc });
      else if (error instanceof SyntaxError || isInvalidMessage(error)) broken('gave an answer that cannot be read');
      else settle({ kind: 'failure', failure: failureOf(error, hasSession) });
    }
  }

  #message(id: string, { method, params = {}, onProgress }: LaneRequest): JSONRPCMessage {
    const meta = {
      ...this.#envelope(),
      ...(isJsonObject(params._meta) && params._meta),
      ...(onProgress !== undefined && { progressToken: id }),
    };
    const isBare = Object.keys(meta).length === 0;
    return { jsonrpc: '2.0', id, method, params: isBare ? params : { ...params, _meta: meta } };
  }

  /** No capability is declared: a server must neither ask us for anything nor answer with a task. */
  #envelope(): JsonObject {
    const { envelope } = this.#options;
    if (envelope === undefined) return {};
    return {
      [PROTOCOL_VERSION_META_KEY]: envelope.protocolVersion,
      [CLIENT_INFO_META_KEY]: envelope.clientInfo,
      [CLIENT_CAPABILITIES_META_KEY]: {},
    };
  }

  get #isHttp(): boolean {
    return this.#options.transport.hasPerRequestStream === true;
  }

  #endStream(id: string, stream: AbortController, answer: Answer): void {
    if (answer.kind === 'aborted') void this.#cancel(id, stream);
    else if (answer.kind === 'failure') stream.abort();
    else if (this.#isHttp) setTimeout(() => stream.abort(), LINGER_MS).unref();
  }

  /** Over HTTP a 2026-07-28 server takes the end of the stream as the cancellation; every other needs to be told. */
  async #cancel(id: string, stream: AbortController): Promise<void> {
    const { transport, envelope } = this.#options;
    if (envelope === undefined || !this.#isHttp) {
      const meta = this.#envelope();
      const params = { requestId: id, reason: 'cancelled', ...(envelope !== undefined && { _meta: meta }) };
      const options = { requestSignal: AbortSignal.timeout(CANCEL_MS) };
      await transport.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, options).catch(() => {});
    }
    stream.abort();
  }
}

/** An answer that was not read to its end. */
export function tooLarge(limitBytes: number): Failure {
  return failure('broken', 'AnswerTooLarge', `gave an answer above the limit of ${limitBytes} bytes`);
}

interface OpenRequest {
  readonly settle: (answer: Answer) => void;
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

function parseAnswer(message: Exclude<JSONRPCMessage, { method: string }>): Answer {
  if ('result' in message) return { kind: 'result', result: message.result as JsonObject };
  const error = parseRpcError(message.error);
  if (error !== undefined) return { kind: 'error', error };
  return { kind: 'failure', failure: failure('broken', 'ConnectionFailed', 'gave an answer that cannot be read') };
}

function parseProgress(params: unknown): Progress | undefined {
  if (!isJsonObject(params) || typeof params.progress !== 'number') return undefined;
  const { progress, total, message } = params;
  return {
    progress,
    ...(typeof total === 'number' && { total }),
    ...(typeof message === 'string' && { message }),
  };
}

/** The transport's schema of a JSON-RPC message refused it. */
function isInvalidMessage(error: unknown): boolean {
  return error instanceof Error && error.name === 'ZodError';
}
