import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import type * as servers from '../../src/api/mcp-server.ts';
import type * as workflows from '../../src/api/workflow.ts';
import type * as executions from '../../src/api/workflow-execution.ts';
import type * as crd from './crd-types.generated.ts';
import { generateTypes, readCrds } from './crd-types.ts';

/** `true` only for types that are identical: a field more, or one optional on one side only, makes it `false`. */
type Same<A, B> = (<T>() => T extends Flat<A> ? 1 : 2) extends <T>() => T extends Flat<B> ? 1 : 2 ? true : false;
/** Interfaces and aliases written out, so that only their structure is compared. */
type Flat<T> = T extends (infer Item)[] ? Flat<Item>[] : T extends object ? { [Key in keyof T]: Flat<T[Key]> } : T;

/** Checked by tsc: a type that differs from its CRD makes the element `false`. */
const same: [
  Same<workflows.WorkflowSpec, crd.WorkflowSpec>,
  Same<workflows.WorkflowStatus, crd.WorkflowStatus>,
  Same<executions.WorkflowExecutionSpec, crd.WorkflowExecutionSpec>,
  Same<executions.WorkflowExecutionStatus, crd.WorkflowExecutionStatus>,
  Same<servers.MCPServerSpec, crd.MCPServerSpec>,
  Same<servers.MCPServerStatus, crd.MCPServerStatus>,
] = [true, true, true, true, true, true];

test('the TypeScript types are those of the CRDs, in both directions', async () => {
  assert.ok(same.every(Boolean));
  const generated = await readFile(new URL('./crd-types.generated.ts', import.meta.url), 'utf8');
  assert.equal(generated, await generateTypes(), 'run `node test/api/crd-types.ts`');
});

interface Described {
  description?: string;
  type?: string;
  properties?: Record<string, Described>;
  items?: Described;
  additionalProperties?: Described;
}

function undescribed(schema: Described, path: string): string[] {
  const fields = Object.entries(schema.properties ?? {}).flatMap(([name, field]) => [
    ...(field.description === undefined ? [`${path}.${name}`] : []),
    ...undescribed(field, `${path}.${name}`),
  ]);
  const parts = [schema.items, schema.additionalProperties].flatMap((part) => part ?? []);
  return [...fields, ...parts.flatMap((part) => undescribed(part, `${path}[]`))];
}

test('every field has a description for kubectl explain', async () => {
  for (const { spec } of await readCrds()) {
    const { properties = {} } = spec.versions[0]?.schema.openAPIV3Schema ?? {};
    for (const part of ['spec', 'status']) {
      assert.deepEqual(undescribed(properties[part] as Described, `${spec.names.kind}.${part}`), []);
    }
  }
});
