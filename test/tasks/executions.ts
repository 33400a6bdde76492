import fc from 'fast-check';
import { API_VERSION } from '../../src/api/constants.ts';
import type { StepStatus, WorkflowExecution, WorkflowExecutionStatus } from '../../src/api/workflow-execution.ts';
import type { JsonObject, JsonValue } from '../../src/lib/json.ts';

export const CREATED_AT = Date.UTC(2026, 11, 1, 12);

/** An execution as the API server gives it back. */
export function executionOf(
  status?: WorkflowExecutionStatus,
  spec: Partial<WorkflowExecution['spec']> = {},
): WorkflowExecution {
  return {
    apiVersion: API_VERSION,
    kind: 'WorkflowExecution',
    metadata: {
      name: '0b8f9c7e-2f62-4c39-9d0f-6a0f4dd0c001',
      namespace: 'team-a',
      creationTimestamp: new Date(CREATED_AT).toISOString().replace('.000Z', 'Z'),
    },
    spec: { workflow: 'deploy-app', requestedBy: { subject: 'alice', via: 'mcp' }, ...spec },
    ...(status !== undefined && { status }),
  };
}

/** RFC 3339, within three days around the creation: clocks of two machines differ. */
const time = fc
  .integer({ min: -3_600_000, max: 3 * 86_400_000 })
  .map((offset) => new Date(CREATED_AT + offset).toISOString());

const json = fc.jsonValue() as fc.Arbitrary<JsonValue>;

const content: fc.Arbitrary<JsonObject> = fc.oneof(
  fc.record({ type: fc.constant('text'), text: fc.string() }),
  fc.record({ type: fc.constant('image'), data: fc.base64String(), mimeType: fc.constant('image/png') }),
);

const step: fc.Arbitrary<StepStatus> = fc.record(
  {
    id: fc.stringMatching(/^[a-z_][a-z0-9_]{0,20}$/),
    phase: fc.constantFrom('running', 'completed', 'failed', 'skipped', 'cancelled'),
    attempt: fc.nat(9),
    startedAt: time,
    finishedAt: time,
    message: fc.string(),
    wakeAt: time,
  },
  { requiredKeys: ['id', 'phase', 'attempt', 'startedAt'] },
);

const result = fc.record(
  { content: fc.array(content, { maxLength: 3 }), structuredContent: json, isError: fc.boolean() },
  { requiredKeys: ['content'] },
);

const error = fc.record(
  { code: fc.integer({ min: -33_000, max: 1_000 }), message: fc.string(), data: json },
  { requiredKeys: ['code', 'message'] },
);

const status: fc.Arbitrary<WorkflowExecutionStatus> = fc.record(
  {
    phase: fc.constantFrom('inprogress', 'completed', 'failed', 'cancelled'),
    message: fc.string(),
    runner: fc.record({ id: fc.string(), claimedAt: time }),
    startedAt: time,
    finishedAt: time,
    expiresAt: time,
    steps: fc.array(step, { maxLength: 5 }),
    result,
    error,
  },
  { requiredKeys: ['phase'] },
);

/** Any execution that the CRD admits, those that the engine never writes included; parsed, as from the API server. */
export const anyExecution: fc.Arbitrary<WorkflowExecution> = fc
  .record({ status: fc.option(status, { nil: undefined }), cancel: fc.boolean() })
  .map((parts) => JSON.parse(JSON.stringify(executionOf(parts.status, { cancel: parts.cancel }))) as WorkflowExecution);
