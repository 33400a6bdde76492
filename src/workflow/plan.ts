import { DEFAULTS } from '../api/constants.ts';
import type { Check, WorkflowSpec } from '../api/workflow.ts';
import type { CompiledCondition, CompiledValue } from '../expression/compile.ts';
import { type Args, checkArgs, createArgs } from './args.ts';
import { PlanCollector } from './plan-collector.ts';
import { checkIds, type DraftStep, planStep } from './plan-step.ts';
import type { ToolRef } from './ports.ts';
import { checkReferences, lastReaders } from './references.ts';

/** A spec that was found without fault, ready to run. Immutable; shared by all runs of a revision. */
export interface Plan {
  /** Name of the Workflow. */
  readonly workflow: string;
  readonly args: Args;
  /** In the order in which they run. */
  readonly steps: readonly PlanStep[];
  readonly output?: CompiledValue;
  readonly timeoutMs: number;
  readonly ttlMs: number;
  /** Each tool once. */
  readonly tools: readonly ToolRef[];
}

export type PlanStep = ToolStep | SleepStep;

export interface StepBase {
  readonly id: string;
  readonly index: number;
  readonly condition?: CompiledCondition;
  readonly allowFailure: boolean;
}

export interface ToolStep extends StepBase {
  readonly kind: 'tool';
  readonly tool: ToolRef;
  readonly args: CompiledValue;
  readonly timeoutMs: number;
  /** What the spec says; absent: what the tool's annotations say. */
  readonly repeatable?: boolean;
  /** Index of the last step that reads `results.<id>`; the number of steps when the output does, -1 when nothing does. */
  readonly resultUntil: number;
  /** The same of `steps.<id>.content`. */
  readonly contentUntil: number;
  /** Its result may be the run's answer: there is no output, and each tool step behind it may be skipped or fail. */
  readonly mayAnswer: boolean;
}

export interface SleepStep extends StepBase {
  readonly kind: 'sleep';
  readonly ms: number;
}

export type Planned = { readonly plan: Plan } | { readonly checks: readonly Check[] };

/** The plan, or every fault of the spec. Pure: whether the tools are there is not asked here. */
export function planWorkflow(name: string, spec: WorkflowSpec): Planned {
  const collector = new PlanCollector();
  checkToolName(spec.toolName, collector);
  collector.checks.push(...checkArgs(spec.args));
  const timeoutMs = collector.duration(spec.timeout ?? DEFAULTS.runTimeout, 'spec.timeout');
  const ttlMs = collector.duration(spec.ttlAfterFinished ?? DEFAULTS.ttlAfterFinished, 'spec.ttlAfterFinished');
  if (spec.steps.length === 0) collector.fault('spec.steps', 'a workflow has at least one step');
  checkIds(spec.steps, collector);
  const drafts = spec.steps.map((step, index) => planStep(step, index, collector));
  const output = spec.output === undefined ? undefined : collector.value(spec.output, 'spec.output', drafts.length);
  collector.checks.push(...checkReferences(collector.readers, spec));
  if (collector.checks.length > 0) return { checks: collector.checks };

  const readUntil = lastReaders(collector.readers);
  const planned = drafts.filter((draft) => draft !== undefined);
  const steps = planned.map((draft, index): PlanStep => {
    if (draft.kind === 'sleep') return draft;
    const mayAnswer = spec.output === undefined && planned.slice(index + 1).every(mayGiveNothing);
    return { ...draft, ...readUntil(draft.id), mayAnswer };
  });
  const args = createArgs(spec.args);
  return {
    plan: {
      workflow: name,
      args,
      steps,
      ...(output !== undefined && { output }),
      timeoutMs,
      ttlMs,
      tools: toolsOf(steps),
    },
  };
}

function checkToolName(toolName: string | undefined, collector: PlanCollector): void {
  if (toolName === undefined) return;
  if (!/^[a-zA-Z0-9_.-]{1,128}$/.test(toolName)) {
    collector.fault('spec.toolName', `"${toolName}" cannot name a tool: expected 1 to 128 of letters, digits, _ . -`);
  }
  if (toolName.startsWith('workflow_execution_')) {
    collector.fault('spec.toolName', 'names that begin with workflow_execution_ belong to the operator');
  }
}

/** A sleep never has a result; a step that is skipped or whose failure is tolerated has none for this run. */
function mayGiveNothing(step: DraftStep): boolean {
  return step.kind === 'sleep' || step.condition !== undefined || step.allowFailure;
}

function toolsOf(steps: readonly PlanStep[]): ToolRef[] {
  const tools = new Map<string, ToolRef>();
  for (const step of steps) {
    if (step.kind === 'tool') tools.set(`${step.tool.server}/${step.tool.tool}`, step.tool);
  }
  return [...tools.values()];
}
