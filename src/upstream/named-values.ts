import type { NamedValue } from '../api/mcp-server.ts';
import { ensureError } from '../lib/errors.ts';

/** @throws Error that names what is missing: no such Secret, no such key in it, no right to read it. */
export type ResolveSecret = (namespace: string, name: string, key: string) => Promise<string>;

/** A header or variable whose value cannot be had or used. The message never holds a value. */
export class ValueError extends Error {
  override name = 'ValueError';
}

/** Set by the protocol or the connection; a value of the spec's would be overruled or break them. */
const RESERVED = /^(mcp-.*|accept|content-type|content-length|last-event-id|connection|transfer-encoding)$/i;

/** Headers or variables with the values that stand in Secrets. @throws ValueError */
export async function resolveValues(
  values: readonly NamedValue[],
  namespace: string,
  resolveSecret: ResolveSecret,
): Promise<Record<string, string>> {
  const entries = values.map(async ({ name, value, secretRef }): Promise<[string, string]> => {
    if (secretRef === undefined) return [name, value ?? ''];
    try {
      return [name, await resolveSecret(namespace, secretRef.name, secretRef.key)];
    } catch (error) {
      const where = `key "${secretRef.key}" of Secret "${secretRef.name}"`;
      throw new ValueError(`${name}: cannot read ${where}: ${ensureError(error).message}`);
    }
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** As `resolveValues`; a line end after the value, which many Secrets have, is no part of it. @throws ValueError */
export async function resolveHeaders(
  values: readonly NamedValue[],
  namespace: string,
  resolveSecret: ResolveSecret,
): Promise<Record<string, string>> {
  const resolved = await resolveValues(values, namespace, resolveSecret);
  const entries = Object.entries(resolved).map(([name, value]): [string, string] => {
    if (RESERVED.test(name)) throw new ValueError(`header ${name} belongs to the protocol and cannot be set`);
    const trimmed = value.trim();
    // Told here, since the error of the HTTP client would print the value.
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(trimmed)) {
      throw new ValueError(`header ${name}: its value has characters that no HTTP header can carry`);
    }
    return [name, trimmed];
  });
  return Object.fromEntries(entries);
}
