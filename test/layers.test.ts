import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { createVirtualFileSystem } from 'typescript/unstable/fs';
import { checkHouse } from './support/house-rules.ts';

test('the house keeps its rules', () => {
  assert.deepEqual(checkHouse(join(import.meta.dirname, '..')), []);
});

/** The faults of a house that holds just these files. */
function faultsOf(files: Record<string, string>): string[] {
  const tsconfig = {
    compilerOptions: { noLib: true, module: 'nodenext' },
    include: ['src', 'deploy', 'examples', 'test'],
  };
  const all = { 'tsconfig.json': JSON.stringify(tsconfig), ...files };
  const entries = Object.entries(all).map(([name, text]) => [`/house/${name}`, text]);
  return checkHouse('/house', createVirtualFileSystem(Object.fromEntries(entries)));
}

function assertFaults(files: Record<string, string>, ...expected: RegExp[]): void {
  const faults = faultsOf(files);
  assert.equal(faults.length, expected.length, faults.join('\n'));
  for (const [index, pattern] of expected.entries()) assert.match(faults[index] ?? '', pattern);
}

test('arrows within the order pass', () => {
  assertFaults({
    'src/lib/a.ts': 'export const a = 1;',
    'src/kube/b.ts': "import { a } from '../lib/a.ts'; import { c } from './c.ts'; export const b = a + c;",
    'src/kube/c.ts': 'export const c = 1;',
    'deploy/d.ts': "import { b } from '../src/kube/b.ts'; export const d = b;",
    'test/e.ts': "import { d } from '../deploy/d.ts'; export const e = d;",
  });
});

test('every kind of import that runs back is found', () => {
  assertFaults(
    { 'src/lib/a.ts': "\nimport { b } from '../kube/b.ts'; b();" },
    /^src\/lib\/a\.ts:2: an arrow that runs back/,
  );
  assertFaults({ 'src/lib/a.ts': "import type { B } from '../kube/b.ts'; export type A = B;" }, /runs back/);
  assertFaults({ 'src/api/a.ts': "export * from '../cli/b.ts'; export const a = 1;" }, /runs back/);
  assertFaults({ 'src/api/a.ts': "export type A = import('../cli/b.ts').B;" }, /runs back/);
  assertFaults({ 'src/api/a.ts': "await import('../cli/b.ts');" }, /runs back/);
  assertFaults({ 'src/api/a.ts': "new URL('../cli/b.ts', import.meta.url);" });
});

test('nothing in src knows what is around it, and no folder is outside of the order', () => {
  for (const top of ['deploy', 'examples', 'test']) {
    assertFaults({ 'src/cli/a.ts': `import '../../${top}/b.ts';` }, /must not know/);
  }
  assertFaults({ 'examples/a.ts': "import '../test/b.ts';" }, /must not know/);
  assertFaults({ 'src/utils/a.ts': 'export const a = 1;' }, /no folder of the design: src\/utils/);
});

test('a file that is too long, a barrel and an enum are found', () => {
  assertFaults({ 'src/lib/a.ts': '// line\n'.repeat(450) });
  assertFaults({ 'src/lib/a.ts': '// line\n'.repeat(451) }, /451 lines/);
  assertFaults({ 'src/lib/a.ts': "export * from './b.ts';" }, /only re-exports/);
  assertFaults({ 'src/lib/a.ts': "import { b } from './b.ts';\nexport { b };" }, /only re-exports/);
  assertFaults({ 'src/lib/a.ts': "import './b.ts';" });
  assertFaults({ 'src/lib/a.ts': 'export enum A { B }' }, /an enum/);
});

test('any is found where it is a type, and only there', () => {
  assertFaults({ 'src/lib/a.ts': 'export const a = (b: any[]) => b;' }, /`any`/);
  assertFaults({ 'src/lib/a.ts': 'export const a = 1 as any;' }, /`any`/);
  assertFaults({ 'src/lib/a.ts': "// any\nexport const any = 'any' + `any` + /: any/.source + { any: 1 }.any;" });
  assertFaults({ 'src/mcp/wire.ts': 'export type Wire = any;' });
  assertFaults({ 'src/lib/wire.ts': 'export type Wire = any;' }, /`any`/);
});

test('a test that is skipped or that alone is run is found', () => {
  for (const name of ['only', 'skip', 'todo']) {
    assertFaults({ 'test/a.ts': `test.${name}('a', () => {});` }, /skipped/);
    assertFaults({ 'test/a.ts': `test('a', { ${name}: true }, () => {});` }, /skipped/);
    assertFaults({ 'test/a.ts': `test('a', (t) => t.${name}());` }, /skipped/);
  }
  assertFaults({ 'test/a.ts': "const options = { skip: 1 }; list.skip(options); test('skip', () => {});" });
});

test('a path of one machine is found', () => {
  for (const folder of ['work', 'tmp', 'root', 'home', 'Users']) {
    const path = `/${folder}/someone`;
    assertFaults({ 'src/lib/a.ts': `export const a = '${path}';` }, /a path of one machine/);
    assertFaults({ 'src/lib/a.ts': `// as in ${path}` }, /a path of one machine/);
    assertFaults({ 'src/lib/a.ts': `export const a = 'https://example.com${path}';` });
  }
});
