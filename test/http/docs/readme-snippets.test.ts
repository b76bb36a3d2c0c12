import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import ts from 'typescript'
import { blocks } from '../kit/doc-page.js'
import { root } from '../kit/process.js'

const pages = ['README.md', ...readdirSync(join(root, 'docs/guide')).map((name) => `docs/guide/${name}`)]

/** The snippets as files beside the examples, in memory only. A first line `// name.ts` names one for the others. */
const folder = join(root, 'examples', 'snippets')
const snippets = new Map(pages.flatMap((page) => blocks(readFileSync(join(root, page), 'utf8'), 'ts').map((text, at) => {
  const name = /^\/\/ (\S+\.ts)\n/.exec(text)?.[1] ?? `${page.replaceAll(/[/.]/g, '-')}-${at + 1}.ts`
  return [join(folder, name), text] as const
})))

test('every snippet of the pages compiles under the strict settings of this repository', () => {
  assert.ok(snippets.size >= 8, `${snippets.size} snippets`)
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path))
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: ['src/index.ts'] }, ts.sys, root)
  const host = ts.createCompilerHost(options)
  const { fileExists, readFile } = host
  host.directoryExists = (path) => path === folder || ts.sys.directoryExists(path)
  host.fileExists = (path) => snippets.has(path) || fileExists(path)
  host.readFile = (path) => snippets.get(path) ?? readFile(path)
  const getSourceFile = host.getSourceFile.bind(host)
  host.getSourceFile = (path, languageVersion, ...rest) => {
    const text = snippets.get(path)
    return text === undefined ? getSourceFile(path, languageVersion, ...rest) : ts.createSourceFile(path, text, languageVersion)
  }
  const program = ts.createProgram([...snippets.keys()], options, host)
  const problems = [...snippets.keys()].flatMap((path) => {
    const file = program.getSourceFile(path)
    return file ? [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)] : []
  })
  assert.deepEqual(problems.map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`), [])
})
