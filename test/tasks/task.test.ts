import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CreateTaskResultV2Schema, GetTaskResultV2Schema } from '@modelcontextprotocol/ext-tasks/core/v2';
import fc from 'fast-check';
import type { WorkflowExecutionStatus } from '../../src/api/workflow-execution.ts';
import { isFinal } from '../../src/api/workflow-execution.ts';
import { detailedTaskOf, isExpired, isVisibleTo, taskOf } from '../../src/tasks/task.ts';
import { anyExecution, CREATED_AT, executionOf } from './executions.ts';

const at = (offset: number): string => new Date(CREATED_AT + offset).toISOString();
const later = fc.nat(10 * 86_400_000);

test('field case 11 (A): whatever the record, the handle and the task are what the ext-tasks schemas admit', () => {
  fc.assert(
    fc.property(anyExecution, later, (execution, age) => {
      const handle = { resultType: 'task', ...taskOf(execution, CREATED_AT + age) };
      assert.deepEqual(CreateTaskResultV2Schema.parse(handle), handle);
      const task = { resultType: 'complete', ...detailedTaskOf(execution, CREATED_AT + age) };
      assert.deepEqual(GetTaskResultV2Schema.parse(task), task);
    }),
  );
});

test('the handle has the flat fields and nothing of the detail', () => {
  fc.assert(
    fc.property(anyExecution, later, (execution, age) => {
      const task: Record<string, unknown> = { ...detailedTaskOf(execution, CREATED_AT + age) };
      const { result: _, error: __, ...flat } = task;
      assert.deepEqual({ ...taskOf(execution, CREATED_AT + age) }, flat);
    }),
  );
});

test('field case 75 (G): lastUpdatedAt is the same however often and late it is read, and a finished task wholly so', () => {
  fc.assert(
    fc.property(anyExecution, later, later, (execution, one, two) => {
      const first = detailedTaskOf(execution, CREATED_AT + one);
      const second = detailedTaskOf(execution, CREATED_AT + two);
      assert.equal(first.lastUpdatedAt, second.lastUpdatedAt);
      if (isFinal(execution.status?.phase)) assert.deepEqual(first, second);
    }),
  );
});

test('field case 10 (A): pollIntervalMs is always there, an integer of at least 1000, and longer the longer the run lasts', () => {
  fc.assert(
    fc.property(anyExecution, later, later, (execution, one, two) => {
      const soon = taskOf(execution, CREATED_AT + Math.min(one, two)).pollIntervalMs;
      const late = taskOf(execution, CREATED_AT + Math.max(one, two)).pollIntervalMs;
      assert.ok(Number.isInteger(soon) && soon >= 1000, String(soon));
      assert.ok(soon <= late);
    }),
  );
  const working = executionOf({ phase: 'inprogress' });
  assert.equal(taskOf(working, CREATED_AT).pollIntervalMs, 1_000);
  assert.equal(taskOf(working, CREATED_AT + 60_000).pollIntervalMs, 6_000);
  assert.equal(taskOf(working, CREATED_AT + 3_600_000).pollIntervalMs, 30_000);
});

test('each row of the table of phases', () => {
  const ended = { startedAt: at(100), finishedAt: at(2_000), expiresAt: at(62_000) };
  const content = [{ type: 'text', text: 'done' }];
  const rows: [WorkflowExecutionStatus | undefined, object][] = [
    [undefined, { status: 'working', statusMessage: 'no step is recorded yet', ttlMs: null }],
    [{ phase: 'inprogress' }, { status: 'working', ttlMs: null }],
    [
      { phase: 'completed', result: { content, structuredContent: 1 }, ...ended },
      { status: 'completed', result: { resultType: 'complete', content, structuredContent: 1 }, ttlMs: 62_000 },
    ],
    [
      { phase: 'failed', reason: 'StepFailed', message: 'no', result: { content, isError: true }, ...ended },
      { status: 'completed', statusMessage: 'no', result: { resultType: 'complete', content, isError: true } },
    ],
    [
      {
        phase: 'failed',
        reason: 'ProtocolError',
        message: 'no',
        error: { code: 7, message: 'bad', data: [1] },
        ...ended,
      },
      { status: 'failed', statusMessage: 'no', error: { code: 7, message: 'bad', data: [1] } },
    ],
    [
      { phase: 'cancelled', message: "after step 'a'", ...ended },
      { status: 'cancelled', statusMessage: "after step 'a'" },
    ],
  ];
  for (const [status, expected] of rows)
    assert.partialDeepStrictEqual(detailedTaskOf(executionOf(status), 0), expected);
});

test('a failed task has a statusMessage even where the record has none', () => {
  const status: WorkflowExecutionStatus = { phase: 'failed', error: { code: -32603, message: 'gone' } };
  assert.equal(detailedTaskOf(executionOf(status), 0).statusMessage, 'gone');
  assert.partialDeepStrictEqual(detailedTaskOf(executionOf({ phase: 'failed' }), 0), {
    status: 'failed',
    error: { code: -32603 },
  });
});

test('field case 34 (B): an isError result has no structured content', () => {
  const status: WorkflowExecutionStatus = { phase: 'failed', result: { content: [], structuredContent: { a: 1 } } };
  assert.deepEqual((detailedTaskOf(executionOf(status), 0) as { result?: object }).result, {
    resultType: 'complete',
    content: [],
    isError: true,
  });
});

test('a code that MCP reserves is never passed on as ours', () => {
  fc.assert(
    fc.property(fc.integer({ min: -33_000, max: 0 }), (code) => {
      const execution = executionOf({ phase: 'failed', error: { code, message: 'm' } });
      const { error } = detailedTaskOf(execution, 0) as { error: { code: number } };
      const reserved = (code <= -32020 && code >= -32099) || code === -32002;
      assert.equal(error.code, reserved ? -32603 : code);
    }),
  );
});

test('lastUpdatedAt is the latest time of the record', () => {
  const execution = executionOf({
    phase: 'inprogress',
    runner: { id: 'a', claimedAt: at(500) },
    startedAt: at(400),
    steps: [
      { id: 'a', phase: 'completed', attempt: 1, startedAt: at(500), finishedAt: at(1_700) },
      { id: 'b', phase: 'running', attempt: 1, startedAt: at(1_700) },
    ],
  });
  assert.equal(taskOf(execution, CREATED_AT + 99_000).lastUpdatedAt, at(1_700));
  assert.equal(taskOf(executionOf(), CREATED_AT + 99_000).lastUpdatedAt, at(0));
});

test('statusMessage says which step, and what it does', () => {
  const step = { id: 'build', phase: 'running', attempt: 1, startedAt: at(0) } as const;
  const messageOf = (steps: WorkflowExecutionStatus['steps'], cancel = false): string | undefined =>
    taskOf(
      executionOf({ phase: 'inprogress', totalSteps: 4, ...(steps !== undefined && { steps }) }, { cancel }),
      CREATED_AT,
    ).statusMessage;
  assert.equal(messageOf([step]), "step 1 of 4 'build' is running");
  assert.equal(messageOf([step, { ...step, id: 'b', attempt: 3 }]), "step 2 of 4 'b' is running, attempt 3");
  assert.equal(messageOf([{ ...step, wakeAt: at(9_000) }]), `step 1 of 4 'build' sleeps until ${at(9_000)}`);
  assert.equal(messageOf([{ ...step, phase: 'completed' }]), "step 1 of 4 'build' completed");
  assert.equal(messageOf([{ ...step, phase: 'skipped' }]), "step 1 of 4 'build' was skipped");
  assert.equal(messageOf([step], true), "cancel requested; step 1 of 4 'build' is running");
  assert.equal(messageOf(undefined, true), 'cancel requested; no step is recorded yet');
});

test('a task expires at expiresAt, not before and not without it', () => {
  const execution = executionOf({ phase: 'completed', expiresAt: at(5_000) });
  assert.equal(isExpired(execution, CREATED_AT + 4_999), false);
  assert.equal(isExpired(execution, CREATED_AT + 5_000), true);
  assert.equal(isExpired(executionOf({ phase: 'inprogress' }), Number.MAX_SAFE_INTEGER), false);
});

test('field case 8 (A): a task is visible to who asked for it and to nobody else', () => {
  assert.equal(isVisibleTo(executionOf(), 'alice'), true);
  assert.equal(isVisibleTo(executionOf(), 'bob'), false);
  const { requestedBy: _, ...spec } = executionOf().spec;
  assert.equal(isVisibleTo({ ...executionOf(), spec }, 'alice'), false);
});

test('an execution that the API server has not acknowledged is not a task', () => {
  const execution = executionOf();
  const { creationTimestamp: _, ...metadata } = execution.metadata;
  assert.throws(() => taskOf({ ...execution, metadata }, 0), /no creationTimestamp/);
});
