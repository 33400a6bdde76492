import type { Catalog } from '../mcp/ports.ts';
import type { WorkflowTool } from './workflow-tool.ts';

/** The tools of one namespace. No two Workflows share a name; the reconciler sees to that. */
interface Tools {
  readonly byName: Map<string, WorkflowTool>;
  readonly byWorkflow: Map<string, WorkflowTool>;
  /** Made when it is asked for. */
  sorted: readonly WorkflowTool[] | undefined;
}

const NONE: readonly WorkflowTool[] = [];

/** The tools that the accepted Workflows offer, by namespace. Filled by the Workflow reconciler, read by the endpoint. */
export class WorkflowCatalog implements Catalog {
  readonly #serves: (namespace: string) => boolean;
  readonly #namespaces = new Map<string, Tools>();
  readonly #listeners = new Set<(namespace: string) => void>();

  constructor(serves: (namespace: string) => boolean) {
    this.#serves = serves;
  }

  serves(namespace: string): boolean {
    return this.#serves(namespace);
  }

  tools(namespace: string): readonly WorkflowTool[] {
    const tools = this.#namespaces.get(namespace);
    if (tools === undefined) return NONE;
    tools.sorted ??= [...tools.byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    return tools.sorted;
  }

  tool(namespace: string, name: string): WorkflowTool | undefined {
    return this.#namespaces.get(namespace)?.byName.get(name);
  }

  onChange(listener: (namespace: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The tool of a Workflow, whatever it is called. */
  toolOf(namespace: string, workflow: string): WorkflowTool | undefined {
    return this.#namespaces.get(namespace)?.byWorkflow.get(workflow);
  }

  /**
   * Puts the tool in the place of the one that its Workflow had; undefined takes that one out. Another Workflow that had
   * the name has no tool any more.
   */
  set(namespace: string, workflow: string, tool: WorkflowTool | undefined): void {
    const before = this.toolOf(namespace, workflow);
    if (before === tool) return;
    const tools = this.#toolsOf(namespace);
    if (before !== undefined) {
      tools.byName.delete(before.name);
      tools.byWorkflow.delete(workflow);
    }
    if (tool !== undefined) {
      const rival = tools.byName.get(tool.name);
      if (rival !== undefined) tools.byWorkflow.delete(rival.workflow);
      tools.byName.set(tool.name, tool);
      tools.byWorkflow.set(workflow, tool);
    }
    tools.sorted = undefined;
    for (const listener of this.#listeners) listener(namespace);
  }

  #toolsOf(namespace: string): Tools {
    const known = this.#namespaces.get(namespace);
    if (known !== undefined) return known;
    const tools: Tools = { byName: new Map(), byWorkflow: new Map(), sorted: undefined };
    this.#namespaces.set(namespace, tools);
    return tools;
  }
}
