import { DEFAULTS } from '../api/constants.ts';
import { toolNameOf, type Workflow } from '../api/workflow.ts';
import type { CatalogTool } from '../mcp/ports.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import type { Plan } from '../workflow/plan.ts';

/** A listed tool, and what starting a run of it takes. */
export interface WorkflowTool extends CatalogTool {
  readonly plan: Plan;
  readonly revision: string;
  /** Of the Workflow object: one that was deleted and made again is another. */
  readonly uid: string | undefined;
  /** As it is known at this moment: every server and tool that is not there (field case 72). */
  missing(): string | undefined;
}

export interface ToolParts {
  readonly workflow: Workflow;
  readonly revision: string;
  readonly plan: Plan;
  readonly missing: Upstreams['missing'];
  readonly reach: Upstreams['reach'];
}

export function createTool({ workflow, revision, plan, missing, reach }: ToolParts): WorkflowTool {
  const { name, namespace = '', uid } = workflow.metadata;
  const { title, description, annotations, taskBehavior = DEFAULTS.taskBehavior } = workflow.spec;
  const faults = (): string | undefined => {
    const each = new Set(plan.tools.flatMap((tool) => missing(namespace, tool) ?? []));
    return each.size === 0 ? undefined : [...each].join('; ');
  };
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
    missing: faults,
    async unavailable(signal) {
      if (faults() === undefined) return undefined;
      await reach(namespace, plan.tools, signal);
      return faults();
    },
    parseArgs: (given) => plan.args.parse(given),
  };
}
