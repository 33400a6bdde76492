// Generated from crds/*.yaml by crd-types.ts; `node test/api/crd-types.ts` writes it anew.
import type { JsonObject, JsonValue } from '../../src/lib/json.ts';

export type MCPServerSpec = {
  type: 'streamable-http' | 'stdio';
  url?: string;
  headers?: {
    name: string;
    value?: string;
    secretRef?: {
      name: string;
      key: string;
    };
  }[];
  command?: string;
  args?: string[];
  env?: {
    name: string;
    value?: string;
    secretRef?: {
      name: string;
      key: string;
    };
  }[];
  timeout?: string;
};

export type MCPServerStatus = {
  observedGeneration?: number;
  protocolVersion?: string;
  serverInfo?: {
    name: string;
    version: string;
  };
  extensions?: Record<string, JsonObject>;
  tools?: {
    name: string;
    hash: string;
  }[];
  lastConnected?: string;
  lastError?: string;
  conditions?: ({
    type: string;
    status: 'True' | 'False' | 'Unknown';
    observedGeneration?: number;
    lastTransitionTime: string;
    reason: string;
    message: string;
  })[];
};

export type WorkflowExecutionSpec = {
  workflow: string;
  args?: JsonObject;
  requestedBy?: {
    subject: string;
    via: 'mcp' | 'kubernetes';
  };
  cancel?: boolean;
  inputResponses?: Record<string, {
    action: 'accept' | 'decline' | 'cancel';
    content?: JsonObject;
  }>;
};

export type WorkflowExecutionStatus = {
  phase: 'inprogress' | 'completed' | 'failed' | 'cancelled';
  reason?: 'StepFailed' | 'ProtocolError' | 'Timeout' | 'Interrupted' | 'Cancelled' | 'ResultTooLarge' | 'InvalidArguments' | 'InvalidWorkflow' | 'WorkflowNotFound' | 'OutputFailed';
  message?: string;
  runner?: {
    id: string;
    claimedAt: string;
  };
  revision?: string;
  startedAt?: string;
  finishedAt?: string;
  expiresAt?: string;
  duration?: string;
  step?: string;
  totalSteps?: number;
  steps?: ({
    id: string;
    phase: 'running' | 'completed' | 'failed' | 'skipped' | 'cancelled';
    attempt: number;
    tool?: string;
    startedAt: string;
    finishedAt?: string;
    reason?: 'ToolError' | 'ProtocolError' | 'Unavailable' | 'OutcomeUnknown' | 'Timeout' | 'Interrupted' | 'ExpressionError' | 'ResultTooLarge' | 'Cancelled';
    message?: string;
    repeatable?: boolean;
    wakeAt?: string;
    result?: JsonValue;
    content?: JsonObject[];
  })[];
  inputRequests?: Record<string, JsonObject>;
  result?: {
    content: JsonObject[];
    structuredContent?: JsonValue;
    isError?: boolean;
  };
  error?: {
    code: number;
    message: string;
    data?: JsonValue;
  };
};

export type WorkflowSpec = {
  title?: string;
  toolName?: string;
  description?: string;
  taskBehavior?: 'auto' | 'always' | 'never';
  args?: Record<string, {
    type: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object';
    description?: string;
    required?: boolean;
    default?: JsonValue;
    enum?: JsonValue[];
    minimum?: number;
    maximum?: number;
    minLength?: number;
    maxLength?: number;
  }>;
  timeout?: string;
  ttlAfterFinished?: string;
  revisionHistoryLimit?: number;
  annotations?: {
    readOnlyHint?: boolean;
    destructiveHint?: boolean;
    idempotentHint?: boolean;
    openWorldHint?: boolean;
  };
  steps: {
    id: string;
    if?: string;
    tool?: string;
    args?: JsonObject;
    repeatable?: boolean;
    sleep?: string;
    timeout?: string;
    allowFailure?: boolean;
  }[];
  output?: JsonValue;
};

export type WorkflowStatus = {
  observedGeneration?: number;
  toolName?: string;
  revision?: string;
  conditions?: ({
    type: string;
    status: 'True' | 'False' | 'Unknown';
    observedGeneration?: number;
    lastTransitionTime: string;
    reason: string;
    message: string;
  })[];
  checks?: {
    path: string;
    message: string;
    column?: number;
  }[];
};
