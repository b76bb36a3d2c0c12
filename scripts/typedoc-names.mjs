// A plugin of typedoc: entry points by the names that users import, types that no entry point exports in place, pages by
// their headings, in groups.
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { Context, Converter, ReflectionKind } from 'typedoc'
import { ENTRY_POINTS } from './entry-points.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

/** The group of each page, by its path below docs. The first that matches counts. */
const GROUPS = [
  [/^guide\/(getting-started|express|nestjs|embedding|migrating|which-tool|console)$/, 'Start'],
  [/^guide\/(production|redis-and-workers|postgres|operations|logging|writing-an-adapter)$/, 'Run'],
  [/^guide\/options$/, 'Look up'],
  [/^guide\//, 'Build'],
  [/^adr\//, 'Decisions'],
  [/(?:)/, 'Look up']
]

export function load(app) {
  app.converter.on(Converter.EVENT_BEGIN, ({ programs }) => showInPlace(programs))
  app.converter.on(Converter.EVENT_CREATE_DOCUMENT, (_context, page) => {
    const [, group] = GROUPS.find(([pattern]) => pattern.test(page.name))
    const title = /^# (.+)$/m.exec(page.content.map(({ text }) => text).join(''))?.[1]
    if (title !== undefined) page.name = title.replaceAll('`', '')
    page.frontmatter.group = group
  })
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const module of project.getReflectionsByKind(ReflectionKind.Module)) {
      module.name = module.name.replace(/^src$/, 'longhaul').replace(/^(?:(?:src|adapters)\/|(?=conformance$))/, 'longhaul/')
    }
  })
}

/**
 * Shows every type of ours that no entry point exports where it is used, such as the options of a function, as if it had
 * the tag `@inline`.
 */
function showInPlace(programs) {
  const exported = new Set(programs.flatMap((program) => {
    const checker = program.getTypeChecker()
    return Object.values(ENTRY_POINTS).flatMap((file) => {
      const source = program.getSourceFile(resolve(root, file))
      const module = source && checker.getSymbolAtLocation(source)
      return module ? checker.getExportsOfModule(module).map((each) => target(each, checker)) : []
    })
  }))
  const shouldInline = Context.prototype.shouldInline
  Context.prototype.shouldInline = function (symbol, name) {
    const type = target(symbol, this.checker)
    const [declaration] = type.declarations ?? []
    const isHidden = declaration && hasShape(declaration) && !exported.has(type) && declaration.getSourceFile().fileName.startsWith(`${root}/`)
      && !declaration.getSourceFile().fileName.includes('node_modules')
    return isHidden || shouldInline.call(this, symbol, name)
  }
}

const { SyntaxKind } = ts
const SHAPES = [
  SyntaxKind.TypeLiteral, SyntaxKind.UnionType, SyntaxKind.IntersectionType, SyntaxKind.TypeReference, SyntaxKind.FunctionType,
  SyntaxKind.ArrayType, SyntaxKind.TupleType
]

/** Returns false for what typedoc cannot show in place, such as a conditional type. */
function hasShape(declaration) {
  return ts.isInterfaceDeclaration(declaration) || ts.isTypeAliasDeclaration(declaration) && SHAPES.includes(declaration.type.kind)
}

function target(symbol, checker) {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
}
