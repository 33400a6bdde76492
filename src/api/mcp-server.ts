import type { JsonObject } from '../lib/json.ts';
import type { Condition, KubeObject } from './object.ts';

/** An upstream MCP server. crds/mcpservers.yaml is the contract. */
export interface MCPServer extends KubeObject {
  spec: MCPServerSpec;
  status?: MCPServerStatus;
}

/** `url` and `headers` belong to streamable-http, `command`, `args` and `env` to stdio. */
export interface MCPServerSpec {
  type: 'streamable-http' | 'stdio';
  url?: string;
  headers?: NamedValue[];
  /** A process of the operator's own; only where the operator runs with --allow-stdio. */
  command?: string;
  args?: string[];
  env?: NamedValue[];
  /** Bound on connecting and on listing tools. */
  timeout?: string;
}

/** Exactly one of `value` and `secretRef`. */
export interface NamedValue {
  name: string;
  value?: string;
  secretRef?: { name: string; key: string };
}

export interface MCPServerStatus {
  observedGeneration?: number;
  protocolVersion?: string;
  serverInfo?: { name: string; version: string };
  /** As the server advertises them. */
  extensions?: Record<string, JsonObject>;
  tools?: { name: string; hash: string }[];
  lastConnected?: string;
  lastError?: string;
  conditions?: Condition[];
}
