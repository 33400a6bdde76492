import { setTimeout as delay } from 'node:timers/promises';
import { type CallToolResult, ProtocolError, type Tool } from '@modelcontextprotocol/server';
import { succeed } from '../support/operator.ts';

/** Told by the server on each call. */
export interface CallContext {
  readonly signal: AbortSignal;
  /** Does nothing when the caller asked for no progress. */
  progress(progress: number, total: number): Promise<void>;
}

export interface FixtureTool extends Tool {
  run(args: Record<string, unknown>, context: CallContext): CallToolResult | Promise<CallToolResult>;
}

/** Where `patch_object` works. */
export interface Cluster {
  readonly kubeconfig: string;
  readonly namespace: string;
}

const JOB_MS = 1_000;
const PROGRESS_PAUSE_MS = 50;
const NO_ARGS = { type: 'object', additionalProperties: false } as const;
const READS_ONLY = { readOnlyHint: true };

/** A red pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==';
/** A header without a sample after it: mono, 8 bits, 8 kHz. */
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';
const IMAGE = { type: 'image', data: PNG, mimeType: 'image/png' } as const;

/** What the scenarios call, as any server would offer it: nothing here knows of workflows or tasks. */
export function fixtureTools(cluster: Cluster): FixtureTool[] {
  return [
    {
      name: 'greet',
      description: 'Greets by name.',
      inputSchema: objectOf({ name: { type: 'string' } }),
      annotations: READS_ONLY,
      run: ({ name }) => textOf(`Hello, ${name}!`),
    },
    {
      name: 'slow_compute',
      description: 'Computes for so many seconds.',
      inputSchema: objectOf({ seconds: { type: 'number', minimum: 0 }, label: { type: 'string' } }),
      annotations: READS_ONLY,
      async run({ seconds, label }, { signal }) {
        await delay(Number(seconds) * 1_000, undefined, { signal });
        return textOf(`${label}: computed for ${seconds} s`);
      },
    },
    {
      name: 'failing_job',
      description: 'Works for a second and fails.',
      inputSchema: NO_ARGS,
      async run(_, { signal }) {
        await delay(JOB_MS, undefined, { signal });
        return errorOf('the job failed');
      },
    },
    {
      name: 'protocol_error_job',
      description: 'Works for a second and answers with a JSON-RPC error.',
      inputSchema: NO_ARGS,
      async run(_, { signal }) {
        await delay(JOB_MS, undefined, { signal });
        throw new ProtocolError(-32603, 'the job broke down');
      },
    },
    {
      name: 'patch_object',
      description: 'Merges a patch into an object of the namespace.',
      inputSchema: objectOf({ resource: { type: 'string' }, name: { type: 'string' }, patch: { type: 'object' } }),
      annotations: { destructiveHint: true, idempotentHint: true },
      async run({ resource, name, patch }) {
        const target = ['-n', cluster.namespace, 'patch', String(resource), String(name)];
        return textOf(await succeed(cluster.kubeconfig, [...target, '--type=merge', '-p', JSON.stringify(patch)]));
      },
    },
    content('test_simple_text', [{ type: 'text', text: 'This is a simple text response for testing.' }]),
    content('test_image_content', [IMAGE]),
    content('test_audio_content', [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }]),
    content('test_embedded_resource', [
      resourceOf('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'),
    ]),
    content('test_multiple_content_types', [
      { type: 'text', text: 'Multiple content types test:' },
      IMAGE,
      resourceOf('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ]),
    {
      name: 'test_error_handling',
      description: 'Always fails.',
      inputSchema: NO_ARGS,
      annotations: READS_ONLY,
      run: () => errorOf('This tool intentionally returns an error for testing'),
    },
    {
      name: 'test_tool_with_progress',
      description: 'Tells its progress three times.',
      inputSchema: NO_ARGS,
      annotations: READS_ONLY,
      async run(_, { signal, progress }) {
        await progress(0, 100);
        await delay(PROGRESS_PAUSE_MS, undefined, { signal });
        await progress(50, 100);
        await delay(PROGRESS_PAUSE_MS, undefined, { signal });
        await progress(100, 100);
        return textOf('done, with progress');
      },
    },
  ];
}

function content(name: string, blocks: CallToolResult['content']): FixtureTool {
  const description = `Answers with ${blocks.map(({ type }) => type).join(', ')}.`;
  return { name, description, inputSchema: NO_ARGS, annotations: READS_ONLY, run: () => ({ content: blocks }) };
}

/** All properties are required. */
function objectOf(properties: Record<string, Record<string, string | number>>): Tool['inputSchema'] {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false };
}

function resourceOf(uri: string, mimeType: string, text: string): CallToolResult['content'][number] {
  return { type: 'resource', resource: { uri, mimeType, text } };
}

function textOf(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] };
}

function errorOf(text: string): CallToolResult {
  return { ...textOf(text), isError: true };
}
