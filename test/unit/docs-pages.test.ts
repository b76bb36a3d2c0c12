import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'

const root = join(import.meta.dirname, '..', '..')

/** Paths that are not in a fresh clone, because a command writes them. */
const GENERATED = ['docs/api', 'docs/spec-map.md', 'coverage', 'dist']
const isGenerated = (path: string) => GENERATED.some((name) => path === name || path.startsWith(`${name}/`))

/** Returns the files and folders below a folder, without those of packages. */
function below(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (entry.name === 'node_modules' || entry.name === '.git' || isGenerated(path)) return []
    return entry.isDirectory() ? [path, ...below(path)] : [path]
  })
}

const paths = below('')
const folders = new Set(paths.filter((path) => path.includes('/')).map((path) => path.split('/', 1)[0]))
const known = new Set(paths)
const pages = paths.filter((path) => path.endsWith('.md')).sort()

/** Returns the paths that the code and the links of a page name, and that do not exist. */
function deadPaths(page: string, text: string): string[] {
  const links = [...text.matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)]
    .map(([, target = '']) => join(dirname(page), target))
  // Code blocks are for applications, whose own files may have any name.
  const blocks = [...text.matchAll(/^ *```[^]*?^ *```$/gm)].flatMap(([block]) => words(block).filter(isPath))
  const spans = [...text.replaceAll(/^ *```[^]*?^ *```$/gm, '').matchAll(/`[^`\n]+`/g)]
    .flatMap(([span]) => words(span).filter((word) => isPath(word) || isFile(word)))
  // Files that the page itself shows.
  const shown = new Set([...text.matchAll(/^\/\/ (\S+\.[cm]?[jt]s)$/gm)].map(([, name = '']) => name))
  const code = [...spans, ...blocks].filter((path) => !shown.has(path))
  return [...links, ...code].filter((path) => !exists(path.replace(/\/$/, '')))
}

const words = (text: string) => text.split(/[\s`'"(),;:]+/)
/** A path from the top of the repository. */
const isPath = (word: string) => word.includes('/') && folders.has(word.split('/', 1)[0])
/** The end of a path, such as `task.ts` or `engine/task.ts`. */
const isFile = (word: string) => /^[\w.<>*…/-]+\.(?:[cm]?[jt]s|lua|md|svg|png)$/.test(word)

function exists(path: string): boolean {
  if (known.has(path) || isGenerated(path)) return true
  const parts = path.split(/<\w+>|\*+|…/).map((part) => part.replaceAll(/[.+?^$()[\]{}|\\]/g, '\\$&'))
  const pattern = new RegExp(`${path.startsWith('.') ? '' : '(?:^|/)'}${parts.join('.+')}$`)
  return paths.some((other) => pattern.test(other))
}

describe('the paths that a page names', () => {
  for (const page of pages) {
    test(`exist for ${page}`, () => {
      assert.deepEqual(deadPaths(page, readFileSync(join(root, page), 'utf8')), [])
    })
  }

  test('are reported if they are dead', () => {
    const text = [
      'See `src/gone.ts`, `gone/engine.ts`, [this](gone.md) and [that](guide/tasks.md#top).', '```sh',
      'node scripts/gone.mjs src/engine/task.ts', '```', 'Also `engine/task.ts`, `docs/api` and `test/**/*.test.ts`.',
    ].join('\n')
    assert.deepEqual(deadPaths('docs/page.md', text), [
      'docs/gone.md', 'src/gone.ts', 'gone/engine.ts', 'scripts/gone.mjs',
    ])
  })
})

describe('the decisions', () => {
  const folder = 'docs/adr'
  const names = readdirSync(join(root, folder)).filter((name) => /^\d/.test(name))
  const read = (name: string) => readFileSync(join(root, folder, name), 'utf8')
  const wordsOf = (page: string) => (
    page.replaceAll(/^```[^]*?^```$/gm, '').replaceAll(/\]\([^)]*\)/g, ']').trim().split(/\s+/).length
  )

  for (const name of names) {
    test(`have at most 200 words in ${name}`, () => {
      assert.ok(wordsOf(read(name)) <= 200, `it has ${wordsOf(read(name))}`)
    })
  }

  test('are listed in the table with number and title', () => {
    const rows = [...read('README.md').matchAll(/^\| (\d+) \| \[(.+)\]\((\d.+\.md)\) \|$/gm)]
    assert.deepEqual(
      rows.map(([, number, title, name]) => [name, `# ${number}. ${title}`]),
      names.map((name) => [name, read(name).split('\n')[0]]),
    )
  })
})
