import type { ResourceType } from './object.ts';

const GROUP = 'convoke.dev';
const VERSION = 'v1alpha1';
export const API_VERSION = `${GROUP}/${VERSION}`;

export const WORKFLOW: ResourceType = { group: GROUP, version: VERSION, kind: 'Workflow', plural: 'workflows' };
export const WORKFLOW_EXECUTION: ResourceType = {
  group: GROUP,
  version: VERSION,
  kind: 'WorkflowExecution',
  plural: 'workflowexecutions',
};
export const MCP_SERVER: ResourceType = { group: GROUP, version: VERSION, kind: 'MCPServer', plural: 'mcpservers' };
export const CONTROLLER_REVISION: ResourceType = {
  group: 'apps',
  version: 'v1',
  kind: 'ControllerRevision',
  plural: 'controllerrevisions',
};
export const SECRET: ResourceType = { group: '', version: 'v1', kind: 'Secret', plural: 'secrets' };

/** On executions and revisions: the Workflow they belong to. */
export const WORKFLOW_LABEL = `${GROUP}/workflow`;

/**
 * On an execution: the id of a step with effects that its creator starts once the create is acknowledged. It is the
 * write-ahead record of that step while no status exists (design §4).
 */
export const FIRST_STEP_ANNOTATION = `${GROUP}/first-step`;

/** On an execution: the name of the ControllerRevision its creator runs it on, until the status names it. */
export const REVISION_ANNOTATION = `${GROUP}/revision`;

/** In `_meta` of a call to an upstream: the same for every attempt at one step of one run. */
export const STEP_KEY_META = `${GROUP}/stepKey`;

/** Defaults of the API, where a spec says nothing. */
export const DEFAULTS = {
  taskBehavior: 'auto',
  runTimeout: '1h',
  stepTimeout: '5m',
  ttlAfterFinished: '7d',
  revisionHistoryLimit: 5,
  serverTimeout: '30s',
} as const;
