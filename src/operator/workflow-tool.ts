import { DEFAULTS } from '../api/constants.ts';
import { toolNameOf, type Workflow } from '../api/workflow.ts';
import type { CatalogTool } from '../mcp/ports.ts';
import type { Plan } from '../workflow/plan.ts';
import type { ToolRef } from '../workflow/ports.ts';

/** A listed tool, and what starting a run of it takes. */
export interface WorkflowTool extends CatalogTool {
  readonly plan: Plan;
  readonly revision: string;
  /** Of the Workflow object: one that was deleted and made again is another. */
  readonly uid: string | undefined;
}

export interface ToolParts {
  readonly workflow: Workflow;
  readonly revision: string;
  readonly plan: Plan;
  readonly missing: (namespace: string, tool: ToolRef) => string | undefined;
}

export function createTool({ workflow, revision, plan, missing }: ToolParts): WorkflowTool {
  const { name, namespace = '', uid } = workflow.metadata;
  const { title, description, annotations, taskBehavior = DEFAULTS.taskBehavior } = workflow.spec;
  return {
    name: toolNameOf(workflow),
    namespace,
    workflow: name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(annotations !== undefined && { annotations }),
    inputSchema: plan.args.inputSchema,
    taskBehavior,
    plan,
    revision,
    uid,
    /** Asked at each call: what was there at the last reconcile may be gone (field case 72). */
    get unavailable() {
      const faults = new Set(plan.tools.flatMap((tool) => missing(namespace, tool) ?? []));
      return faults.size === 0 ? undefined : [...faults].join('; ');
    },
    parseArgs: (given) => plan.args.parse(given),
  };
}
