import type { JsonObject, JsonValue } from '../lib/json.ts';
import { Duration, durationText, Optional, timestampText, UnsignedInt } from './cel.ts';
import { quoted, TextFault } from './errors.ts';
import { LIMITS } from './limits.ts';

/**
 * Values as expressions see them. What comes in stays the JSON that it is, never converted or copied: an object is a map of its
 * own keys, whatever they are called, a number is a double. Maps that an expression makes are `Map`s.
 */
export type MapValue = Map<string, unknown> | Readonly<Record<string, unknown>>;

export function isMap(value: unknown): value is MapValue {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  if (value instanceof Map) return true;
  // Not by `constructor`, which may be a key of the data.
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

export function keysOf(map: MapValue): string[] {
  return map instanceof Map ? [...map.keys()] : Object.keys(map);
}

/** Undefined for a key that is not there; nothing is inherited. */
export function valueAt(map: MapValue, key: string): unknown {
  if (map instanceof Map) return map.get(key);
  return Object.hasOwn(map, key) ? map[key] : undefined;
}

/** With its article, for messages. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'string') return 'a string';
  if (typeof value === 'boolean') return 'a bool';
  if (typeof value === 'number') return 'a double';
  if (typeof value === 'bigint') return 'an int';
  if (Array.isArray(value)) return 'a list';
  if (isMap(value)) return 'a map';
  if (value instanceof Uint8Array) return 'bytes';
  if (value instanceof Date) return 'a timestamp';
  if (value instanceof Duration) return 'a duration';
  if (value instanceof UnsignedInt) return 'a uint';
  return value instanceof Optional ? 'an optional' : 'a type';
}

/** CEL's equality: numbers by value whatever their type, lists and maps by their parts. `charge` is told of each part. */
export function isEqual(a: unknown, b: unknown, charge: (steps: number) => void, depth = 0): boolean {
  charge(1);
  if (depth > LIMITS.valueDepth) throw new TextFault(TOO_DEEP, undefined);
  if (typeof a === 'string' && typeof b === 'string') {
    charge(textWeight(a.length === b.length ? a.length : 0));
    return a === b;
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => isEqual(item, b[index], charge, depth + 1));
  }
  if (isMap(a) && isMap(b)) {
    const keys = keysOf(a);
    charge(keys.length);
    if (keys.length !== keysOf(b).length) return false;
    return keys.every((key) => {
      const other = valueAt(b, key);
      return other !== undefined && isEqual(valueAt(a, key), other, charge, depth + 1);
    });
  }
  if (a instanceof Optional && b instanceof Optional) {
    if (!a.hasValue() || !b.hasValue()) return a.hasValue() === b.hasValue();
    return isEqual(a.value(), b.value(), charge, depth + 1);
  }
  return isEqualScalar(a, b);
}

function isEqualScalar(a: unknown, b: unknown): boolean {
  const [left, right] = [comparable(a), comparable(b)];
  // biome-ignore lint/suspicious/noDoubleEquals: of a bigint and a number it compares the exact values.
  if (isNumber(left) && isNumber(right)) return left == right;
  return kindOf(a) === kindOf(b) && left === right;
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}

function comparable(value: unknown): unknown {
  if (value instanceof UnsignedInt) return value.value;
  if (value instanceof Date) return timestampText(value);
  if (value instanceof Duration) return durationText(value);
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
}

/** Steps that a text of this length costs. */
export function textWeight(length: number): number {
  return Math.floor(length / 64);
}

const TOO_DEEP = `lists and maps are more than ${LIMITS.valueDepth} within each other`;

/** What expressions give, as JSON or as text; bounded over all parts of one value. */
export class Output {
  #left = LIMITS.valueSize;
  /** Where in the value we are. */
  readonly #trail: (string | number)[] = [];

  json(value: unknown): JsonValue {
    this.#charge(8);
    if (Array.isArray(value)) return value.map((item, index) => this.#inside(index, item));
    if (isMap(value)) return this.#object(value);
    if (value instanceof Optional) {
      if (value.hasValue()) return this.json(value.value());
      throw this.#fault('an optional that is absent has no JSON: give .orValue(…)');
    }
    if (value === null || typeof value === 'boolean') return value;
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    if (isInteger(value)) {
      const number = Number(value.valueOf());
      if (Number.isSafeInteger(number)) return number;
      throw this.#fault(`${value} is no JSON number without loss (they are exact up to 2^53): string(…) keeps it`);
    }
    return this.#scalarText(value, 'cannot be JSON');
  }

  /** Within a text: what has one plain way to be written. */
  text(value: unknown): string {
    if (value instanceof Optional && value.hasValue()) return this.text(value.value());
    if (typeof value === 'boolean' || isInteger(value)) return String(value);
    if (typeof value === 'number' && Number.isFinite(value)) return String(value);
    return this.#scalarText(value, 'cannot stand within a text');
  }

  #object(map: MapValue): JsonObject {
    // `fromEntries` defines its keys, so that `__proto__` is one like any other.
    return Object.fromEntries(
      keysOf(map).map((key) => {
        this.#charge(key.length);
        return [key, this.#inside(key, valueAt(map, key))];
      }),
    );
  }

  #inside(key: string | number, value: unknown): JsonValue {
    if (this.#trail.length >= LIMITS.valueDepth && (Array.isArray(value) || isMap(value)))
      throw new TextFault(TOO_DEEP, undefined);
    this.#trail.push(key);
    const json = this.json(value);
    this.#trail.pop();
    return json;
  }

  #scalarText(value: unknown, refusal: string): string {
    let text: string;
    if (typeof value === 'string') text = value;
    else if (value instanceof Date) text = timestampText(value);
    else if (value instanceof Duration) text = durationText(value);
    else {
      const what = typeof value === 'number' ? `the number ${value}` : kindOf(value);
      throw this.#fault(`${value instanceof Optional ? 'an optional that is absent' : what} ${refusal}`);
    }
    this.#charge(text.length);
    return text;
  }

  #charge(size: number): void {
    this.#left -= size;
    if (this.#left < 0)
      throw new TextFault(`the value is larger than ${LIMITS.valueSize / 1024 / 1024} Mi characters`, undefined);
  }

  #fault(message: string): TextFault {
    const trail = this.#trail.map((key) => (typeof key === 'number' ? `[${key}]` : `.${quoted(key, 40)}`)).join('');
    return new TextFault(trail === '' ? message : `at ${trail}: ${message}`, undefined);
  }
}

function isInteger(value: unknown): value is bigint | UnsignedInt {
  return typeof value === 'bigint' || value instanceof UnsignedInt;
}
