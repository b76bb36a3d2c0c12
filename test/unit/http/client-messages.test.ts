// Texts that clients can get: what the sources pass as messages of errors and of their details.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, test } from 'node:test'
import ts from 'typescript'
import { ERROR_CODES } from '../../../src/http/errors.js'

const root = resolve(import.meta.dirname, '../../..')
/** Functions that make an error for clients of a text, beside `httpError` and `HttpError`. */
const MAKERS = /^(?:httpError|HttpError|invalid|invalidInput|fault|forbidden|notFound|tooLarge|refuse|malformed)$/
/** A call, an object of options, a variable of the environment, a file, or a name in camel case. */
const CODE = /\w\(|\(\{|=>|\b[A-Z]+_[A-Z_]+\b|\.(?:ts|js|md|json)\b|\b(?!jsonpath)[a-z]+[A-Z][A-Za-z]*\b|\blonghaul\b/

/** Returns the texts of one file that reach clients, with `…` for what is inserted. */
function textsOf(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true)
  const texts: string[] = []
  const constants = new Map<string, ts.Expression>()
  const declare = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && node.initializer && ts.isIdentifier(node.name))
      constants.set(node.name.text, node.initializer)
    node.forEachChild(declare)
  }
  declare(source)
  const textOf = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node)) texts.push(node.text)
    else if (ts.isIdentifier(node)) {
      const value = constants.get(node.text)
      constants.delete(node.text)
      if (value) textOf(value)
    } else if (ts.isTemplateExpression(node)) {
      texts.push([node.head, ...node.templateSpans.map(({ literal }) => literal)].map(({ text }) => text).join('…'))
      for (const { expression } of node.templateSpans) textOf(expression)
    } else if (ts.isConditionalExpression(node)) {
      textOf(node.whenTrue)
      textOf(node.whenFalse)
    } else if (ts.isBinaryExpression(node) || ts.isParenthesizedExpression(node)) node.forEachChild(textOf)
  }
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAssignment(node) && node.name.getText() === 'cause') return
    if (ts.isPropertyAssignment(node) && node.name.getText() === 'message') textOf(node.initializer)
    if (ts.isShorthandPropertyAssignment(node) && node.name.text === 'message') textOf(node.name)
    if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
      const name = node.expression.getText().split('.').at(-1) ?? ''
      if (/(?:Type|Range|Config|)Error$/.test(name) && !MAKERS.test(name)) return
      if (MAKERS.test(name)) node.arguments?.forEach(textOf)
    }
    node.forEachChild(visit)
  }
  visit(source)
  return texts
}

function filesOf(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
}

/** Texts for whoever writes a program with longhaul, and not for clients of its server. */
const FOR_PROGRAMS =
  /src\/(?:client|testing)\/|tasks-options|schema\/json-schema|define\.ts|export-parts|json-array\/array-envelope/

describe('a text for clients', () => {
  test('in the table of codes names no code, option, file or variable', () => {
    for (const [code, [, message]] of Object.entries(ERROR_CODES)) assert.doesNotMatch(message, CODE, code)
  })

  for (const folder of ['src', 'adapters', 'examples/reference-server']) {
    test(`in ${folder} names no code, option, file or variable`, () => {
      const texts = filesOf(folder)
        .filter((file) => !FOR_PROGRAMS.test(file))
        .flatMap((file) => textsOf(file).map((text) => `${file.slice(root.length)}: ${text}`))
      assert.ok(texts.length > 5)
      assert.deepEqual(texts.filter((text) => CODE.test(text.slice(text.indexOf(': ')))), [])
    })
  }
})
