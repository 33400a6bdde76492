import type { KubeObject } from './object.ts';
import type { WorkflowSpec } from './workflow.ts';

/** apps/v1: an immutable copy of a Workflow's spec, so that a run ends on the spec it began with. */
export interface ControllerRevision extends KubeObject {
  data: { spec: WorkflowSpec };
  /** Generation of the Workflow it was taken from. */
  revision: number;
}

/** core/v1, as far as we read it: `data` in base64. */
export interface Secret extends KubeObject {
  data?: Record<string, string>;
}
