import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { compile } from '../kit/compile.js'
import { blocks } from '../kit/doc-page.js'
import { docstringExamples } from '../kit/docstring-examples.js'
import { root } from '../kit/process.js'

const pages = ['README.md', ...readdirSync(join(root, 'docs/guide')).map((name) => `docs/guide/${name}`)]

/** The snippets of the pages. A first line `// name.ts` names one for the others. */
const snippets = new Map(pages.flatMap((page) => blocks(readFileSync(join(root, page), 'utf8'), 'ts').map((text, at) => {
  const name = /^\/\/ (\S+\.ts)\n/.exec(text)?.[1] ?? `${page.replaceAll(/[/.]/g, '-')}-${at + 1}.ts`
  return [name, text] as const
})))
const examples = docstringExamples()

describe('code of the documentation compiles under the strict settings of this repository', () => {
  const problems = compile(new Map([...snippets, ...examples]))
  const of = (modules: ReadonlyMap<string, string>) => Object.fromEntries(Object.entries(problems).filter(([name]) => modules.has(name)))

  test('every snippet of README.md and of the guide', () => {
    assert.ok(snippets.size >= 8, `${snippets.size} snippets`)
    assert.deepEqual(of(snippets), {})
  })

  test('every @example of a docstring', () => {
    assert.ok(examples.size >= 8, `${examples.size} examples`)
    assert.deepEqual(of(examples), {})
  })
})
