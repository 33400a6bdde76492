import { readdir, readFile } from 'node:fs/promises';
import { parseAllDocuments } from 'yaml';

/** The part of a structural schema that decides on a TypeScript type. */
interface Schema {
  type?: string;
  enum?: string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema;
  'x-kubernetes-preserve-unknown-fields'?: boolean;
}

interface Crd {
  kind: string;
  spec: {
    names: { kind: string };
    versions: { schema: { openAPIV3Schema: Schema } }[];
  };
}

const HEADER = `// Generated from crds/*.yaml by crd-types.ts; \`node test/api/crd-types.ts\` writes it anew.
import type { JsonObject, JsonValue } from '../../src/lib/json.ts';
`;

/** TypeScript types of every CRD's spec and status, as text. */
export async function generateTypes(): Promise<string> {
  const crds = await readCrds();
  const types = crds.flatMap((crd) => {
    const { properties = {} } = crd.spec.versions[0]?.schema.openAPIV3Schema ?? {};
    return ['spec', 'status'].map((part) => {
      const name = `${crd.spec.names.kind}${part === 'spec' ? 'Spec' : 'Status'}`;
      return `\nexport type ${name} = ${toType(properties[part] ?? {}, '')};\n`;
    });
  });
  return HEADER + types.join('');
}

export async function readCrds(): Promise<Crd[]> {
  const folder = new URL('../../crds/', import.meta.url);
  const files = (await readdir(folder)).filter((name) => name.endsWith('.yaml')).sort();
  const texts = await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')));
  const documents = texts.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as Crd));
  return documents.filter(({ kind }) => kind === 'CustomResourceDefinition');
}

function toType(schema: Schema, indent: string): string {
  if (schema.enum !== undefined) return schema.enum.map((value) => `'${value}'`).join(' | ');
  switch (schema.type) {
    case undefined:
      return 'JsonValue';
    case 'integer':
    case 'number':
      return 'number';
    case 'array': {
      const item = toType(schema.items ?? {}, indent);
      return item.includes(' | ') ? `(${item})[]` : `${item}[]`;
    }
    case 'object':
      return toObjectType(schema, indent);
    default:
      return schema.type;
  }
}

function toObjectType(schema: Schema, indent: string): string {
  if (schema.additionalProperties !== undefined)
    return `Record<string, ${toType(schema.additionalProperties, indent)}>`;
  if (schema.properties === undefined) return 'JsonObject';
  const fields = Object.entries(schema.properties).map(([name, field]) => {
    const optional = schema.required?.includes(name) ? '' : '?';
    return `${indent}  ${name}${optional}: ${toType(field, `${indent}  `)};\n`;
  });
  return `{\n${fields.join('')}${indent}}`;
}

if (import.meta.main) {
  const { writeFile } = await import('node:fs/promises');
  await writeFile(new URL('./crd-types.generated.ts', import.meta.url), await generateTypes());
}
