import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { compile } from '../kit/compile.js'
import { blocks } from '../kit/doc-page.js'
import { docstringExamples } from '../kit/docstring-examples.js'
import { pasted } from '../kit/pasted.js'
import { root } from '../kit/process.js'

const pages = ['README.md', ...readdirSync(join(root, 'docs/guide')).map((name) => `docs/guide/${name}`)]

/**
 * The modules of a page: the files that one gets by pasting its blocks, after each block, and the
 * blocks without a name.
 * Each state of the files has its own folder.
 */
function modulesOf(page: string): [string, string][] {
  const text = readFileSync(join(root, page), 'utf8')
  const folder = page.replaceAll(/[/.]/g, '-')
  const files = pasted(text).flatMap((state, at) =>
    [...state]
      .filter(([name]) => name.endsWith('.ts'))
      .map(([name, code]): [string, string] => [`${folder}-${at + 1}/${name}`, code]),
  )
  const last = `${folder}-${pasted(text).length}`
  const unnamed = blocks(text, 'ts').filter((code) => !/^\/\/ \S+\.ts\n/.test(code))
  return [...files, ...unnamed.map((code, at): [string, string] => [`${last}/unnamed-${at + 1}.ts`, code])]
}

const snippets = new Map(pages.flatMap(modulesOf))
const examples = docstringExamples()

describe('code of the documentation compiles under the strict settings of this repository', () => {
  const problems = compile(new Map([...snippets, ...examples]))
  const of = (modules: ReadonlyMap<string, string>) =>
    Object.fromEntries(Object.entries(problems).filter(([name]) => modules.has(name)))

  test('every snippet of README.md and of the guide', () => {
    assert.ok(snippets.size >= 8, `${snippets.size} snippets`)
    assert.deepEqual(of(snippets), {})
  })

  test('every @example of a docstring', () => {
    assert.ok(examples.size >= 8, `${examples.size} examples`)
    assert.deepEqual(of(examples), {})
  })
})
