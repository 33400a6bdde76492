import { apiVersionOf, type KubeObject, type ResourceType } from '../api/object.ts';
import { type Clock, toTimestamp } from '../lib/clock.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Logger } from '../lib/log.ts';
import type { KubeClient } from './client.ts';
import { NotFoundError } from './errors.ts';

/** What `kubectl describe` shows below an object. For people: nothing may depend on an Event having been recorded. */
export interface EventRecorder {
  /** Returns at once and never throws; a repeat of the same Event counts that one up. */
  record(object: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string): void;
  /** Resolves when what was recorded so far has been sent or given up. */
  flush(): Promise<void>;
}

export interface EventRecorderOptions {
  readonly client: KubeClient;
  /** Who says it, and which replica of it. */
  readonly component: string;
  readonly instance: string;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
}

/**
 * core/v1, not events.k8s.io/v1: both are the same objects in the store, but only this one has a `count`, which every
 * `kubectl` shows ("x5 over 3m"); the other's `series` is for the recorder of client-go and needs a heartbeat.
 */
const EVENT: ResourceType = { group: '', version: 'v1', kind: 'Event', plural: 'events' };

/** Beyond these, new Events are dropped, and the oldest are no longer counted up but recorded anew. */
const MAX_PENDING = 1_000;
const MAX_REMEMBERED = 1_000;
/** The limit of events.k8s.io, in bytes there; kept in characters here, where core/v1 has none. */
const MAX_MESSAGE = 1_024;
/** Names have at most 253 characters; what follows is a dot and a UUID. */
const MAX_NAME_PREFIX = 253 - 37;

interface CoreEvent extends KubeObject {
  involvedObject: { apiVersion: string; kind: string; namespace?: string; name: string; uid?: string };
  type: string;
  reason: string;
  message: string;
  count: number;
  firstTimestamp: string;
  lastTimestamp: string;
  source: { component: string };
  reportingComponent: string;
  reportingInstance: string;
}

/** Sends one Event at a time. When `signal` aborts, what is pending is dropped. */
export function createEventRecorder(options: EventRecorderOptions, signal: AbortSignal): EventRecorder {
  const { client, component, instance, clock, ids, log } = options;
  const events = client.resource<CoreEvent>(EVENT);
  /** By what makes two Events the same. `count` in here is what is to be added. */
  const pending = new Map<string, CoreEvent>();
  const recorded = new Map<string, CoreEvent>();
  let dropped = 0;
  let sending: Promise<void> | undefined;

  const toEvent = (object: KubeObject, type: string, reason: string, message: string): CoreEvent => {
    const { name, namespace, uid } = object.metadata;
    const now = toTimestamp(clock.now());
    return {
      apiVersion: apiVersionOf(EVENT),
      kind: EVENT.kind,
      metadata: { name: `${name.slice(0, MAX_NAME_PREFIX)}.${ids.newId()}`, namespace: namespace ?? 'default' },
      involvedObject: {
        apiVersion: object.apiVersion,
        kind: object.kind,
        name,
        ...(namespace === undefined ? {} : { namespace }),
        ...(uid === undefined ? {} : { uid }),
      },
      type,
      reason,
      message: message.length <= MAX_MESSAGE ? message : `${message.slice(0, MAX_MESSAGE - 1)}…`,
      count: 1,
      firstTimestamp: now,
      lastTimestamp: now,
      source: { component },
      reportingComponent: component,
      reportingInstance: instance,
    };
  };

  /** Counts up the Event that is there. Gives undefined when there is none, or none any more: they live for an hour. */
  const countUp = async (key: string, { count, lastTimestamp }: CoreEvent): Promise<CoreEvent | undefined> => {
    const known = recorded.get(key);
    if (known === undefined) return undefined;
    const { name, namespace = '' } = known.metadata;
    try {
      return await events.patch(namespace, name, { count: known.count + count, lastTimestamp }, signal);
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  };

  const send = async (key: string, event: CoreEvent): Promise<void> => {
    try {
      const stored = (await countUp(key, event)) ?? (await events.create(event, signal));
      // Deleted first, so that the order of the map is that of use.
      recorded.delete(key);
      recorded.set(key, stored);
      const [oldest] = recorded.keys();
      if (recorded.size > MAX_REMEMBERED && oldest !== undefined) recorded.delete(oldest);
    } catch (error) {
      if (signal.aborted) return;
      const { involvedObject, reason, message } = event;
      log.warn({ error, object: involvedObject, reason, text: message }, 'event not recorded');
    }
  };

  const sendAll = async (): Promise<void> => {
    for (const [key, event] of pending) {
      if (signal.aborted) break;
      pending.delete(key);
      await send(key, event);
    }
    if (dropped > 0) log.warn({ dropped }, 'events dropped, too many were pending');
    dropped = 0;
    sending = undefined;
  };

  return {
    record(object, type, reason, message) {
      if (signal.aborted) return;
      const { namespace, name, uid } = object.metadata;
      const key = JSON.stringify([object.kind, namespace, name, uid, type, reason, message]);
      const same = pending.get(key);
      if (same !== undefined) {
        same.count += 1;
        same.lastTimestamp = toTimestamp(clock.now());
      } else if (pending.size < MAX_PENDING) {
        pending.set(key, toEvent(object, type, reason, message));
      } else {
        dropped += 1;
      }
      sending ??= sendAll();
    },
    async flush() {
      await sending;
    },
  };
}
