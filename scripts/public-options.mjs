// Finds every public function and method that takes options, starting at what the entry points export.
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { ENTRY_POINTS } from './entry-points.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

/**
 * @typedef {object} WithOptions
 * @property {string} entry The entry point: `longhaul`, `longhaul/client`.
 * @property {string} name The function, or the method as `TaskHandle#result`.
 * @property {ts.Type} type The type of its options.
 */

/**
 * Lists every public function and method that takes options, in the order of the entry points and of their
 * exports. Follows the types that these functions return. A parameter holds options if it is named
 * so, is destructured in the signature, or has a type named `…Options` or without a name.
 *
 * @returns {{ found: WithOptions[], checker: ts.TypeChecker, program: ts.Program }}
 */
export function publicOptions() {
  return made ??= find()
}

/** Counts the names that the entry points export: all of them, and different ones. */
export function countNames() {
  const { checker, program } = publicOptions()
  const names = Object.values(ENTRY_POINTS).flatMap((file) => {
    const source = program.getSourceFile(resolve(root, file))
    const module = source && checker.getSymbolAtLocation(source)
    return module ? checker.getExportsOfModule(module).map((each) => each.name) : []
  })
  return { all: names.length, different: new Set(names).size, entries: Object.keys(ENTRY_POINTS).length }
}

/** @type {{ found: WithOptions[], checker: ts.TypeChecker, program: ts.Program } | undefined} */
let made

function find() {
  const entries = Object.entries(ENTRY_POINTS)
  const { config } = ts.readConfigFile(resolve(root, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const files = entries.map(([, file]) => resolve(root, file))
  const program = ts.createProgram(files, { ...options, noEmit: true })
  const checker = program.getTypeChecker()
  /** @type {Map<string, WithOptions>} */
  const found = new Map()
  for (const [at, [name]] of entries.entries()) {
    const entry = name === 'index' ? 'longhaul' : `longhaul/${name}`
    const source = program.getSourceFile(files[at] ?? '')
    const module = source && checker.getSymbolAtLocation(source)
    if (!module) throw new Error(`${entry} exports nothing`)
    const walk = new Walk(checker, source, (name, type) => {
      if (!found.has(`${entry}: ${name}`)) found.set(`${entry}: ${name}`, { entry, name, type })
    })
    walk.exports(checker.getExportsOfModule(module))
  }
  return { found: [...found.values()], checker, program }
}

/** Goes through the functions that a module exports, and the methods of the types that they return. */
class Walk {
  #checker
  #at
  #add
  #seen = new Set()

  /**
   * @param {ts.TypeChecker} checker
   * @param {ts.Node} at
   * @param {(name: string, type: ts.Type) => void} add
   */
  constructor(checker, at, add) {
    this.#checker = checker
    this.#at = at
    this.#add = add
  }

  /** @param {readonly ts.Symbol[]} symbols */
  exports(symbols) {
    for (const each of symbols) {
      if (each.declarations?.some(ts.isTypeOnlyImportOrExportDeclaration)) continue
      const symbol = each.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(each) : each
      if (symbol.flags & ts.SymbolFlags.Value) this.#callable(each.name, this.#typeOf(symbol))
    }
  }

  /** @param {ts.Symbol} symbol */
  #typeOf(symbol) {
    return this.#checker.getTypeOfSymbolAtLocation(symbol, this.#at)
  }

  /**
   * @param {string} name
   * @param {ts.Type} type
   */
  #callable(name, type) {
    const signatures = [...type.getCallSignatures(), ...type.getConstructSignatures()]
    // The first one counts: an overload without required options comes first.
    for (const signature of signatures.sort((a, b) => Number(mayOmit(b)) - Number(mayOmit(a)))) {
      for (const parameter of signature.parameters) {
        const options = this.#optionsOf(parameter)
        if (options) this.#add(name, options)
      }
      this.#members(signature.getReturnType())
    }
  }

  /**
  * Reads the methods of the type that a function returns, if it is a type of the package.
   * @param {ts.Type} type
   */
  #members(type) {
    if (type.isUnionOrIntersection()) {
      for (const part of type.types) this.#members(part)
      return
    }
    if (type.flags & ts.TypeFlags.TypeParameter) return
    const symbol = type.aliasSymbol ?? type.symbol
    if (symbol?.name === 'Promise') {
      for (const inner of this.#checker.getTypeArguments(/** @type {ts.TypeReference} */ (type))) this.#members(inner)
      return
    }
    const [declaration] = symbol?.declarations ?? []
    if (!symbol || !declaration || this.#seen.has(symbol) || !isOurs(declaration) || symbol.name.startsWith('__')) return
    this.#seen.add(symbol)
    if (type.getCallSignatures().length > 0) this.#callable(`what ${symbol.name} is`, type)
    for (const member of this.#checker.getPropertiesOfType(type)) {
      if (isHidden(member)) continue
      const own = this.#checker.getNonNullableType(this.#typeOf(member))
      this.#callable(`${symbol.name}#${member.name}`, own)
      if (own.getCallSignatures().length === 0) this.#members(own)
    }
  }

  /** @param {ts.Symbol} parameter */
  #optionsOf(parameter) {
    const rest = restParameter(parameter)
    if (rest) return this.#restOptionsOf(rest)
    const type = this.#checker.getNonNullableType(this.#typeOf(parameter))
    if (type.getCallSignatures().length > 0) return undefined
    const name = (type.aliasSymbol ?? type.symbol)?.name ?? ''
    const named = /^(options|__\d+)$/.test(parameter.name) || /Options$/.test(name)
    return named || (name === '__type' && type.getProperties().length > 0) ? type : undefined
  }

  /**
   * Returns the options in the type of a rest parameter. They are an argument of that type, as in
   * `...options: SubmitArguments<T, SubmitOptions>`, or its declaration names them.
   * @param {ts.ParameterDeclaration} parameter
   */
  #restOptionsOf({ type }) {
    if (!type || !ts.isTypeReferenceNode(type)) return undefined
    const [declaration] = this.#checker.getSymbolAtLocation(type.typeName)?.declarations ?? []
    const declared = declaration && this.#declarationOf(declaration)
    return [type, ...declared ? [declared] : []].flatMap(typeReferences)
      .map((each) => this.#checker.getTypeFromTypeNode(each))
      .find((each) => /Options$/.test((each.aliasSymbol ?? each.symbol)?.name ?? ''))
  }

  /**
   * Returns the declaration of a type that may be imported.
   * @param {ts.Declaration} declaration
   */
  #declarationOf(declaration) {
    if (!ts.isImportSpecifier(declaration)) return declaration
    const symbol = this.#checker.getSymbolAtLocation(declaration.name)
    return symbol && this.#checker.getAliasedSymbol(symbol).declarations?.[0]
  }
}

/**
 * Returns the declaration of a rest parameter, `undefined` for other parameters.
 * @param {ts.Symbol} parameter
 */
function restParameter({ valueDeclaration }) {
  if (!valueDeclaration || !ts.isParameter(valueDeclaration)) return undefined
  return valueDeclaration.dotDotDotToken && valueDeclaration
}

/**
 * Lists the references to types in a node, the node itself included.
 * @param {ts.Node} node
 * @returns {ts.TypeReferenceNode[]}
 */
function typeReferences(node) {
  /** @type {ts.TypeReferenceNode[]} */
  const found = ts.isTypeReferenceNode(node) ? [node] : []
  node.forEachChild((child) => { found.push(...typeReferences(child)) })
  return found
}

/** @param {ts.Declaration} declaration */
function isOurs(declaration) {
  const { fileName } = declaration.getSourceFile()
  return !fileName.includes('node_modules') && /\/(src|adapters|conformance)\//.test(fileName)
}

/** @param {ts.Symbol} member */
function isHidden(member) {
  const [declaration] = member.declarations ?? []
  if (declaration === undefined || member.name.startsWith('__') || member.name.startsWith('#')) return true
  if (ts.getJSDocTags(declaration).some(({ tagName }) => tagName.text === 'internal')) return true
  return (ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Private) !== 0
}

/**
 * Returns true if callers may leave out the last argument.
 * @param {ts.Signature} signature
 */
function mayOmit(signature) {
  const declaration = signature.parameters.at(-1)?.valueDeclaration
  return declaration !== undefined && ts.isParameter(declaration) && declaration.questionToken !== undefined
}
