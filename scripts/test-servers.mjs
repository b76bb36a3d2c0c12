// What the tests of some files need: servers and programs that this machine may not have.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { builtFile } from './test-build.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

/** Calls and imports that tell what a file needs, and the function of `test/servers` that finds it or throws what to install. */
const NEEDED = [
  { used: /\b(?:redisForFile|RedisServer|sentinelForFile|clusterForFile)\b/, find: ['redis-binary', 'redisBinary'] },
  { used: /\bredisUrl\b/, instead: 'REDIS_URL', find: ['redis-binary', 'redisBinary'] },
  { used: /\b(?:postgresForFile|startPostgres)\b/, find: ['postgres-binary', 'postgresBinaries'] },
  { used: /\bpostgresUrl\b/, instead: 'DATABASE_URL', find: ['postgres-binary', 'postgresBinaries'] },
  { used: /\bpgBouncerForFile\b/, find: ['pgbouncer', 'pgBouncerBinary'] },
  { used: /\bopenBrowser\b/, find: ['chromium', 'chromiumFile'] },
  { used: /\bskewedBy/, find: ['faketime', 'skewedBy'] },
  { used: /\bstrace\(/, find: ['strace', 'strace'] },
  ...['Redis 6.0', 'Redis 8.0', 'Valkey 8.1'].map((server) => (
    { used: new RegExp(`passesOn\\('${server}'`), find: ['redis-others', 'programsOf', server] }
  )),
]

/** Returns what is missing here, and the files that cannot run without it. */
export async function missing(files) {
  const found = new Map()
  for (const { used, instead, find: [module, name, ...args] } of NEEDED) {
    if (instead !== undefined && process.env[instead] !== undefined) continue
    const using = files.filter((file) => textOf(file).some((text) => used.test(text)))
    if (using.length === 0) continue
    try {
      const { [name]: find } = await load(module)
      await find(...args)
    } catch ({ message }) {
      found.set(message, [...new Set([...found.get(message) ?? [], ...using])].sort())
    }
  }
  return found
}

/**
 * Starts one Redis and one PostgreSQL for all files that ask for a database on any server. The names of their addresses are
 * not those that an application reads: a test starts processes that must not have both.
 */
export async function startShared(files) {
  const started = []
  const wanted = (call, name) => process.env[name] === undefined && files.some((file) => textOf(file).some((text) => text.includes(call)))
  if (wanted('redisUrl(', 'REDIS_URL') || wanted('redisUrl,', 'REDIS_URL')) {
    const { RedisServer } = await load('redis-server')
    const server = await RedisServer.start()
    process.env.LONGHAUL_TEST_REDIS_URL = server.url
    started.push(server)
  }
  if (wanted('postgresUrl(', 'DATABASE_URL') || wanted('postgresUrl,', 'DATABASE_URL')) {
    const { startPostgres } = await load('postgres-server')
    const server = await startPostgres({ settings: { max_connections: 400 } })
    process.env.LONGHAUL_TEST_DATABASE_URL = server.url
    started.push(server)
  }
  return started
}

function load(module) {
  return import(pathToFileURL(builtFile(`test/servers/${module}.ts`)).href)
}

const texts = new Map()

/** The texts of a test file and of what it imports below `test`, apart from the servers themselves. */
function textOf(file) {
  const known = texts.get(file)
  if (known !== undefined) return known
  const seen = new Set([file])
  const found = []
  for (const path of seen) {
    const text = readFileSync(join(root, path), 'utf8')
    found.push(text)
    for (const [, imported] of text.matchAll(/from '(\.[^']+)\.js'/g)) {
      const next = relative(root, resolve(root, dirname(path), `${imported}.ts`)).split(sep).join('/')
      if (next.startsWith('test/') && !next.startsWith('test/servers/') && existsSync(join(root, next))) seen.add(next)
    }
  }
  texts.set(file, found)
  return found
}
