// The `@example` blocks of the docstrings, made into modules.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'
import { ENTRY_POINTS } from '../../../scripts/entry-points.mjs'
import { root } from './process.js'

const AREAS = ['src', 'adapters', 'conformance']
/** What `app` is in the examples of a binding, by the file's folder. Elsewhere it is Express. */
const APPS: Readonly<Record<string, string>> = { 'adapters/fastify': 'fastifyApp', 'adapters/koa': 'koaApp' }
/** The file whose names an example may use without an import, seen from `examples/snippets`. */
const HOST_NAMES = { file: 'test/http/docs/example-names.ts', specifier: '../../test/http/docs/example-names.js' }

/**
 * Makes each `@example` block of `src`, `adapters` and `conformance` into a module. An example is complete
 * TypeScript, except that it need not import two kinds of names: those that the package exports, and
 * those of `test/http/docs/example-names.ts`, which stand for what an application has. An example
 * that returns is the body of a handler.
 *
 * @returns The text of each module by a name that says where the example is.
 */
export function docstringExamples(): Map<string, string> {
  const known = importableNames()
  const paths = AREAS.flatMap((area) => readdirSync(join(root, area), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts')).map((name) => join(root, area, name)))
  return new Map(paths.sort().flatMap((path) => examplesOf(path, known)))
}

function examplesOf(path: string, known: ReadonlyMap<string, string>): (readonly [string, string])[] {
  const text = readFileSync(path, 'utf8')
  if (!text.includes('@example')) return []
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const found = new Map<number, string>()
  const visit = (node: ts.Node): void => {
    for (const tag of ts.getJSDocTags(node)) {
      if (tag.tagName.text === 'example') found.set(tag.pos, ts.getTextOfJSDocComment(tag.comment) ?? '')
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  const shortPath = relative(root, path).replaceAll('\\', '/')
  const place = shortPath.replaceAll('/', '_').replace(/\.ts$/, '')
  const app = APPS[dirname(shortPath)]
  const names =
    app === undefined ? known : new Map(known).set('app', `import { ${app} as app } from '${HOST_NAMES.specifier}'`)
  return [...found].map(([pos, example]) => {
    const line = text.slice(0, pos).split('\n').length
    return [`${place}_line${line}.ts`, withImports(codeOf(example), names)] as const
  })
}

/** An example is a fenced block, or all of its text. */
function codeOf(example: string): string {
  return /^```\w*\n([^]*?)^```/m.exec(example)?.[1] ?? example
}

/** Puts imports of all names in front that the example uses and does not declare, on its first line. */
function withImports(code: string, known: ReadonlyMap<string, string>): string {
  const used = new Set<string>()
  const declared = new Set<string>()
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) {
      const { parent } = node
      const declares =
        (ts.isVariableDeclaration(parent) ||
          ts.isBindingElement(parent) ||
          ts.isFunctionDeclaration(parent) ||
          ts.isClassDeclaration(parent) ||
          ts.isParameter(parent) ||
          ts.isInterfaceDeclaration(parent) ||
          ts.isImportSpecifier(parent) ||
          ts.isImportClause(parent) ||
          ts.isNamespaceImport(parent)) &&
        parent.name === node
      const member = (ts.isPropertyAccessExpression(parent) || ts.isPropertyAssignment(parent)
        || ts.isMethodDeclaration(parent) || ts.isPropertySignature(parent)) && parent.name === node
      if (declares) declared.add(node.text)
      else if (!member) used.add(node.text)
    }
    ts.forEachChild(node, visit)
  }
  const file = ts.createSourceFile('example.ts', code, ts.ScriptTarget.Latest, true)
  visit(file)
  const imports = [...used]
    .filter((name) => !declared.has(name) && known.has(name))
    .map((name) => known.get(name) ?? '')
  const module = `${imports.join('; ')}; export {}; `
  return returns(file) ? `${module} export const body = async () => { ${code}\n}` : module + code
}

/** Reports whether an example is the body of a handler: it returns outside of a function. */
function returns(node: ts.Node): boolean {
  if (ts.isReturnStatement(node)) return true
  if (ts.isFunctionLike(node)) return false
  return ts.forEachChild(node, returns) ?? false
}

/** The import statement of each name that an example may use, by the name. */
function importableNames(): Map<string, string> {
  const names = new Map<string, string>()
  const entries = Object.entries(ENTRY_POINTS)
  for (const [entry, path] of entries) {
    const specifier = entry === 'index' ? 'longhaul' : `longhaul/${entry}`
    for (const [name, type] of exportsOf(path)) if (!names.has(name)) names.set(name, importOf(name, type, specifier))
  }
  for (const [name, type] of exportsOf(HOST_NAMES.file)) names.set(name, importOf(name, type, HOST_NAMES.specifier))
  return names
}

function importOf(name: string, type: boolean, specifier: string): string {
  return `import ${type ? 'type ' : ''}{ ${name} } from '${specifier}'`
}

/** The names that a module exports, with `true` for those that are types only. */
function exportsOf(path: string): [string, boolean][] {
  const file = ts.createSourceFile(path, readFileSync(join(root, path), 'utf8'), ts.ScriptTarget.Latest, true)
  return file.statements.flatMap((statement): [string, boolean][] => {
    if (ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamedExports(statement.exportClause)) {
      const { isTypeOnly } = statement
      return statement.exportClause.elements.map((each) => [each.name.text, isTypeOnly || each.isTypeOnly])
    }
    const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : []
    if (!modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return []
    if (ts.isInterfaceDeclaration(statement)) return [[statement.name.text, true]]
    if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement))
      return statement.name ? [[statement.name.text, false]] : []
    if (!ts.isVariableStatement(statement)) return []
    return statement.declarationList.declarations.map(({ name }) => [name.getText(file), false])
  })
}
