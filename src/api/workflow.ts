import type { JsonObject, JsonValue } from '../lib/json.ts';
import type { Condition, KubeObject } from './object.ts';

/** crds/workflows.yaml is the contract; test/api holds these types to it. */
export interface Workflow extends KubeObject {
  spec: WorkflowSpec;
  status?: WorkflowStatus;
}

export interface WorkflowSpec {
  title?: string;
  /** Name of the MCP tool; default `workflow_<metadata.name>`. */
  toolName?: string;
  description?: string;
  taskBehavior?: TaskBehavior;
  args?: Record<string, ArgSpec>;
  /** Duration of the whole run. */
  timeout?: string;
  /** How long a finished execution stays readable. */
  ttlAfterFinished?: string;
  /** How many ControllerRevisions are kept that are neither current nor in use. */
  revisionHistoryLimit?: number;
  annotations?: ToolAnnotations;
  steps: StepSpec[];
  /** Any JSON; strings in it may hold `${…}`. Absent: the last step's result as it came. */
  output?: JsonValue;
}

export type TaskBehavior = 'auto' | 'always' | 'never';

export type ArgType = 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object';

export interface ArgSpec {
  type: ArgType;
  description?: string;
  required?: boolean;
  default?: JsonValue;
  enum?: JsonValue[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
}

/** Hints of MCP's `ToolAnnotations`; its `title` is `spec.title`. */
export interface ToolAnnotations {
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

/** Exactly one of `tool` and `sleep`. */
export interface StepSpec {
  id: string;
  /** CEL, to a boolean; false skips the step. */
  if?: string;
  /** `<MCPServer>/<tool>`. */
  tool?: string;
  args?: JsonObject;
  /** Whether the call may be repeated when its outcome is unknown; default: what the tool's annotations say. */
  repeatable?: boolean;
  /** Duration. */
  sleep?: string;
  timeout?: string;
  /** The run goes on when this step fails. */
  allowFailure?: boolean;
}

export interface WorkflowStatus {
  observedGeneration?: number;
  /** As listed; absent while not accepted. */
  toolName?: string;
  /** Name of the current ControllerRevision. */
  revision?: string;
  conditions?: Condition[];
  checks?: Check[];
}

/** One fault of a spec. */
export interface Check {
  /** For instance `spec.steps[2].args.text`. */
  path: string;
  message: string;
  /** 1-based, within the text at `path`. */
  column?: number;
}

/** The tool as clients call it. */
export function toolNameOf(workflow: Workflow): string {
  return workflow.spec.toolName ?? `workflow_${workflow.metadata.name}`;
}
