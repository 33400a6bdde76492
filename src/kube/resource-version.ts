import type { KubeObject } from '../api/object.ts';

/** Empty, and so the earliest, for an object that never was on a server. */
export function versionOf(object: KubeObject): string {
  return object.metadata.resourceVersion ?? '';
}

/**
 * Whether resourceVersion `a` is later than `b`. Within one type of resource they are decimal integers of one sequence
 * (KEP-5504), of any length, so neither `Number` nor plain text order will do.
 */
export function isLater(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}
