import { DEFAULTS } from '../api/constants.ts';
import type { StepSpec } from '../api/workflow.ts';
import type { SleepStep, ToolStep } from './plan.ts';
import type { PlanCollector } from './plan-collector.ts';
import type { ToolRef } from './ports.ts';

/** A step as far as it can be planned without the others. */
export type DraftStep = Omit<ToolStep, 'resultUntil' | 'contentUntil' | 'mayAnswer'> | SleepStep;

/** What belongs to a call and to nothing else. */
const ONLY_OF_TOOLS = ['args', 'repeatable', 'timeout'] as const;

/** Undefined when the step has a fault that leaves nothing to plan; `collector` has it then. */
export function planStep(spec: StepSpec, index: number, collector: PlanCollector): DraftStep | undefined {
  const path = `spec.steps[${index}]`;
  const condition = spec.if === undefined ? undefined : collector.condition(spec.if, `${path}.if`, index);
  const base = {
    id: spec.id,
    index,
    ...(condition !== undefined && { condition }),
    allowFailure: spec.allowFailure ?? false,
  };
  const { tool: toolText, sleep } = spec;
  if ((toolText === undefined) === (sleep === undefined)) {
    collector.fault(path, 'a step has exactly one of tool and sleep');
    return undefined;
  }
  if (sleep !== undefined) {
    for (const key of ONLY_OF_TOOLS) {
      if (spec[key] !== undefined) collector.fault(`${path}.${key}`, 'belongs to a tool, not to a sleep');
    }
    return { ...base, kind: 'sleep', ms: collector.duration(sleep, `${path}.sleep`) };
  }
  const tool = parseTool(toolText ?? '', `${path}.tool`, collector);
  const args = collector.value(spec.args ?? {}, `${path}.args`, index);
  const timeoutMs = collector.duration(spec.timeout ?? DEFAULTS.stepTimeout, `${path}.timeout`);
  if (tool === undefined || args === undefined) return undefined;
  const { repeatable } = spec;
  return { ...base, kind: 'tool', tool, args, timeoutMs, ...(repeatable !== undefined && { repeatable }) };
}

export function checkIds(steps: readonly StepSpec[], collector: PlanCollector): void {
  const seen = new Map<string, number>();
  for (const [index, { id }] of steps.entries()) {
    const path = `spec.steps[${index}].id`;
    if (!/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(id) || id === '__proto__') {
      collector.fault(
        path,
        `"${id}" cannot name a step: expected letters, digits and _, no digit first, so that results.<id> can be written`,
      );
    }
    const first = seen.get(id);
    if (first === undefined) seen.set(id, index);
    else collector.fault(path, `the id '${id}' is taken by spec.steps[${first}]`);
  }
}

/** The server's name has no `/`; a tool's may. An expression is refused: what a run will call is known beforehand (field case 52). */
function parseTool(text: string, path: string, collector: PlanCollector): ToolRef | undefined {
  const match = /^([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)\/(.+)$/s.exec(text);
  const [, server, tool] = match ?? [];
  if (server !== undefined && tool !== undefined && !text.includes('${')) return { server, tool };
  collector.fault(path, `"${text}" is not a tool: expected <MCPServer>/<tool>, both written out`);
  return undefined;
}
