// An ESLint rule: imports point one way only (CONTRIBUTING.md draws the map).
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, posix, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findCycles, readImports } from './import-graph.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const manifest = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8'))
const own = manifest.name
const runtimeDependencies = new Set(Object.keys(manifest.dependencies ?? {}))
const allowedPeers = new Set([...runtimeDependencies, ...Object.keys(manifest.peerDependencies ?? {})])

/** Modules of Node that `src` may import: computation only, and no server, socket, file or process. */
const PURE_BUILTINS = new Set([
  'async_hooks', 'buffer', 'crypto', 'diagnostics_channel', 'events', 'perf_hooks', 'stream', 'stream/promises',
  'string_decoder', 'timers', 'timers/promises', 'url', 'util', 'zlib'
])

const VOCABULARY = ['wire', 'runtime', 'http', 'schema', 'stores', 'repositories', 'engine']

/**
 * The folders of `src`, lowest first, and the folders that each may import. A folder in a folder has an entry of its own where its
 * direction matters; otherwise it belongs to the folder that it lies in.
 * @type {Record<string, string[]>}
 */
export const FOLDERS = {
  'wire': [],
  'runtime': ['wire'],
  'http': ['wire', 'runtime'],
  'schema': ['wire', 'runtime', 'http'],
  'stores': ['runtime'],
  'engine': ['runtime', 'stores'],
  'repositories': ['wire', 'runtime', 'http'],
  'openapi': VOCABULARY,
  'idempotency': [...VOCABULARY, 'openapi'],
  'json-array': ['wire', 'runtime', 'http', 'schema'],
  'tasks/definition': VOCABULARY,
  'tasks/record': [...VOCABULARY, 'tasks/definition'],
  'tasks/run': [...VOCABULARY, 'idempotency', 'tasks/definition', 'tasks/record'],
  'tasks/core': [...VOCABULARY, 'idempotency', 'tasks/definition', 'tasks/record', 'tasks/run'],
  'tasks': [...VOCABULARY, 'idempotency', 'tasks/definition', 'tasks/record', 'tasks/run', 'tasks/core'],
  'content': [...VOCABULARY, 'openapi'],
  'tasks/http': [...VOCABULARY, 'openapi', 'idempotency', 'content', 'tasks/definition', 'tasks/record', 'tasks/run', 'tasks', 'tasks/core'],
  'resources': [...VOCABULARY, 'openapi'],
  'policies': [...VOCABULARY, 'openapi', 'idempotency'],
  'versions': [...VOCABULARY, 'openapi'],
  // A receiver of callbacks is a client of the tasks, and a server itself.
  'callbacks': [...VOCABULARY, 'client', 'tasks/definition', 'tasks/record', 'tasks/core'],
  'records': [...VOCABULARY, 'openapi', 'content', 'tasks/definition', 'tasks/record', 'tasks/http'],
  'bulk': [...VOCABULARY, 'openapi', 'json-array', 'records', 'tasks', 'tasks/definition', 'tasks/record', 'tasks/http'],
  'ndjson': [...VOCABULARY, 'openapi', 'records', 'tasks', 'tasks/definition', 'tasks/record', 'tasks/http'],
  'csv': [...VOCABULARY, 'ndjson'],
  'azure': [...VOCABULARY, 'openapi', 'tasks/http'],
  'export': [...VOCABULARY, 'ndjson', 'tasks/definition'],
  'partial': [...VOCABULARY, 'openapi', 'tasks', 'tasks/definition', 'tasks/record', 'tasks/http'],
  'operators': [...VOCABULARY, 'openapi', 'idempotency', 'tasks', 'tasks/definition', 'tasks/record', 'tasks/core', 'tasks/http'],
  'uploads': [...VOCABULARY, 'openapi', 'idempotency', 'tasks/record', 'tasks/http'],
  'client': ['wire'],
  'testing': ['wire', 'runtime', 'http', 'schema', 'tasks/definition'],
}

/** `{ area: 'src', folder: 'tasks/run', rest: 'run.ts' }`; a file straight below an area has no folder. */
function place(path) {
  const [area, ...parts] = path.split('/')
  for (let length = Math.min(parts.length - 1, 2); length > 0; length--) {
    const folder = parts.slice(0, length).join('/')
    if (length === 1 || (area === 'src' && Object.hasOwn(FOLDERS, folder))) return { area, folder, rest: parts.slice(length).join('/') }
  }
  return { area, folder: undefined, rest: parts.join('/') }
}

/** Suites for authors of adapters. They may import node:assert. */
const SUITES = 'conformance'
/** The folders of `src` that the suites may import: those of what they test. */
const TESTED = ['runtime', 'stores', 'engine']
/** The only folder of `src` that opens connections, because a callback is an outgoing request. */
const SOCKETS = 'callbacks'
/** Bindings of frameworks on node:http. */
const FRAMEWORKS = ['fastify', 'koa']
/** The client runs in browsers. It imports its own files, and the types of what it exchanges with a server. */
const BROWSER_FOLDER = 'src/client/'
const BROWSER_IMPORTS = [BROWSER_FOLDER, 'src/wire/']

function packageName(specifier) {
  return specifier.split('/').slice(0, specifier.startsWith('@') ? 2 : 1).join('/')
}

function checkPackage(from, specifier) {
  const name = packageName(specifier)
  if (name === own) {
    return ['src', 'adapters', SUITES].includes(from.area) ? `${from.area} imports its own files by relative path` : undefined
  }
  if (isBuiltin(specifier)) {
    const bare = specifier.replace(/^node:/, '')
    if (!specifier.startsWith('node:')) return `write node:${bare}`
    if (PURE_BUILTINS.has(bare)) return undefined
    if (from.area === SUITES) return bare === 'assert/strict' ? undefined : `conformance knows no test runner, server, socket, file or process, and ${specifier} is one`
    return from.area === 'src' && from.folder !== SOCKETS ? `src knows no server, socket, file or process; ${specifier} belongs in adapters` : undefined
  }
  if (from.area === 'src' && ['stores', 'engine'].includes(from.folder)) return `${from.folder} is a contract: it needs no package`
  if (from.area === SUITES) return `conformance needs no package, and ${name} is one`
  if (from.area === 'src' && !runtimeDependencies.has(name)) return `src imports only the dependencies in package.json, and ${name} is none`
  if (from.area === 'adapters' && !allowedPeers.has(name)) return `adapters import only the (peer) dependencies in package.json, and ${name} is none`
  return undefined
}

function checkFolder(from, to) {
  if (from.folder === undefined || from.folder === to.folder) return undefined
  if (!Object.hasOwn(FOLDERS, from.folder)) return `src/${from.folder} has no entry in scripts/import-directions.mjs`
  if (to.folder === undefined) return `src/${from.folder} can't import the package's index`
  return FOLDERS[from.folder].includes(to.folder) ? undefined : `src/${from.folder} must not import src/${to.folder}`
}

/**
 * Returns the reason why the file at `path` must not import `specifier`, or `undefined` if it may.
 * @param {string} path relative to the root, with forward slashes
 * @param {string} specifier
 * @returns {string | undefined}
 */
export function checkImport(path, specifier) {
  const from = place(path)
  if (path.startsWith(BROWSER_FOLDER)) {
    const target = specifier.startsWith('.') ? posix.join(posix.dirname(path), specifier) : specifier
    return BROWSER_IMPORTS.some((folder) => target.startsWith(folder)) ? undefined : 'src/client runs in browsers and imports its own files and src/wire only'
  }
  if (!specifier.startsWith('.')) return checkPackage(from, specifier)
  const to = place(posix.join(posix.dirname(path), specifier))
  if (from.area === 'examples') {
    return to.area === 'examples' ? undefined : `examples import the package by its public names ('${own}', '${own}/…')`
  }
  if (from.area === 'src') {
    return to.area === 'src' ? checkFolder(from, to) : 'src knows nobody outside src'
  }
  if (from.area === SUITES) {
    if (to.area === SUITES) return undefined
    if (to.area !== 'src') return 'conformance imports src and itself only'
    if (to.folder === undefined) return "conformance can't import the package's index"
    return TESTED.includes(to.folder) ? undefined : `conformance must not import src/${to.folder}`
  }
  if (from.area === 'adapters') {
    if (to.area === 'src') return undefined
    if (to.area !== 'adapters') return 'adapters import src and themselves only'
    if (FRAMEWORKS.includes(from.folder) && to.folder === 'node') return undefined
    // The blobs beside a file of SQLite are in a folder.
    if (from.folder === 'sqlite' && to.folder === 'files') return undefined
    return to.folder === from.folder ? undefined : `adapters/${from.folder} must not know adapters/${to.folder}`
  }
  return undefined
}

/** The files that import each other, read once for a run of ESLint. */
let cycles

function checkCycle(path, specifier) {
  if (!specifier.startsWith('.')) return undefined
  const to = posix.join(posix.dirname(path), specifier).replace(/\.js$/, '.ts')
  const cycle = cycles.find((group) => group.includes(path) && group.includes(to))
  return cycle && `these files import each other: ${cycle.join(', ')}`
}

/** @type {import('eslint').Rule.RuleModule} */
export const importDirections = {
  meta: { type: 'problem', schema: [], messages: { direction: '{{reason}}' } },
  create(context) {
    cycles ??= findCycles(readImports())
    const path = relative(root, context.filename).split(sep).join('/')
    const check = (node) => {
      if (node?.type !== 'Literal' || typeof node.value !== 'string') return
      const reason = checkImport(path, node.value) ?? checkCycle(path, node.value)
      if (reason !== undefined) context.report({ node, messageId: 'direction', data: { reason } })
    }
    const source = (node) => check(node.source)
    return {
      ImportDeclaration: source,
      ExportNamedDeclaration: source,
      ExportAllDeclaration: source,
      ImportExpression: source,
      TSImportType: source,
      TSExternalModuleReference: (node) => check(node.expression)
    }
  }
}
