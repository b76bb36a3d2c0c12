import { readFileSync, readdirSync } from 'node:fs'
import { join, relative, sep } from 'node:path'

/** A test that says which clauses it proves. */
export interface TaggedTest {
  /** Relative to the root, with forward slashes. */
  readonly file: string
  readonly clauses: readonly string[]
  readonly title: string
}

/** `test('SPEC 4.6.2: …'`, `t.test(`, `it(`; what is skipped or still to do proves nothing and is not read. */
const TAGGED =
  /\b(?:test|it)\(\s*(['"`])SPEC ((?:(?!\1)[^:\n])+): ((?:(?!\1)[^\\\n]|\\.)*)\1(?!\s*,\s*\{[^}]*\b(?:skip|todo)\b)/g

/** The tagged tests in the text of one file. */
export function taggedTests(file: string, text: string): TaggedTest[] {
  return [...text.matchAll(TAGGED)].map((match) => ({
    file,
    clauses: (match[2] ?? '').split(',').map((id) => id.trim()),
    title: match[3] ?? ''
  }))
}

/** The tagged tests of all test files below `root`. */
export function readTests(root: string): TaggedTest[] {
  return readdirSync(join(root, 'test'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.test.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .flatMap((path) => taggedTests(relative(root, path).split(sep).join('/'), readFileSync(path, 'utf8')))
}
