import type { ToolResult } from '../api/workflow-execution.ts';
import { isJsonObject, type JsonValue } from '../lib/json.ts';

/**
 * What `results.<id>` is: the structured content; without one, the JSON of the only text block when that is an object or
 * a list; else the text. Other blocks are only in `steps.<id>.content`.
 */
export function resultValue(result: ToolResult): JsonValue {
  if (result.structuredContent !== undefined) return result.structuredContent;
  const texts = textsOf(result);
  const [only] = texts;
  return (texts.length === 1 && only !== undefined ? parseContainer(only) : undefined) ?? texts.join('\n');
}

export function textsOf({ content }: ToolResult): string[] {
  return content.flatMap(({ type, text }) => (type === 'text' && typeof text === 'string' ? [text] : []));
}

/** Numbers, `null` and quoted words stay text: a tool that answers `007` or `null` did not mean JSON. */
function parseContainer(text: string): JsonValue | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const value: JsonValue = JSON.parse(text);
    return Array.isArray(value) || isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Bytes of its JSON as it is sent; infinite when it is nested too deeply to be written at all. */
export function jsonBytes(value: unknown): number {
  try {
    return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
  } catch (error) {
    if (error instanceof RangeError) return Infinity;
    throw error;
  }
}

export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes)) return 'unbounded depth';
  return bytes < 1024 ? `${bytes} bytes` : `${Math.round(bytes / 102.4) / 10} KiB`;
}

/** CRD: a message has at most 8192 characters. What is left out is said. */
const MESSAGE_CHARS = 4096;

export function shorten(text: string, chars: number = MESSAGE_CHARS): string {
  if (text.length <= chars) return text;
  return `${text.slice(0, chars).toWellFormed()}… (${text.length - chars} characters more)`;
}
