import type { TestContext } from 'node:test';
import type { MCPServer, MCPServerSpec } from '../../src/api/mcp-server.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type { JsonObject } from '../../src/lib/json.ts';
import { type Logger, silentLogger } from '../../src/lib/log.ts';
import type { UpstreamStatus } from '../../src/upstream/connection.ts';
import { startUpstreams, type Upstreams, type UpstreamsOptions } from '../../src/upstream/upstreams.ts';
import type { ToolCall, ToolOutcome } from '../../src/workflow/ports.ts';

const NAMESPACE = 'team-a';
const API = { apiVersion: 'convoke.dev/v1alpha1', kind: 'MCPServer' };

/** The upstreams of one test, in the namespace `team-a`. */
export interface TestUpstreams {
  readonly upstreams: Upstreams;
  /** Keys of `onChange`, in order. */
  readonly changes: readonly string[];
  /** `spec`, or the url of a streamable HTTP server. */
  set(name: string, spec: MCPServerSpec | string): void;
  remove(name: string): void;
  status(name: string): UpstreamStatus;
  missing(server: string, tool: string): string | undefined;
  reach(server: string, tool: string): Promise<string | undefined>;
  /** Resolves with the first status that `matches`; default: one that is ready. */
  until(name: string, matches?: (status: UpstreamStatus) => boolean): Promise<UpstreamStatus>;
  call(tool: `${string}/${string}`, args?: JsonObject, more?: CallOptions): Promise<ToolOutcome>;
}

export interface CallOptions extends Partial<Pick<ToolCall, 'key' | 'onProgress'>> {
  readonly signal?: AbortSignal;
}

/** Stopped, and waited for, after the test. */
export function testUpstreams(t: TestContext, options: Partial<UpstreamsOptions> = {}): TestUpstreams {
  const stop = new AbortController();
  const changes: string[] = [];
  let changed = Promise.withResolvers<void>();
  const upstreams = startUpstreams(
    {
      resolveSecret: async (_namespace, name) => Promise.reject(new Error(`no Secret "${name}"`)),
      allowStdio: true,
      version: '0.0.0',
      clock: systemClock,
      log: silentLogger,
      onChange(key) {
        changes.push(key);
        changed.resolve();
        changed = Promise.withResolvers();
      },
      ...options,
    },
    stop.signal,
  );
  t.after(async () => {
    stop.abort();
    await upstreams.done;
  });
  const status = (name: string): UpstreamStatus => upstreams.status(`${NAMESPACE}/${name}`);
  return {
    upstreams,
    changes,
    set(name, spec) {
      const metadata = { name, namespace: NAMESPACE };
      upstreams.set({ ...API, metadata, spec: typeof spec === 'string' ? http(spec) : spec } satisfies MCPServer);
    },
    remove: (name) => upstreams.remove(`${NAMESPACE}/${name}`),
    status,
    missing: (server, tool) => upstreams.missing(NAMESPACE, { server, tool }),
    reach: (server, tool) => upstreams.reach(NAMESPACE, [{ server, tool }], new AbortController().signal),
    async until(name, matches = ({ ready }) => ready.status === 'True') {
      while (!matches(status(name))) await changed.promise;
      return status(name);
    },
    call(tool, args = {}, { key = 'run.step', signal = new AbortController().signal, ...more } = {}) {
      const [server = '', name = ''] = tool.split('/');
      return upstreams.caller.call({ namespace: NAMESPACE, server, tool: name, args, key, ...more }, signal);
    },
  };
}

export function http(url: string, more: Partial<MCPServerSpec> = {}): MCPServerSpec {
  return { type: 'streamable-http', url, ...more };
}

/** The text of a result with one text block; what came instead, otherwise. */
export function textOf(outcome: ToolOutcome): unknown {
  if (outcome.kind !== 'result' || outcome.result.content.length !== 1) return outcome;
  return outcome.result.content[0]?.text;
}

/** Keeps what is logged. */
export function recordingLogger(): { log: Logger; records: Record<string, unknown>[] } {
  const records: Record<string, unknown>[] = [];
  const logger = (base: object): Logger => {
    const at = (level: string) => (keys: object, message: string) =>
      void records.push({ ...base, ...keys, level, message });
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (keys) => logger({ ...base, ...keys }),
    };
  };
  return { log: logger({}), records };
}
