// Finds a Redis for the tests: on PATH, or on Debian fetched into node_modules/.cache, with nothing installed.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

const cache = join(import.meta.dirname, '..', '..', 'node_modules', '.cache')
const DEBIAN_PACKAGES = [
  'redis-server', 'redis-tools', 'libatomic1', 'libjemalloc2', 'liblua5.1-0', 'liblzf1', 'libssl3',
  'libsystemd0',
]

export interface RedisBinary {
  readonly file: string
  /** Where its libraries are, when they are not where the system keeps them. */
  readonly libraries?: string
}

let found: RedisBinary | undefined

/** The command-line client beside the server. */
export function redisCli(): RedisBinary {
  const { file, libraries } = redisBinary()
  const found = ['redis-cli', 'valkey-cli'].map((name) => join(dirname(file), name)).find((each) => existsSync(each))
  if (found === undefined)
    throw new Error(`This test needs redis-cli beside ${file}: install redis-tools or valkey-tools`)
  return libraries === undefined ? { file: found } : { file: found, libraries }
}

/** Throws one line that says what to install when there is no way to get a server. */
export function redisBinary(): RedisBinary {
  return found ??= onPath() ?? fetched() ?? fetchFromDebian()
}

/** Returns the version of the server, such as 7.2, to tell what an old one cannot do. */
export function redisVersion(): number {
  const binary = redisBinary()
  const { stdout } = spawnSync(binary.file, ['--version'], {
    argv0: 'redis-server',
    env: redisEnvironment(binary),
    encoding: 'utf8',
  })
  return Number(/v=(\d+\.\d+)/.exec(stdout)?.[1])
}

function onPath(): RedisBinary | undefined {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    for (const name of ['redis-server', 'valkey-server']) {
      const file = join(folder, name)
      if (folder !== '' && existsSync(file) && runs({ file })) return { file }
    }
  }
  return undefined
}

function fetched(folder = join(cache, 'redis')): RedisBinary | undefined {
  const usr = join(folder, 'usr')
  if (!existsSync(usr)) return undefined
  const libraries = readdirSync(join(usr, 'lib')).map((name) => join(usr, 'lib', name)).join(':')
  // Debian's redis-server is a link to this one.
  const binary = { file: join(usr, 'bin', 'redis-check-rdb'), libraries }
  return existsSync(binary.file) && runs(binary) ? binary : undefined
}

/** Several test processes may do this at once: each in a folder of its own, and the last rename that fits wins. */
function fetchFromDebian(): RedisBinary {
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'redis-'))
  try {
    execFileSync('apt-get', ['download', '-q', ...DEBIAN_PACKAGES], { cwd: folder, stdio: 'pipe', timeout: 60_000 })
    for (const name of readdirSync(folder))
      if (name.endsWith('.deb')) execFileSync('dpkg', ['-x', join(folder, name), folder], { stdio: 'pipe' })
    if (!fetched(folder)) throw new Error('what was fetched does not run')
    try {
      renameSync(folder, join(cache, 'redis'))
    } catch {
      // Another test process was first.
    }
  } catch (error) {
    throw new Error(
      'These tests need a real Redis: install redis-server or valkey-server (apt-get update, for one that is fetched)',
      { cause: error },
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const binary = fetched()
  if (!binary) throw new Error('These tests need a real Redis: install redis-server or valkey-server')
  return binary
}

function runs(binary: RedisBinary): boolean {
  return (
    spawnSync(binary.file, ['--version'], { argv0: 'redis-server', env: redisEnvironment(binary), stdio: 'ignore' })
      .status === 0
  )
}

export function redisEnvironment({ libraries }: RedisBinary): NodeJS.ProcessEnv {
  return libraries === undefined ? process.env : { ...process.env, LD_LIBRARY_PATH: libraries }
}
