import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import type { ArgSpec, Check } from '../api/workflow.ts';
import type { JsonObject, JsonValue } from '../lib/json.ts';
import { suggestion } from './near-miss.ts';

/** The arguments of a workflow: what is listed of them, and how a call's are held to it. */
export interface Args {
  /** JSON Schema 2020-12 of an object; never null, also without a single argument (field case 69). */
  readonly inputSchema: JsonObject;
  /** Defaults applied, or every fault with its path. No type is coerced: `"3"` is no integer, 3.0 is. */
  parse(args: JsonObject): ParsedArgs;
}

export type ParsedArgs =
  | { readonly ok: true; readonly args: JsonObject }
  | { readonly ok: false; readonly faults: readonly string[] };

type ArgSpecs = Readonly<Record<string, ArgSpec>>;
type Validate = (value: unknown) => readonly ErrorObject[];

/** @param specs as `checkArgs` found them without fault. */
export function createArgs(specs: ArgSpecs = {}): Args {
  const inputSchema = inputSchemaOf(specs);
  const names = Object.keys(specs);
  const defaults = Object.fromEntries(
    Object.entries(specs).flatMap(([name, spec]) => (spec.default === undefined ? [] : [[name, spec.default]])),
  );
  const validate = compile(inputSchema);
  return {
    inputSchema,
    parse(given) {
      const args = { ...defaults, ...given };
      const faults = validate(args).map((error) => faultText(error, names));
      return faults.length === 0 ? { ok: true, args } : { ok: false, faults };
    },
  };
}

function inputSchemaOf(specs: ArgSpecs): JsonObject {
  const required = Object.keys(specs).filter((name) => specs[name]?.required === true);
  return {
    type: 'object',
    properties: Object.fromEntries(Object.entries(specs).map(([name, spec]) => [name, schemaOf(spec)])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}

function schemaOf({ required: _, ...keywords }: ArgSpec): JsonObject {
  return { ...keywords };
}

/** Every fault of `spec.args`. The CRD's own rules say some of them too, but not to `convoke check` and not of old objects. */
export function checkArgs(specs: ArgSpecs = {}): Check[] {
  return Object.entries(specs).flatMap(([name, spec]) => {
    const path = `spec.args.${name}`;
    const faults: Check[] = [];
    if (!/^[a-zA-Z_][a-zA-Z0-9_-]*$/.test(name) || name === '__proto__') {
      faults.push({
        path,
        message: `"${name}" cannot name an argument: expected letters, digits, _ and -, no digit first`,
      });
    }
    return [...faults, ...checkBounds(path, spec), ...checkValues(path, spec)];
  });
}

/** A bound that does not belong to the type would be listed and have no effect. */
function checkBounds(path: string, spec: ArgSpec): Check[] {
  const faults: Check[] = [];
  const keywords = [
    { keys: ['minimum', 'maximum'], types: ['integer', 'number'] },
    { keys: ['minLength', 'maxLength'], types: ['string'] },
  ] as const;
  for (const { keys, types } of keywords) {
    for (const key of keys) {
      if (spec[key] === undefined || types.some((type) => type === spec.type)) continue;
      faults.push({
        path: `${path}.${key}`,
        message: `belongs to the type ${types.join(' or ')}, not to ${spec.type}`,
      });
    }
    const [least, greatest] = keys;
    if ((spec[least] ?? -Infinity) > (spec[greatest] ?? Infinity)) {
      faults.push({
        path: `${path}.${least}`,
        message: `${spec[least]} is greater than ${greatest} ${spec[greatest]}`,
      });
    }
  }
  return faults;
}

function checkValues(path: string, spec: ArgSpec): Check[] {
  const faults: Check[] = [];
  if (spec.required === true && spec.default !== undefined) {
    faults.push({
      path: `${path}.default`,
      message: 'is never taken, since the argument is required: remove one of both',
    });
  }
  const { default: preset, enum: choices = [] } = spec;
  for (const [index, choice] of choices.entries()) {
    const misfit = compile({ type: spec.type })(choice)[0];
    if (misfit !== undefined) faults.push({ path: `${path}.enum[${index}]`, message: misfitText(misfit) });
  }
  if (preset !== undefined) {
    const misfits = compile(schemaOf(spec))(preset);
    faults.push(...misfits.map((misfit) => ({ path: `${path}.default`, message: misfitText(misfit) })));
  }
  return faults;
}

/**
 * `ownProperties`: without it an argument called `toString` would never be missing. `strictNumbers`: JSON's `1e999` is read
 * as infinite, which no JSON can say again. The schemas are our own, so they are not held to the meta schema.
 */
function compile(schema: JsonObject): Validate {
  const ours = { meta: false, validateSchema: false, strict: false };
  const ajv = new Ajv2020({ ...ours, allErrors: true, verbose: true, ownProperties: true, strictNumbers: true });
  const validate = ajv.compile(schema);
  return (value) => (validate(value) ? [] : (validate.errors ?? []));
}

/** ajv's errors with the name of the argument in front; the arguments are flat, so a path is a name. */
function faultText(error: ErrorObject, known: readonly string[]): string {
  const { keyword, params } = error;
  if (keyword === 'required') return `${params.missingProperty}: is required`;
  if (keyword === 'additionalProperties') {
    const name = String(params.additionalProperty);
    return `${name}: is not an argument${suggestion(name, known)}`;
  }
  return `${error.instancePath.slice(1)}: ${misfitText(error)}`;
}

function misfitText({ keyword, params, message, data }: ErrorObject): string {
  if (keyword === 'type') return `must be ${params.type}, but is ${typeName(data)}`;
  if (keyword === 'enum') {
    const choices = (params.allowedValues as JsonValue[]).map((value) => JSON.stringify(value));
    return `must be one of ${choices.join(', ')}`;
  }
  return message ?? `does not fit "${keyword}"`;
}

function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (value === Infinity || value === -Infinity) return 'too large a number';
  return Array.isArray(value) ? 'array' : typeof value;
}
