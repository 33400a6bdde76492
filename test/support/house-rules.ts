import { dirname, join, relative } from 'node:path';
import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast';
import {
  isCallExpression,
  isExportDeclaration,
  isIdentifier,
  isImportDeclaration,
  isImportTypeNode,
  isLiteralTypeNode,
  isObjectLiteralExpression,
  isPropertyAccessExpression,
  isPropertyAssignment,
  isStringLiteral,
} from 'typescript/unstable/ast/is';
import type { FileSystem } from 'typescript/unstable/fs';
import { API } from 'typescript/unstable/sync';

/** The rules of the house that neither the compiler nor the linter holds, checked on what the TypeScript parser sees. */
const LAYERS = ['lib', 'api', 'kube', 'expression', 'workflow', 'tasks', 'upstream', 'mcp', 'operator', 'cli'];
const TOP = ['src', 'deploy', 'examples', 'test'];
const LINE_LIMIT = 450;
/** The boundary to what the wire may bring: the only file that may say `any`. */
const WIRE = 'src/mcp/wire.ts';
const TEST_FUNCTIONS = ['test', 'it', 'describe', 'suite', 't'];
const TEST_SWITCHES = ['only', 'skip', 'todo'];
const MACHINE_PATH = /(?<![\w.~$}/-])\/(work|tmp|root|home|Users)\//;

/** @returns a line a fault: `src/kube/x.ts:3: …`. @param fs in place of the real one, for tests. */
export function checkHouse(root: string, fs?: FileSystem): string[] {
  const api = new API({ cwd: root, ...(fs !== undefined && { fs }) });
  try {
    const config = join(root, 'tsconfig.json');
    const project = api.updateSnapshot({ openProjects: [config] }).getProject(config);
    if (project === undefined) throw new Error(`${config} cannot be opened`);
    const faults: string[] = [];
    for (const name of project.rootFiles) {
      const source = project.program.getSourceFile(name);
      if (source === undefined) throw new Error(`${name} cannot be parsed`);
      faults.push(...checkFile(relative(root, name), source));
    }
    return faults;
  } finally {
    api.close();
  }
}

function checkFile(file: string, source: SourceFile): string[] {
  const faults: string[] = [];
  const report = (position: number, text: string): void => {
    faults.push(`${file}:${source.getLineAndCharacterOfPosition(position).line + 1}: ${text}`);
  };
  const visit = (node: Node): void => {
    const fault = faultOf(file, node);
    if (fault !== undefined) report(node.getStart(source), fault);
    node.forEachChild(visit);
  };
  visit(source);
  if (placeOf(file).layer === -1) report(0, `no folder of the design: ${dirname(file)}; known: ${LAYERS.join(', ')}`);
  const lines = source.text.trimEnd().split('\n');
  if (lines.length > LINE_LIMIT) report(0, `${lines.length} lines; at most ${LINE_LIMIT}: take it apart`);
  if (isBarrel(source)) report(0, 'only re-exports: import from the file that declares');
  for (const [index, line] of lines.entries()) {
    const path = MACHINE_PATH.exec(line)?.[0];
    if (path !== undefined) faults.push(`${file}:${index + 1}: a path of one machine: ${path}`);
  }
  return faults;
}

function faultOf(file: string, node: Node): string | undefined {
  if (node.kind === SyntaxKind.AnyKeyword && file !== WIRE)
    return `\`any\`, which only ${WIRE} may say: use \`unknown\``;
  if (node.kind === SyntaxKind.EnumDeclaration) return 'an enum: use a union of literals';
  const imported = importedPath(node);
  if (imported?.startsWith('.')) return arrowBack(file, join(dirname(file), imported));
  return isTestSwitch(node) ? 'a test that is skipped, or that alone is run' : undefined;
}

/** Of `import … from`, `export … from`, `import(…)` and the type `import(…).T`. A program that is started is none. */
function importedPath(node: Node): string | undefined {
  let path: Node | undefined;
  if (isImportDeclaration(node) || isExportDeclaration(node)) path = node.moduleSpecifier;
  else if (isImportTypeNode(node) && isLiteralTypeNode(node.argument)) path = node.argument.literal;
  else if (isCallExpression(node) && node.expression.kind === SyntaxKind.ImportKeyword) path = node.arguments[0];
  return path !== undefined && isStringLiteral(path) ? path.text : undefined;
}

function arrowBack(file: string, target: string): string | undefined {
  const [from, to] = [placeOf(file), placeOf(target)];
  if (from.top !== to.top) return from.top > to.top ? undefined : `${file} must not know ${target}: ${TOP.join(' ← ')}`;
  if (from.layer === undefined || to.layer === undefined) return undefined;
  return from.layer < to.layer
    ? `an arrow that runs back: ${file} → ${target}; the order is ${LAYERS.join(' ← ')}`
    : undefined;
}

/** Indexes into TOP and LAYERS; -1 for what is not in them, no layer outside of `src`. */
function placeOf(file: string): { top: number; layer: number | undefined } {
  const [top = '', folder = ''] = file.split('/');
  return { top: TOP.indexOf(top), layer: top === 'src' ? LAYERS.indexOf(folder) : undefined };
}

function isBarrel({ statements }: SourceFile): boolean {
  const isPassing = (node: Node): boolean => isExportDeclaration(node) || isImportDeclaration(node);
  return statements.some(isExportDeclaration) && statements.every(isPassing);
}

/** `test.skip(…)`, `t.todo()`, `test('…', { only: true }, …)`. */
function isTestSwitch(node: Node): boolean {
  if (isPropertyAccessExpression(node)) {
    const { expression, name } = node;
    return isIdentifier(expression) && TEST_FUNCTIONS.includes(expression.text) && TEST_SWITCHES.includes(name.text);
  }
  if (!isCallExpression(node) || !isIdentifier(node.expression)) return false;
  if (!TEST_FUNCTIONS.includes(node.expression.text)) return false;
  const properties = node.arguments.filter(isObjectLiteralExpression).flatMap((options) => [...options.properties]);
  return properties.some(
    (property) => isPropertyAssignment(property) && TEST_SWITCHES.includes(property.name.getText()),
  );
}
