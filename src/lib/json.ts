/** A value as JSON has it. What crosses a wire or lies in a status is typed with this, never with `any`. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export type JsonObject = { [key: string]: JsonValue };

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether lists and objects lie more than `depth` deep within each other. Does not recurse: the value is anyone's. */
export function isDeeperThan(value: unknown, depth: number): boolean {
  const containers = (parts: readonly unknown[]): object[] =>
    parts.filter((part): part is object => typeof part === 'object' && part !== null);
  let level = containers([value]);
  for (let passed = 0; level.length > 0; passed += 1) {
    if (passed === depth) return true;
    level = containers(level.flatMap((part) => Object.values(part)));
  }
  return false;
}

/** JSON with sorted keys: equal values give equal text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    isJsonObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
}
