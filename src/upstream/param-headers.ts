import { isJsonObject, type JsonObject, type JsonValue } from '../lib/json.ts';

/**
 * Arguments that a tool wants to see in HTTP headers too (`x-mcp-header` in its inputSchema, streamable HTTP of
 * 2026-07-28), so that a gateway can route by them. A server refuses a call that lacks them.
 */
export interface ParamHeader {
  readonly path: readonly string[];
  readonly header: string;
}

const KEYWORD = 'x-mcp-header';
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly JsonValue[] = ['string', 'integer', 'boolean'];

/** @throws Error when a declaration breaks the rules; a client then leaves the tool out of its list, by the specification */
export function paramHeadersOf(schema: JsonObject): ParamHeader[] {
  const found: ParamHeader[] = [];
  const visit = (node: JsonValue | undefined, path: readonly string[], reachable: boolean): void => {
    if (Array.isArray(node)) for (const each of node) visit(each, path, false);
    if (!isJsonObject(node)) return;
    const { properties, ...others } = node;
    const declared = node[KEYWORD];
    if (declared !== undefined) found.push(parse(declared, node.type, path, reachable && path.length > 0));
    for (const child of Object.values(others)) visit(child, path, false);
    if (!isJsonObject(properties)) return;
    for (const [name, property] of Object.entries(properties)) visit(property, [...path, name], reachable);
  };
  visit(schema, [], true);
  if (new Set(found.map(({ header }) => header.toLowerCase())).size < found.length) {
    throw new Error(`two properties declare the same ${KEYWORD}`);
  }
  return found;
}

function parse(
  declared: JsonValue,
  type: JsonValue | undefined,
  path: readonly string[],
  reachable: boolean,
): ParamHeader {
  const where = `${KEYWORD} of ${path.join('.') || 'the schema'}`;
  if (!reachable) throw new Error(`${where} does not stand on a property that "properties" alone leads to`);
  if (typeof declared !== 'string' || !TOKEN.test(declared)) throw new Error(`${where} is not the name of a header`);
  if (!TYPES.includes(type ?? null)) throw new Error(`${where} stands on a type other than ${TYPES.join(', ')}`);
  return { path, header: `Mcp-Param-${declared}` };
}

/** The headers of one call; an argument that is absent, null or of another type than declared has none. */
export function paramHeaders(declared: readonly ParamHeader[], args: JsonObject): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { path, header } of declared) {
    const value = path.reduce<JsonValue | undefined>((node, key) => (isJsonObject(node) ? node[key] : undefined), args);
    const isExact = typeof value !== 'number' || Number.isSafeInteger(value);
    if (typeof value === 'string' || typeof value === 'boolean' || (typeof value === 'number' && isExact)) {
      headers[header] = encode(String(value));
    }
  }
  return headers;
}

/** What a header cannot carry as it is goes as Base64 of its UTF-8, marked as the specification has it. */
function encode(text: string): string {
  const isPlain = /^[\t\x20-\x7e]+$/.test(text) && text === text.trim() && !/^=\?base64\?.*\?=$/.test(text);
  return isPlain ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`;
}
