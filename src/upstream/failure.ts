import { SdkHttpError } from '@modelcontextprotocol/client';
import type { RpcError } from '../api/workflow-execution.ts';
import { ConnectError } from '../kube/agent.ts';
import { formatDuration } from '../lib/duration.ts';
import { describeError } from '../lib/errors.ts';
import { isJsonObject, type JsonValue } from '../lib/json.ts';
import type { Fault } from './connection-state.ts';
import { TooLargeError } from './http.ts';
import { ValueError } from './named-values.ts';

/** A request that brought no answer. */
export interface Failure {
  /** All but `broken` were surely not carried out. */
  readonly nature: /** Nobody listens there. */
    | 'unreachable'
    /** The server does not know our session (2025-era). */
    | 'sessionLost'
    /** It has too much to do, and is there. */
    | 'busy'
    /** It, or something before it, would not take the request. */
    | 'refused'
    | 'broken';
  readonly fault: Fault;
}

/** What went wrong, of whatever the SDK, undici or node threw. @param hasSession the request named a session */
export function failureOf(error: unknown, hasSession = false): Failure {
  const status = find(error, (each) => each instanceof SdkHttpError);
  if (status instanceof SdkHttpError) return failureOfStatus(status.status, String(status.data.text ?? ''), hasSession);
  if (find(error, (each) => each instanceof ConnectError) !== undefined) {
    return failure('unreachable', 'ConnectionFailed', 'cannot be reached', describeError(rootOf(error)));
  }
  const value = find(error, (each) => each instanceof ValueError);
  if (value !== undefined)
    return failure('unreachable', 'InvalidValue', 'has a value that cannot be used', value.message);
  if (find(error, (each) => each instanceof TooLargeError) !== undefined) {
    return failure('broken', 'AnswerTooLarge', 'gave an answer that is too large', describeError(error));
  }
  if (find(error, isSpawnError) !== undefined) {
    return failure('unreachable', 'CommandFailed', 'cannot be started', describeError(error));
  }
  return failure('broken', 'ConnectionFailed', 'broke off the connection', describeError(error));
}

/** The JSON-RPC error that an HTTP error carried: a server of 2026-07-28 answers an unknown method with 404. */
export function rpcErrorOf(error: unknown, hasSession: boolean): RpcError | undefined {
  if (!(error instanceof SdkHttpError) || error.status >= 500) return undefined;
  const text = String(error.data.text ?? '');
  if (failureOfStatus(error.status, text, hasSession).nature === 'sessionLost') return undefined;
  try {
    const body: JsonValue = JSON.parse(text);
    return isJsonObject(body) ? parseRpcError(body.error) : undefined;
  } catch {
    return undefined;
  }
}

export function parseRpcError(error: unknown): RpcError | undefined {
  if (!isJsonObject(error)) return undefined;
  const { code, message, data } = error;
  if (typeof code !== 'number' || typeof message !== 'string') return undefined;
  return { code, message, ...(data !== undefined && { data }) };
}

function failureOfStatus(status: number, text: string, hasSession: boolean): Failure {
  // A server should answer 404; many answer 400 and say in words what they miss (field case 21).
  if (hasSession && (status === 404 || (status === 400 && /session/i.test(text)))) {
    return failure('sessionLost', 'SessionLost', 'does not know the session it was called with', `HTTP ${status}`);
  }
  const answered = `answered HTTP ${status}`;
  if (status === 401 || status === 403) {
    return failure('refused', 'Unauthorized', `does not accept the credentials (HTTP ${status})`);
  }
  if (status === 429) return failure('busy', 'TooManyRequests', answered);
  if (status === 503) return failure('refused', 'ServerError', answered);
  // 408: it may have begun.
  if (status >= 500 || status === 408) return failure('broken', 'ServerError', answered);
  return failure('refused', 'RequestRefused', answered);
}

export function failure(nature: Failure['nature'], reason: string, message: string, detail?: string): Failure {
  return { nature, fault: { reason, message, ...(detail !== undefined && { detail }) } };
}

export function notResponding(timeoutMs: number): Failure {
  return failure('broken', 'NotResponding', `has not answered for ${formatDuration(timeoutMs)}`);
}

function isSpawnError(error: Error): boolean {
  return 'syscall' in error && typeof error.syscall === 'string' && error.syscall.startsWith('spawn');
}

function find(error: unknown, matches: (error: Error) => boolean): Error | undefined {
  for (let each = error, depth = 0; each instanceof Error && depth < 8; each = each.cause, depth += 1) {
    if (matches(each)) return each;
  }
  return undefined;
}

function rootOf(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? rootOf(error.cause) : error;
}
