import { readFileSync, readdirSync } from 'node:fs'
import { join, posix, relative, sep } from 'node:path'

/** `RFC 9110 section 13.1.1`, `RFC 7240 4.3`, `RFC 9110's 12.5.1`, `RFC 6901`, also over a line's end. */
const CITED = /\bRFC (\d{4})(?:(?:'s)?[,\s]*(?:\*\s*)?(?:\/\/\s*)?(?:sections?\s+)?(\d{1,2}(?:\.\d+)*)(?!\d))?/g

/** What one text cites: `9110 13.1.1`, or `6901` alone. */
export function cited(text: string): string[] {
  return [
    ...new Set(
      [...text.matchAll(CITED)].map(([, rfc = '', section]) =>
        section === undefined ? `RFC ${rfc}` : `RFC ${rfc} section ${section}`,
      ),
    ),
  ]
}

function filesBelow(root: string, folder: string, end: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(end))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort()
}

/** Which files of `src` and `adapters` cite which rule. */
export function readRules(root: string): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const file of [...filesBelow(root, 'src', '.ts'), ...filesBelow(root, 'adapters', '.ts')]) {
    for (const rule of cited(readFileSync(join(root, file), 'utf8'))) found.set(rule, [...found.get(rule) ?? [], file])
  }
  return found
}

/** Imports by file: of the tests, of `src` and of `adapters`. */
function importGraph(root: string): Map<string, string[]> {
  const files = ['src', 'adapters', 'conformance', 'test'].flatMap((folder) => filesBelow(root, folder, '.ts'))
  const target = (file: string, specifier: string): string[] => {
    if (specifier === 'longhaul') return ['src/index.ts']
    if (specifier.startsWith('longhaul/')) return [`adapters/${specifier.slice('longhaul/'.length)}/index.ts`]
    return specifier.startsWith('.') ? [posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts')] : []
  }
  return new Map(files.map((file) => {
    const text = readFileSync(join(root, file), 'utf8')
    return [file, [...text.matchAll(/\bfrom '([^']+)'/g)].flatMap(([, specifier = '']) => target(file, specifier))]
  }))
}

/** Finds the tests of a module: those that import it, or else those that import what imports it, and so on. */
export function testsOf(root: string): (module: string) => string[] {
  const importers = new Map<string, string[]>()
  for (const [file, imports] of importGraph(root))
    for (const each of imports) importers.set(each, [...(importers.get(each) ?? []), file])
  return (module) => {
    const seen = new Set([module])
    for (let level = [module]; level.length > 0;) {
      // The package's index is imported for all kinds of reasons.
      level = level
        .flatMap((each) => importers.get(each) ?? [])
        .filter((each) => each !== 'src/index.ts' && !seen.has(each))
      for (const each of level) seen.add(each)
      const tests = [...new Set(level)].filter((each) => each.endsWith('.test.ts'))
      if (tests.length > 0) return tests.sort()
    }
    return []
  }
}
