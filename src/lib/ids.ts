import { randomUUID } from 'node:crypto';

/** Ids and chance, injected as the clock is. */
export interface IdSource {
  /** A UUIDv4: unguessable, and a valid Kubernetes name. */
  newId(): string;
}

export const systemIds: IdSource = { newId: () => randomUUID() };
