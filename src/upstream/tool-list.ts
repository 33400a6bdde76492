import { createHash } from 'node:crypto';
import type { ToolAnnotations } from '../api/workflow.ts';
import { ensureError } from '../lib/errors.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../lib/json.ts';
import type { ToolDescription } from '../workflow/ports.ts';
import type { Answer } from './lane.ts';
import { type ParamHeader, paramHeadersOf } from './param-headers.ts';

/** A tool as its server lists it. */
export interface ListedTool extends ToolDescription {
  /** Changes when its schemas or annotations do. */
  readonly hash: string;
  readonly paramHeaders: readonly ParamHeader[];
}

export interface ToolList {
  readonly tools: ReadonlyMap<string, ListedTool>;
  /** What was left out or put right, a line each. */
  readonly warnings: readonly string[];
}

/** The CRD holds no more, and no longer names. */
const MAX_TOOLS = 1024;
const MAX_NAME = 256;
const MAX_PAGES = 256;
/** Of all pages, as JSON. */
const MAX_BYTES = 16 * 1024 * 1024;

/**
 * All pages of `tools/list`, each tool judged for itself: one that cannot be used never costs the others (field case 35).
 * A `$ref` is kept as it is and never followed, least of all to another host.
 * @param request asks for the page at `cursor`
 * @returns the answer that was no page, when there was one
 */
export async function listTools(
  request: (cursor: string | undefined) => Promise<Answer>,
): Promise<ToolList | Exclude<Answer, { kind: 'result' }>> {
  const tools = new Map<string, ListedTool>();
  const warnings: string[] = [];
  const cursors = new Set<string>();
  let bytes = 0;
  for (let cursor: string | undefined, page = 1; ; page += 1) {
    const answer = await request(cursor);
    if (answer.kind !== 'result') return answer;
    const { tools: listed, nextCursor } = answer.result;
    bytes += JSON.stringify(listed)?.length ?? 0;
    const entries = Array.isArray(listed) ? listed : [];
    const isFull = page >= MAX_PAGES || bytes > MAX_BYTES || tools.size + entries.length > MAX_TOOLS;
    for (const entry of entries.slice(0, MAX_TOOLS - tools.size)) addTool(entry, tools, warnings);
    if (isFull) {
      warnings.push(`the list is cut: ${tools.size} tools were read, at most ${MAX_TOOLS} and ${MAX_BYTES} bytes are`);
    }
    if (isFull || typeof nextCursor !== 'string' || cursors.has(nextCursor)) return { tools: sorted(tools), warnings };
    cursors.add(nextCursor);
    cursor = nextCursor;
  }
}

function addTool(entry: JsonValue, tools: Map<string, ListedTool>, warnings: string[]): void {
  const name = isJsonObject(entry) ? entry.name : undefined;
  if (!isJsonObject(entry) || typeof name !== 'string' || name === '' || name.length > MAX_NAME) {
    warnings.push(`a tool is left out: its name is no text of 1 to ${MAX_NAME} characters`);
    return;
  }
  if (tools.has(name)) {
    warnings.push(`tool "${name}" is listed twice; the first counts`);
    return;
  }
  try {
    tools.set(name, parseTool(name, entry, warnings));
  } catch (error) {
    warnings.push(`tool "${name}" is left out: ${ensureError(error).message}`);
  }
}

function parseTool(name: string, entry: JsonObject, warnings: string[]): ListedTool {
  const { inputSchema, outputSchema, annotations } = entry;
  if (!isJsonObject(inputSchema)) warnings.push(`tool "${name}": its inputSchema is no object; any arguments pass`);
  const input = isJsonObject(inputSchema) ? inputSchema : { type: 'object' };
  const hints = isJsonObject(annotations) ? hintsOf(annotations) : undefined;
  const identity = { name, input, output: outputSchema, annotations };
  return {
    inputSchema: input,
    ...(isJsonObject(outputSchema) && { outputSchema }),
    ...(hints !== undefined && { annotations: hints }),
    hash: createHash('sha256').update(canonicalJson(identity)).digest('hex').slice(0, 16),
    paramHeaders: paramHeadersOf(input),
  };
}

/** Only what is `true` or `false`: a hint decides whether a call may be repeated. */
function hintsOf(annotations: JsonObject): ToolAnnotations {
  const names = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const;
  return Object.fromEntries(
    names.flatMap((name) => (typeof annotations[name] === 'boolean' ? [[name, annotations[name]]] : [])),
  );
}

function sorted(tools: ReadonlyMap<string, ListedTool>): ReadonlyMap<string, ListedTool> {
  return new Map([...tools].sort(([a], [b]) => (a < b ? -1 : 1)));
}
