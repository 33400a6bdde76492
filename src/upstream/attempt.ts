import { DEFAULTS } from '../api/constants.ts';
import type { MCPServerSpec } from '../api/mcp-server.ts';
import { abortable, withTimeout } from '../lib/abort.ts';
import type { Clock } from '../lib/clock.ts';
import { parseDuration } from '../lib/duration.ts';
import type { Logger } from '../lib/log.ts';
import type { Fault } from './connection-state.ts';
import { failureOf, notResponding } from './failure.ts';
import type { Answer } from './lane.ts';
import type { ResolveSecret } from './named-values.ts';
import { Session } from './session.ts';
import type { ToolList } from './tool-list.ts';
import { openTransport } from './transport.ts';

export interface AttemptOptions {
  /** Where the Secrets of the spec are. */
  readonly namespace: string;
  readonly resolveSecret: ResolveSecret;
  /** How we call ourselves. */
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Of one answer. */
  readonly limitBytes: number;
  readonly onToolsChanged: (session: Session) => void;
  readonly onTrouble: (session: Session) => void;
  readonly onClosed: (session: Session) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

export type AttemptOutcome =
  | { readonly kind: 'connected'; readonly session: Session; readonly list: ToolList }
  | { readonly kind: 'failed'; readonly fault: Fault };

/** The server answered, but not with its tools. */
class ListError extends Error {
  readonly answer: Exclude<Answer, { kind: 'result' }>;

  constructor(answer: Exclude<Answer, { kind: 'result' }>) {
    super('the server did not list its tools');
    this.answer = answer;
  }
}

/** One attempt at a session and its tools, within the spec's `timeout`. Never rejects; a failed one leaves nothing behind. */
export async function attemptSession(
  spec: MCPServerSpec,
  options: AttemptOptions,
  signal: AbortSignal,
): Promise<AttemptOutcome> {
  const timeoutMs = parseDuration(spec.timeout ?? DEFAULTS.serverTimeout);
  const bound = withTimeout(signal, timeoutMs);
  let session: Session | undefined;
  try {
    session = await open(spec, options, timeoutMs, bound.signal);
    const list = await session.listTools(bound.signal);
    bound.signal.throwIfAborted();
    if ('kind' in list) throw new ListError(list);
    return { kind: 'connected', session, list };
  } catch (error) {
    await session?.close();
    const isLate = bound.signal.aborted;
    return { kind: 'failed', fault: isLate ? notResponding(timeoutMs).fault : faultOf(error) };
  } finally {
    bound.clear();
  }
}

async function open(
  spec: MCPServerSpec,
  options: AttemptOptions,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Session> {
  const { namespace, resolveSecret, limitBytes, log } = options;
  const opening = openTransport({ spec, namespace, resolveSecret, timeoutMs, limitBytes, log });
  return Session.open(
    {
      ...options,
      ...(await abortable(opening, signal)),
      timeoutMs,
      // A process that is silent on what it does not know is an old one, and has to start again to be asked as such.
      eraTimeoutMs: spec.type === 'stdio' ? timeoutMs / 3 : timeoutMs,
    },
    signal,
  );
}

function faultOf(error: unknown): Fault {
  if (error instanceof ListError) {
    const { answer } = error;
    if (answer.kind === 'failure') return answer.failure.fault;
    const detail = answer.kind === 'error' ? answer.error.message : error.message;
    return { reason: 'ListFailed', message: 'does not list its tools', detail };
  }
  const { nature, fault } = failureOf(error);
  // The SDK's errors of a handshake have no type of their own.
  const isVague = nature === 'broken' && fault.reason === 'ConnectionFailed';
  return isVague ? { ...fault, message: 'cannot be connected to' } : fault;
}
