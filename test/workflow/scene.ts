import assert from 'node:assert/strict';
import { API_VERSION, FIRST_STEP_ANNOTATION, WORKFLOW_EXECUTION } from '../../src/api/constants.ts';
import type { WorkflowSpec } from '../../src/api/workflow.ts';
import type {
  WorkflowExecution,
  WorkflowExecutionSpec,
  WorkflowExecutionStatus,
} from '../../src/api/workflow-execution.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { type Drive, drive, firstStepAnnotation } from '../../src/workflow/executor.ts';
import { type Plan, planWorkflow } from '../../src/workflow/plan.ts';
import type { Progress } from '../../src/workflow/ports.ts';
import { DEFAULT_LIMITS, type Limits } from '../../src/workflow/run.ts';
import { createFakeClock, type FakeClock, settle } from '../support/fake-clock.ts';
import { type Process, type ScriptedTool, ScriptedWorld } from './scripted-world.ts';

export function planOf(spec: WorkflowSpec): Plan {
  const planned = planWorkflow('deploy', spec);
  assert.ok('plan' in planned, JSON.stringify('checks' in planned && planned.checks));
  return planned.plan;
}

/** Of the event loop: more than anything here needs that takes no time. */
const TURNS = 20;

export interface SceneOptions {
  readonly spec: WorkflowSpec;
  readonly tools?: Readonly<Record<string, ScriptedTool>>;
  readonly execution?: Partial<WorkflowExecutionSpec>;
  readonly limits?: Limits;
}

export interface Driven extends Drive {
  readonly process: Process;
  /** Aborts the drive's lifetime: the operator stops. */
  stop(): void;
}

/** One workflow, one execution of it, scripted upstreams and a clock: what the tests of the executor play with. */
export class Scene {
  readonly clock: FakeClock = createFakeClock();
  readonly world: ScriptedWorld;
  readonly plan: Plan;
  readonly progress: Progress[] = [];
  /** Kubernetes Events, `reason: message`. */
  readonly events: string[] = [];
  readonly #options: SceneOptions;
  #runners = 0;

  constructor(options: SceneOptions) {
    this.#options = options;
    this.world = new ScriptedWorld(this.clock, options.tools ?? {});
    this.plan = planOf(options.spec);
  }

  /** Creates the execution and drives it, as a replica does that serves `tools/call`. */
  start(killAt?: number): Driven {
    const process = this.world.process(killAt);
    const firstStep = firstStepAnnotation(this.plan, (tool) => process.tools.describe('team-a', tool));
    const execution: WorkflowExecution = {
      apiVersion: API_VERSION,
      kind: WORKFLOW_EXECUTION.kind,
      metadata: {
        name: '0b8f9c7e-5d0c-4a3b-9a51-0e7d4c1f2a3b',
        namespace: 'team-a',
        ...(firstStep !== undefined && { annotations: { [FIRST_STEP_ANNOTATION]: firstStep } }),
      },
      spec: { workflow: 'deploy', ...this.#options.execution },
    };
    return this.#drive(execution, process.create(execution), process);
  }

  /** Takes up the execution as it is stored, as another replica. */
  takeUp(killAt?: number): Driven {
    const stored = structuredClone(this.stored);
    return this.#drive(stored, Promise.resolve(stored), this.world.process(killAt));
  }

  /** Stores an execution that nobody drives yet, as kubectl does. */
  apply(name: string): void {
    const { execution } = this.#options;
    const metadata = { name, namespace: 'team-a', uid: 'the-uid', resourceVersion: '0' };
    const spec = { workflow: 'deploy', ...execution };
    this.world.stored = { apiVersion: API_VERSION, kind: WORKFLOW_EXECUTION.kind, metadata, spec };
  }

  get stored(): WorkflowExecution {
    assert.ok(this.world.stored, 'nothing is stored');
    return this.world.stored;
  }

  get status(): WorkflowExecutionStatus {
    assert.ok(this.stored.status, 'no status is stored');
    return this.stored.status;
  }

  /** Lets time pass until `promise` settles. */
  async until<T>(promise: Promise<T>, stepMs = 1000): Promise<T> {
    let settled = false;
    const onSettled = (): void => {
      settled = true;
    };
    promise.then(onSettled, onSettled);
    for (let turns = 0; !settled; turns++) {
      assert.ok(turns < 10_000, 'nothing ends it');
      for (let turn = 0; turn < TURNS && !settled; turn++) await settle();
      if (!settled) await this.clock.advance(stepMs);
    }
    return promise;
  }

  /** Lets what takes no time happen, then `ms` pass, and what that sets off. */
  async advance(ms: number): Promise<void> {
    for (let turn = 0; turn < TURNS; turn++) await settle();
    await this.clock.advance(ms);
    for (let turn = 0; turn < TURNS; turn++) await settle();
  }

  /** Starts it and lets it run to its recorded end. */
  async run(): Promise<WorkflowExecutionStatus> {
    await this.until(this.start().recorded);
    return this.status;
  }

  #drive(execution: WorkflowExecution, created: Promise<WorkflowExecution>, process: Process): Driven {
    const controller = new AbortController();
    const driven = drive(
      {
        execution,
        created,
        plan: this.plan,
        revision: 'deploy-1',
        deps: {
          tools: process.tools,
          store: process.store,
          clock: this.clock,
          log: silentLogger,
          runner: `replica-${++this.#runners}`,
          recordEvent: (_, type, reason, message) => this.events.push(`${type} ${reason}: ${message}`),
          limits: this.#options.limits ?? DEFAULT_LIMITS,
        },
        onProgress: (progress) => this.progress.push(progress),
      },
      controller.signal,
    );
    return {
      ended: driven.ended,
      recorded: driven.recorded,
      observe: (seen) => driven.observe(seen),
      cancel: () => driven.cancel(),
      drain: () => driven.drain(),
      forget: () => driven.forget(),
      process,
      stop: () => controller.abort(),
    };
  }
}
