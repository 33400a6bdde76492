import type { ToolAnnotations } from '../api/workflow.ts';
import type { JsonObject } from '../lib/json.ts';
import { invalidParams } from './errors.ts';
import type { CatalogTool } from './ports.ts';
import type { Scope } from './scope.ts';

export interface ToolsPage {
  tools: ListedTool[];
  nextCursor?: string;
}

export interface ListedTool {
  name: string;
  title?: string;
  description?: string;
  inputSchema: JsonObject;
  annotations?: ToolAnnotations;
}

/** One page, sorted by name. A tool that cannot run now stays listed: a call says what is missing. */
export function listTools({ catalog, namespace, pageSize }: Scope, cursor: string | undefined): ToolsPage {
  const all = catalog.tools(namespace);
  const start = cursor === undefined ? 0 : firstAfter(all, lastNameOf(cursor));
  const page = all.slice(start, start + pageSize);
  const last = page.at(-1);
  const hasMore = last !== undefined && start + page.length < all.length;
  return { tools: page.map(listed), ...(hasMore && { nextCursor: cursorAfter(last.name) }) };
}

function listed({ name, title, description, inputSchema, annotations }: CatalogTool): ListedTool {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema,
    ...(annotations !== undefined && { annotations }),
  };
}

function firstAfter(tools: readonly CatalogTool[], name: string): number {
  const index = tools.findIndex((tool) => tool.name > name);
  return index === -1 ? tools.length : index;
}

/** A cursor names the last tool of its page, not an offset: tools that come and go meanwhile move nothing. */
const CURSOR_VERSION = '1:';

function cursorAfter(name: string): string {
  return Buffer.from(CURSOR_VERSION + name).toString('base64url');
}

function lastNameOf(cursor: string): string {
  const text = Buffer.from(cursor, 'base64url').toString();
  const name = text.slice(CURSOR_VERSION.length);
  if (text.startsWith(CURSOR_VERSION) && cursorAfter(name) === cursor) return name;
  throw invalidParams('Invalid cursor: pass nextCursor of the page before as it came, or none for the first page.');
}
