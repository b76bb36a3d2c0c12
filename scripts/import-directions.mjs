// An ESLint rule: imports point one way only (CONTRIBUTING.md draws the map).
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, posix, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const manifest = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8'))
const own = manifest.name
const runtimeDependencies = new Set(Object.keys(manifest.dependencies ?? {}))
const allowedPeers = new Set([...runtimeDependencies, ...Object.keys(manifest.peerDependencies ?? {})])

/** What the rules of `src` may take from Node: computing, never a server, a socket, a file or a process. */
const PURE_BUILTINS = new Set([
  'async_hooks', 'buffer', 'crypto', 'diagnostics_channel', 'events', 'perf_hooks', 'stream', 'stream/promises',
  'string_decoder', 'timers', 'timers/promises', 'url', 'util', 'zlib'
])

const VOCABULARY = ['http', 'schema', 'stores', 'queues', 'repositories']

/**
 * The rooms of `src`: `uses` may be imported file by file, `through` only by their index.
 * @type {Record<string, { uses: string[], through?: string[] }>}
 */
export const ROOMS = {
  http: { uses: [] },
  schema: { uses: ['http'] },
  stores: { uses: [] },
  queues: { uses: [] },
  repositories: { uses: ['http'] },
  idempotency: { uses: VOCABULARY, through: ['openapi'] },
  tasks: { uses: VOCABULARY, through: ['openapi', 'idempotency'] },
  callbacks: { uses: VOCABULARY, through: ['tasks'] },
  bulk: { uses: VOCABULARY, through: ['tasks', 'openapi', 'content'] },
  ndjson: { uses: VOCABULARY, through: ['tasks', 'openapi'] },
  content: { uses: VOCABULARY, through: ['openapi'] },
  resources: { uses: VOCABULARY, through: ['openapi'] },
  policies: { uses: VOCABULARY, through: ['openapi'] },
  versioning: { uses: VOCABULARY, through: ['openapi'] },
  openapi: { uses: VOCABULARY }
}

/** `{ area: 'src', room: 'tasks', rest: 'task/state.ts' }`; a file straight below an area has no room. */
function place(path) {
  const [area, ...parts] = path.split('/')
  return { area, room: parts.length > 1 ? parts[0] : undefined, rest: parts.slice(parts.length > 1 ? 1 : 0).join('/') }
}

/** Bindings of frameworks on node:http. */
const FRAMEWORKS = ['fastify', 'koa']
/** Runs in browsers: it knows nothing but itself. */
const BROWSER_ROOM = 'adapters/client/'

function packageName(specifier) {
  return specifier.split('/').slice(0, specifier.startsWith('@') ? 2 : 1).join('/')
}

function checkPackage(from, specifier) {
  const name = packageName(specifier)
  if (name === own) {
    return from.area === 'src' || from.area === 'adapters' ? `${from.area} imports its own files by relative path` : undefined
  }
  if (isBuiltin(specifier)) {
    const bare = specifier.replace(/^node:/, '')
    if (!specifier.startsWith('node:')) return `write node:${bare}`
    return from.area === 'src' && !PURE_BUILTINS.has(bare) ? `src knows no server, socket, file or process; ${specifier} belongs in adapters` : undefined
  }
  if (from.area === 'src' && ['stores', 'queues'].includes(from.room)) return `${from.room} are contracts: they need no package`
  if (from.area === 'src' && !runtimeDependencies.has(name)) return `src imports only the dependencies in package.json, and ${name} is none`
  if (from.area === 'adapters' && !allowedPeers.has(name)) return `adapters import only the (peer) dependencies in package.json, and ${name} is none`
  return undefined
}

function checkRoom(from, to) {
  if (from.room === undefined || from.room === to.room) return undefined
  const rule = Object.hasOwn(ROOMS, from.room) ? ROOMS[from.room] : undefined
  if (rule === undefined) return `src/${from.room} has no entry in scripts/import-directions.mjs`
  if (to.room === undefined) return `src/${from.room} can't import the package's index`
  if (rule.uses.includes(to.room)) return undefined
  if (!rule.through?.includes(to.room)) return `src/${from.room} must not know src/${to.room}`
  return to.rest === 'index.js' ? undefined : `src/${from.room} uses src/${to.room} through its index.js only`
}

/**
 * Why `specifier` must not be imported by the file at `path`, or `undefined` when it may.
 * @param {string} path relative to the root, with forward slashes
 * @param {string} specifier
 * @returns {string | undefined}
 */
export function checkImport(path, specifier) {
  const from = place(path)
  if (path.startsWith(BROWSER_ROOM) && !(specifier.startsWith('.') && posix.join(posix.dirname(path), specifier).startsWith(BROWSER_ROOM))) {
    return 'adapters/client runs in browsers and imports its own files only'
  }
  if (!specifier.startsWith('.')) return checkPackage(from, specifier)
  const to = place(posix.join(posix.dirname(path), specifier))
  if (from.area === 'examples') {
    return to.area === 'examples' ? undefined : `examples import the package by its public names ('${own}', '${own}/…')`
  }
  if (from.area === 'src') {
    return to.area === 'src' ? checkRoom(from, to) : 'src knows nobody outside src'
  }
  if (from.area === 'adapters') {
    if (to.area === 'src') return undefined
    if (to.area !== 'adapters') return 'adapters import src and themselves only'
    if (FRAMEWORKS.includes(from.room) && to.room === 'node') return to.rest === 'index.js' ? undefined : `adapters/${from.room} uses adapters/node through its index.js only`
    // Both talk to one Redis, and a connection that is half-open looks the same to both.
    if (from.room === 'bullmq' && to.room === 'redis') return undefined
    return to.room === from.room || to.room === 'conformance' ? undefined : `adapters/${from.room} must not know adapters/${to.room}`
  }
  return undefined
}

/** @type {import('eslint').Rule.RuleModule} */
export const importDirections = {
  meta: { type: 'problem', schema: [], messages: { direction: '{{reason}}' } },
  create(context) {
    const path = relative(root, context.filename).split(sep).join('/')
    const check = (node) => {
      if (node?.type !== 'Literal' || typeof node.value !== 'string') return
      const reason = checkImport(path, node.value)
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
