// Transpiles what the tests run into node_modules/.cache, once: a process that loads tsx instead takes three times as long to start.
import { transform, version } from 'esbuild'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, extname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ENTRY_POINTS } from './entry-points.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const FOLDERS = ['src', 'adapters', 'conformance', 'examples', 'test', 'scripts']

/** Folder of the programs, at the same paths as their sources. */
export const BUILT = join(root, 'node_modules', '.cache', 'longhaul-tests')

/** The program of a source, such as `test/unit/x.test.ts`. */
export function builtFile(source) {
  return join(BUILT, source.replace(/\.ts$/, '.js'))
}

/** Brings the programs up to date: transpiles the sources that have changed since the last call, and removes those that are gone. */
export async function buildForTests() {
  const list = join(BUILT, 'sources.json')
  const before = readJson(list)
  const now = {}
  const changed = []
  const key = createHash('sha256').update(version).update(root).update(readFileSync(fileURLToPath(import.meta.url))).digest('hex')
  for (const file of sources()) {
    const text = readFileSync(join(root, file), 'utf8')
    now[file] = createHash('sha256').update(key).update(file).update(text).digest('hex')
    if (before[file] !== now[file]) changed.push({ file, text })
  }
  if (changed.length === 0 && Object.keys(before).length === Object.keys(now).length) return
  await Promise.all(changed.map(async ({ file, text }) => replace(builtFile(file), await program(file, text))))
  for (const file of Object.keys(before)) if (!(file in now)) rmSync(builtFile(file), { force: true })
  replace(join(BUILT, 'package.json'), JSON.stringify({ name: 'longhaul', type: 'module', exports: exportsOfTheBuild() }))
  replace(list, JSON.stringify(now))
}

function sources() {
  const below = FOLDERS.flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
  return [...readdirSync(root, { withFileTypes: true }), ...below]
    .filter((entry) => entry.isFile() && ['.ts', '.js', '.mjs'].includes(extname(entry.name)))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort()
}

async function program(file, text) {
  const path = join(root, file)
  const url = pathToFileURL(path).href
  // What is JavaScript already runs where it is.
  if (!file.endsWith('.ts')) return `export * from ${JSON.stringify(url)}\n`
  const { code } = await transform(text, {
    loader: 'ts', format: 'esm', platform: 'node', target: 'node20.19',
    sourcefile: path, sourcemap: 'inline', sourcesContent: false,
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true, verbatimModuleSyntax: true } },
    // A program knows the place of its source only, so that what it reads and starts beside itself is there.
    define: {
      'import.meta.url': JSON.stringify(url),
      'import.meta.filename': JSON.stringify(path),
      'import.meta.dirname': JSON.stringify(dirname(path)),
    },
  })
  return code
}

/** The package's own names, as tests and examples import them. */
function exportsOfTheBuild() {
  return Object.fromEntries(Object.entries(ENTRY_POINTS)
    .map(([name, source]) => [name === 'index' ? '.' : `./${name}`, `./${source.replace(/\.ts$/, '.js')}`]))
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return {}
  }
}

/** Another run may read the file meanwhile. */
function replace(file, text) {
  mkdirSync(dirname(file), { recursive: true })
  const partial = `${file}.${process.pid}`
  writeFileSync(partial, text)
  renameSync(partial, file)
}
