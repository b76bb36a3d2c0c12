import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { ENTRY_POINTS } from '../../../scripts/entry-points.mjs'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * Lists every public function and method that takes options, such as `longhaul: rateLimit` or
 * `longhaul/client: TaskHandle#result`. It starts at what the entry points export, and follows what these functions return.
 * A parameter holds options if it is named so, is taken apart in the signature, or has a type named `…Options` or without a name.
 */
export function functionsWithOptions(): string[] {
  const entries = Object.entries(ENTRY_POINTS).map(([name, source]) => [name === 'index' ? 'longhaul' : `longhaul/${name}`, `${root}${source}`])
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile) as { config: unknown }
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const program = ts.createProgram(entries.map(([, file]) => file as string), { ...options, noEmit: true })
  const checker = program.getTypeChecker()
  const found = new Set<string>()
  for (const [entry, file] of entries as [string, string][]) {
    const source = program.getSourceFile(file) as ts.SourceFile
    const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(source) as ts.Symbol)
    new Walk(checker, source, (name) => found.add(`${entry}: ${name}`)).exports(exported)
  }
  return [...found].sort()
}

class Walk {
  private readonly seen = new Set<ts.Symbol>()

  constructor(private readonly checker: ts.TypeChecker, private readonly at: ts.Node, private readonly tell: (name: string) => void) {}

  exports(symbols: readonly ts.Symbol[]): void {
    for (const each of symbols) {
      const symbol = each.flags & ts.SymbolFlags.Alias ? this.checker.getAliasedSymbol(each) : each
      if (symbol.flags & ts.SymbolFlags.Value) this.callable(each.name, this.checker.getTypeOfSymbolAtLocation(symbol, this.at))
    }
  }

  private callable(name: string, type: ts.Type): void {
    for (const signature of [...type.getCallSignatures(), ...type.getConstructSignatures()]) {
      if (signature.parameters.some((parameter) => this.isOptions(parameter))) this.tell(name)
      this.members(signature.getReturnType())
    }
  }

  /** The methods of what a function returns, where it is a type of the package. */
  private members(type: ts.Type): void {
    if (type.isUnionOrIntersection()) {
      for (const part of type.types) this.members(part)
      return
    }
    const symbol = type.aliasSymbol ?? type.symbol
    if (symbol?.name === 'Promise') return this.checker.getTypeArguments(type as ts.TypeReference).forEach((inner) => { this.members(inner) })
    const [declaration] = symbol?.declarations ?? []
    if (!symbol || !declaration || this.seen.has(symbol) || !isOurs(declaration) || symbol.name.startsWith('__')) return
    this.seen.add(symbol)
    if (type.getCallSignatures().length > 0) this.callable(`what ${symbol.name} is`, type)
    for (const member of this.checker.getPropertiesOfType(type)) {
      if (isHidden(member)) continue
      const own = this.checker.getNonNullableType(this.checker.getTypeOfSymbolAtLocation(member, this.at))
      this.callable(`${symbol.name}#${member.name}`, own)
      if (own.getCallSignatures().length === 0) this.members(own)
    }
  }

  private isOptions(parameter: ts.Symbol): boolean {
    const type = this.checker.getNonNullableType(this.checker.getTypeOfSymbolAtLocation(parameter, this.at))
    if (type.getCallSignatures().length > 0) return false
    const name = (type.aliasSymbol ?? type.symbol)?.name ?? ''
    return /^(options|__\d+)$/.test(parameter.name) || /Options$/.test(name) || (name === '__type' && type.getProperties().length > 0)
  }
}

function isOurs(declaration: ts.Declaration): boolean {
  const { fileName } = declaration.getSourceFile()
  return !fileName.includes('node_modules') && /\/(src|adapters)\//.test(fileName)
}

function isHidden(member: ts.Symbol): boolean {
  const [declaration] = member.declarations ?? []
  if (declaration === undefined || member.name.startsWith('__') || member.name.startsWith('#')) return true
  return (ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Private) !== 0
}
