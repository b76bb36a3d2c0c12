// The changes of the mutation check. Each is made on the syntax tree, so that the result is a valid program.
import ts from 'typescript'

const { SyntaxKind } = ts
const OPERATORS = new Map([
  [SyntaxKind.EqualsEqualsEqualsToken, '!=='], [SyntaxKind.ExclamationEqualsEqualsToken, '==='],
  [SyntaxKind.LessThanToken, '<='], [SyntaxKind.LessThanEqualsToken, '<'], [SyntaxKind.GreaterThanToken, '>='], [SyntaxKind.GreaterThanEqualsToken, '>'],
  [SyntaxKind.AmpersandAmpersandToken, '||'], [SyntaxKind.BarBarToken, '&&'],
  [SyntaxKind.PlusToken, '-'], [SyntaxKind.MinusToken, '+'], [SyntaxKind.AsteriskToken, '/'], [SyntaxKind.SlashToken, '*'],
])

/** All mutations of a text: `{ from, to, put, what, line, within }`; `within` is the function, as V8 names it. */
export function mutationsOf(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2023, true)
  const found = []
  const add = (node, put, what) => {
    const from = node.getStart(source)
    found.push({ file, from, to: node.getEnd(), put, what, line: source.getLineAndCharacterOfPosition(from).line + 1, within: nameAround(node) })
  }
  const negated = (node, what) => { add(node, `!(${node.getText(source)})`, what) }

  const visit = (node) => {
    // Types do not exist at run time, and tests do not check messages.
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node)) return
    if (ts.isTypeAliasDeclaration(node) || ts.isThrowStatement(node)) return
    if (ts.isBinaryExpression(node)) {
      const put = OPERATORS.get(node.operatorToken.kind)
      // A sum of texts would become NaN, which any test notices.
      if (put !== undefined && !isText(node.left) && !isText(node.right)) add(node.operatorToken, put, `${node.operatorToken.getText(source)} becomes ${put}`)
      if (node.operatorToken.kind === SyntaxKind.QuestionQuestionToken) add(node, node.left.getText(source), 'the default goes')
    }
    if (ts.isIfStatement(node)) negated(node.expression, 'the condition is turned round')
    if (ts.isConditionalExpression(node)) negated(node.condition, 'the choice is turned round')
    if (ts.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken) add(node, node.operand.getText(source), 'the ! goes')
    if (ts.isNumericLiteral(node) && !ts.isPropertyAssignment(node.parent)) add(node, `(${node.getText(source)} + 1)`, 'one more')
    if (node.kind === SyntaxKind.TrueKeyword) add(node, 'false', 'true becomes false')
    if (node.kind === SyntaxKind.FalseKeyword) add(node, 'true', 'false becomes true')
    if (ts.isReturnStatement(node) && node.expression !== undefined && !['true', 'false', 'undefined'].includes(node.expression.getText(source))) {
      add(node.expression, 'undefined', 'returns nothing')
    }
    if (ts.isExpressionStatement(node) && node.expression.kind !== SyntaxKind.SuperKeyword && !node.getText(source).startsWith('super')) add(node, ';', 'the statement goes')
    if (ts.isBreakStatement(node) || ts.isContinueStatement(node)) add(node, ';', `${node.getText(source)} goes`)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

function isText(node) {
  return ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)
}

/**
 * Returns the closest named function around a node, as V8 knows it. `undefined` at the top of a file. Arrow functions have no
 * name after tsx has compiled them.
 */
function nameAround(node) {
  for (let at = node.parent; at !== undefined; at = at.parent) {
    if (ts.isConstructorDeclaration(at)) return at.parent.name?.text
    const isMethod = ts.isFunctionDeclaration(at) || ts.isMethodDeclaration(at)
    if (!isMethod && !ts.isAccessor(at)) continue
    // V8 does not know a computed name when it compiles.
    if (at.name === undefined || ts.isComputedPropertyName(at.name)) return undefined
    return isMethod ? at.name.getText() : `${ts.isGetAccessor(at) ? 'get' : 'set'} ${at.name.getText()}`
  }
  return undefined
}
