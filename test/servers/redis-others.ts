// Older, newer and forked servers: fetched from other releases of Debian into node_modules/.cache,
// with nothing installed.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { tiedBy } from './tied.js'

const root = join(import.meta.dirname, '..', '..')
const cache = join(root, 'node_modules', '.cache')
const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
/** The C library too: a program of a newer release needs a newer one. */
const LIBRARIES = [
  'libatomic1', 'libc6', 'libcap2', 'libgcc-s1', 'libjemalloc2', 'liblzf1', 'libstdc++6',
  'libsystemd0', 'libzstd1',
]

interface Release {
  readonly suite: string
  readonly kind: 'redis' | 'valkey'
  readonly libraries: readonly string[]
}

const RELEASES = {
  'Redis 6.0': {
    suite: 'bullseye', kind: 'redis', libraries: [
      'libgcrypt20', 'libgpg-error0', 'liblua5.1-0', 'liblz4-1', 'liblzma5', 'libssl1.1', 'lua-bitop', 'lua-cjson',
    ],
  },
  'Redis 8.0': { suite: 'trixie', kind: 'redis', libraries: ['libssl3t64'] },
  'Valkey 8.1': { suite: 'trixie', kind: 'valkey', libraries: ['libssl3t64'] },
} satisfies Record<string, Release>

export type OtherServer = keyof typeof RELEASES

/** Runs test files on another server. Resolves to the exit code of the run, and its output. */
export async function runOn(
  server: OtherServer,
  files: readonly string[],
): Promise<{ code: number | null; output: string }> {
  const { REDIS_URL: _, LONGHAUL_TEST_REDIS_URL: __, ...env } = process.env
  const [command, ...args] = [...tiedBy('TERM'), process.execPath, join(root, 'scripts', 'test.mjs'), ...files]
  const child = spawn(command as string, args, {
    env: { ...env, LONGHAUL_TEST_PROCESSES: '3', PATH: `${programsOf(server)}${delimiter}${env['PATH'] ?? ''}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const chunks: Buffer[] = []
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
    })
  const code = await new Promise<number | null>((resolve) => {
    child.once('close', resolve)
  })
  return { code, output: Buffer.concat(chunks).toString() }
}

/** Returns a folder with `redis-server` and `redis-cli`. Throws one line that says what is missing. */
export function programsOf(server: OtherServer): string {
  const name = server.toLowerCase().replace(' ', '-')
  const folder = join(cache, name)
  if (!existsSync(folder)) fetch(server, folder)
  return join(folder, 'bin')
}

/** Several test processes may do this at once: each in a folder of its own, and the first rename wins. */
function fetch(server: OtherServer, target: string): void {
  const { suite, kind, libraries }: Release = RELEASES[server]
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(`${target}-`)
  const apt = (...args: string[]): void => {
    execFileSync('apt-get', [
      '-q', '-o', `Dir::Etc::SourceList=${join(folder, 'sources.list')}`, '-o', 'Dir::Etc::SourceParts=/dev/null',
      '-o', `Dir::State::Lists=${join(folder, 'lists')}`, '-o', `Dir::Cache=${join(folder, 'cache')}`,
      '-o', `Dir::State::status=${join(folder, 'status')}`, '-o', 'APT::Sandbox::User=root', ...args,
    ], { cwd: folder, stdio: 'pipe', timeout: 120_000 })
  }
  try {
    for (const name of ['lists/partial', 'cache/archives/partial', 'bin'])
      mkdirSync(join(folder, name), { recursive: true })
    writeFileSync(join(folder, 'status'), '')
    writeFileSync(join(folder, 'sources.list'), `deb [signed-by=${KEYS}] ${mirror()} ${suite} main\n`)
    apt('update')
    apt('download', `${kind}-server`, `${kind}-tools`, ...LIBRARIES, ...libraries)
    for (const name of readdirSync(folder)) {
      if (name.endsWith('.deb')) execFileSync('dpkg', ['-x', join(folder, name), folder], { stdio: 'pipe' })
    }
    for (const name of ['server', 'cli']) writeProgram(folder, `redis-${name}`, `usr/bin/${kind}-${name}`)
    for (const name of readdirSync(folder)) {
      if (/\.deb$|^lists$|^cache$/.test(name)) rmSync(join(folder, name), { recursive: true })
    }
    if (spawnSync(join(folder, 'bin', 'redis-server'), ['--version']).status !== 0)
      throw new Error('It does not run here')
    if (!existsSync(target)) renameSync(folder, target)
  } catch (error) {
    throw new Error(`These tests fetch ${server} from Debian's release ${suite}, which needs apt-get and its keys`, {
      cause: error,
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The mirror of Debian that this machine uses. */
function mirror(): string {
  const targets = execFileSync('apt-get', [
    'indextargets', '--format', '$(ORIGIN) $(COMPONENT) $(REPO_URI)', 'Created-By: Packages',
  ])
  const [, uri] = /^Debian main (\S+)$/m.exec(targets.toString()) ?? []
  if (uri === undefined) throw new Error('apt-get has no list of Debian: apt-get update')
  return uri
}

/** Writes a script that starts a program with the libraries of its release. */
function writeProgram(folder: string, name: string, program: string): void {
  const files = readdirSync(folder, { recursive: true }).map(String)
  const loader = files.find((file) => /-linux-gnu\/ld-linux[^/]*\.so\.\d$/.test(file)) ?? ''
  const libraries = files.filter((file) => /^(?:usr\/)?lib\/[^/]*-linux-gnu$/.test(file)).map((file) => `$root/${file}`)
  const file = join(folder, 'bin', name)
  // The Lua of Debian's Redis 6.0 loads its modules from files.
  writeFileSync(file, `#!/bin/sh
root=$(dirname "$(dirname "$(readlink -f "$0")")")
export LUA_CPATH="${libraries.map((path) => `${path}/lua/5.1/?.so`).join(';')}"
exec "$root/${loader}" --library-path "${libraries.join(':')}" "$root/${program}" "$@"
`)
  chmodSync(file, 0o755)
}
