// Compares the default of each option in its table with the `Default …` sentence of its docstring.
import ts from 'typescript'
import { defaultOf } from './options-reference.mjs'
import { publicOptions } from './public-options.mjs'

const { SyntaxKind } = ts

/** Units in docstrings, in bytes or milliseconds. */
const UNITS = new Map([
  ['KiB', 2 ** 10], ['MiB', 2 ** 20], ['GiB', 2 ** 30], ['ms', 1], ['s', 1000],
  ['second', 1000], ['minute', 60_000], ['hour', 3_600_000], ['day', 86_400_000], ['week', 604_800_000],
])

/**
 * Lists the options whose docstring and table have other defaults, as `file: option: what differs`. Leaves out defaults
 * that only a run can compute.
 */
export function differentDefaults() {
  const { checker, program } = publicOptions()
  const found = []
  for (const source of program.getSourceFiles()) {
    if (!/\/(src|adapters|conformance)\//.test(source.fileName) || source.fileName.includes('node_modules')) continue
    const visit = (node) => {
      if (ts.isSatisfiesExpression(node) && /^OptionTable</.test(node.type.getText(source))) found.push(...faultsOf(node, checker))
      ts.forEachChild(node, visit)
    }
    visit(source)
  }
  return found
}

function faultsOf({ expression, type }, checker) {
  if (!ts.isObjectLiteralExpression(expression)) return []
  const options = checker.getTypeFromTypeNode(type.typeArguments[0])
  return expression.properties.flatMap((property) => {
    if (!ts.isPropertyAssignment(property)) return []
    const name = property.name.getText()
    const option = options.getProperty(name)
    const value = defaultIn(property.initializer, checker)
    if (!option || value === undefined) return []
    const said = defaultOf(option, checker)
    if (agrees(said, value)) return []
    const file = property.getSourceFile().fileName.replace(/^.*\/(?=(?:src|adapters|conformance)\/)/, '')
    return [`${file}: ${name}: the table has ${String(value)}, the docstring has ${said === '' ? 'no default' : `"${said}"`}`]
  })
}

/** Returns the value of `default` in a call such as `whole({ default: 3 })`; `undefined` if there is none, or a run computes it. */
function defaultIn(node, checker) {
  if (ts.isIdentifier(node)) {
    const initializer = constant(node, checker)
    return initializer && defaultIn(initializer, checker)
  }
  if (!ts.isCallExpression(node)) return undefined
  const [extra] = node.arguments.filter(ts.isObjectLiteralExpression).slice(-1)
  const property = extra?.properties.find((each) => each.name?.getText() === 'default')
  return property && ts.isPropertyAssignment(property) ? evaluate(property.initializer, checker) : undefined
}

/** Computes a constant expression; `undefined` for others. */
function evaluate(node, checker) {
  if (ts.isAsExpression(node) || ts.isParenthesizedExpression(node)) return evaluate(node.expression, checker)
  if (ts.isStringLiteralLike(node)) return node.text
  if (ts.isNumericLiteral(node)) return Number(node.text)
  if (node.kind === SyntaxKind.TrueKeyword || node.kind === SyntaxKind.FalseKeyword) return node.kind === SyntaxKind.TrueKeyword
  if (ts.isIdentifier(node)) {
    if (node.text === 'Infinity') return Infinity
    const initializer = constant(node, checker)
    return initializer && evaluate(initializer, checker)
  }
  if (!ts.isBinaryExpression(node)) return undefined
  const [left, right] = [evaluate(node.left, checker), evaluate(node.right, checker)]
  if (typeof left !== 'number' || typeof right !== 'number') return undefined
  switch (node.operatorToken.kind) {
    case SyntaxKind.AsteriskToken: return left * right
    case SyntaxKind.AsteriskAsteriskToken: return left ** right
    case SyntaxKind.PlusToken: return left + right
    case SyntaxKind.MinusToken: return left - right
    case SyntaxKind.SlashToken: return left / right
    default: return undefined
  }
}

/** Returns the initializer of the constant that a name stands for. */
function constant(node, checker) {
  let symbol = checker.getSymbolAtLocation(node)
  if (symbol && symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol)
  const declaration = symbol?.valueDeclaration
  return declaration && ts.isVariableDeclaration(declaration) ? declaration.initializer : undefined
}

/** Returns true if the text of a docstring says this default. */
export function agrees(said, value) {
  if (value === Infinity) return /\b(?:none|no limit|unlimited|Infinity)\b/.test(said)
  if (typeof value === 'string') return said.includes(`'${value}'`) || said.includes(`\`${value}\``)
  if (typeof value === 'boolean') return /\b(?:true|false)\b/.exec(said)?.[0] === String(value)
  const [, digits = '', unit = ''] = /^`?(an?\b|one\b|\d[\d ,_]*(?:\.\d+)?|2\*\*\d+)`? ?([A-Za-z]*)/.exec(said) ?? []
  const count = /^[ao]/.test(digits) ? 1 : Number(digits.replaceAll(/[ ,_]/g, ''))
  const factor = UNITS.get(unit) ?? UNITS.get(unit.replace(/s$/, '')) ?? 1
  return digits !== '' && count * factor === value
}
