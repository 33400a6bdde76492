import type { Catalog, CatalogTool } from '../mcp/ports.ts';

/** The tools that the accepted Workflows offer, by namespace. Filled by the Workflow reconciler, read by the endpoint. */
export class WorkflowCatalog implements Catalog {
  readonly #serves: (namespace: string) => boolean;
  readonly #namespaces = new Map<string, Map<string, CatalogTool>>();
  readonly #sorted = new Map<string, readonly CatalogTool[]>();
  readonly #listeners = new Set<(namespace: string) => void>();

  constructor(serves: (namespace: string) => boolean) {
    this.#serves = serves;
  }

  serves(namespace: string): boolean {
    return this.#serves(namespace);
  }

  tools(namespace: string): readonly CatalogTool[] {
    const known = this.#sorted.get(namespace);
    if (known !== undefined) return known;
    const tools = [...(this.#namespaces.get(namespace)?.values() ?? [])];
    const sorted = tools.sort((a, b) => (a.name < b.name ? -1 : 1));
    this.#sorted.set(namespace, sorted);
    return sorted;
  }

  tool(namespace: string, name: string): CatalogTool | undefined {
    return this.#namespaces.get(namespace)?.get(name);
  }

  onChange(listener: (namespace: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The tool of a Workflow, whatever it is called. */
  toolOf(namespace: string, workflow: string): CatalogTool | undefined {
    return this.tools(namespace).find((tool) => tool.workflow === workflow);
  }

  /** Puts the tool in the place of the one that its Workflow had; undefined takes that one out. */
  set(namespace: string, workflow: string, tool: CatalogTool | undefined): void {
    const before = this.toolOf(namespace, workflow);
    if (before === tool) return;
    const tools = this.#namespaces.get(namespace) ?? new Map<string, CatalogTool>();
    if (before !== undefined) tools.delete(before.name);
    if (tool !== undefined) tools.set(tool.name, tool);
    this.#namespaces.set(namespace, tools);
    this.#sorted.delete(namespace);
    for (const listener of this.#listeners) listener(namespace);
  }
}
