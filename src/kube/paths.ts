import { apiVersionOf, type ResourceType } from '../api/object.ts';
import { NotFoundError } from './errors.ts';

/** Path of all objects of a type; in one namespace, or (`namespace` undefined or empty) in all, or cluster-scoped. */
export function collectionPath(type: ResourceType, namespace: string | undefined): string {
  const root = type.group === '' ? '/api' : '/apis';
  const scope = namespace ? `/namespaces/${segment(namespace, type)}` : '';
  return `${root}/${apiVersionOf(type)}${scope}/${type.plural}`;
}

/** Path of one object. @throws NotFoundError when no object can have the name: it must not reach another path. */
export function objectPath(type: ResourceType, namespace: string | undefined, name: string): string {
  return `${collectionPath(type, namespace)}/${segment(name, type)}`;
}

/** `path?key=value…` of what is defined, in the order given. */
export function withQuery(path: string, query: Record<string, string | number | boolean | undefined>): string {
  const given = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) given.set(key, String(value));
  return given.size === 0 ? path : `${path}?${given}`;
}

/** Names come from outside (a task id, a tool name); the API server's own rule for path segments. */
function segment(name: string, type: ResourceType): string {
  if (name === '' || name === '.' || name === '..' || /[/%]/.test(name) || !name.isWellFormed()) {
    throw new NotFoundError(`no ${type.kind} can have the name or namespace "${name}"`, 404, 'NotFound');
  }
  return encodeURIComponent(name);
}
