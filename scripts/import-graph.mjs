// The files of src, adapters and conformance and what each imports: read by the lint rule and by scripts/structure.mjs.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const IMPORT = /^(?:import|export)\s(?:[^'";]*?\sfrom\s+)?'(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm

/**
 * Reads what each file of `src`, `adapters` and `conformance` imports of the others.
 * @returns {Map<string, string[]>} paths from the root, with forward slashes
 */
export function readImports() {
  const files = ['src', 'adapters', 'conformance'].flatMap((area) => readdirSync(join(root, area), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/')))
  return new Map(files.sort().map((file) => {
    const text = readFileSync(join(root, file), 'utf8')
    const found = [...text.matchAll(IMPORT)].map((match) => match[1] ?? match[2])
    return [file, [...new Set(found.map((specifier) => posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts')))]]
  }))
}

/**
 * Finds the groups of files that import each other, directly or through others (Tarjan's strongly connected components).
 * @param {Map<string, string[]>} imports
 * @returns {string[][]} groups of two files or more
 */
export function findCycles(imports) {
  const order = new Map()
  const lowest = new Map()
  const stack = []
  const cycles = []
  const visit = (file) => {
    order.set(file, order.size)
    lowest.set(file, order.get(file))
    stack.push(file)
    for (const next of imports.get(file) ?? []) {
      if (!order.has(next)) visit(next)
      else if (!stack.includes(next)) continue
      lowest.set(file, Math.min(lowest.get(file), lowest.get(next)))
    }
    if (lowest.get(file) !== order.get(file)) return
    const group = stack.splice(stack.indexOf(file))
    if (group.length > 1) cycles.push(group.sort())
  }
  for (const file of imports.keys()) if (!order.has(file)) visit(file)
  return cycles
}
