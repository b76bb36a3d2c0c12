// A PgBouncer in transaction mode: an installed one, or on Debian one that is fetched without installing it.
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { releaseLast } from '../../scripts/test-releases.mjs'
import { POSTGRES_USER, serverFolder } from './postgres-data.js'
import type { PostgresServer } from './postgres-server.js'
import { freePort } from './redis-server.js'
import { NOBODY, sharedFolder } from './shared-folder.js'
import { TIED } from './tied.js'

const run = promisify(execFile)

const DEBIAN_PACKAGES = ['pgbouncer', 'libc-ares2', 'libevent-2.1-7']

/** A program that runs here. */
export interface PgBouncerBinary {
  readonly file: string
  /** The folder of its libraries, if they are not those of the system. */
  readonly libraries?: string
}

/** A pooler in front of a server. */
export interface PgBouncer {
  /** The address of the server's database through the pooler. */
  readonly url: string
  readonly port: number
  stop(): Promise<void>
}

/**
 * Starts a pooler in transaction mode with ten connections to the server. Consecutive transactions
 * of a client may run on different connections. LISTEN and prepared statements do not work.
 */
export async function startPgBouncer(server: PostgresServer): Promise<PgBouncer> {
  const binary = await pgBouncerBinary()
  const folder = serverFolder()
  const port = await freePort()
  const config = join(folder, 'pgbouncer.ini')
  writeFileSync(config, [
    '[databases]', `postgres = host=127.0.0.1 port=${String(server.port)} user=${POSTGRES_USER}`,
    '[pgbouncer]', 'listen_addr = 127.0.0.1', `listen_port = ${String(port)}`, 'unix_socket_dir =',
    'auth_type = any', 'pool_mode = transaction', 'default_pool_size = 10', 'max_client_conn = 500',
    'server_login_retry = 1', '',
  ].join('\n'))
  chmodSync(config, 0o644)
  const [command = '', ...args] = [...TIED, binary.file, config]
  const child = spawn(command, args, {
    ...NOBODY,
    cwd: folder,
    env: environment(binary),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const killed = (): void => { child.kill('SIGKILL') }
  process.once('exit', killed)
  await ready(child)
  return {
    url: server.urlAt(port),
    port,
    stop: async () => {
      process.off('exit', killed)
      child.ref()
      const exited = once(child, 'exit')
      if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A pooler for all tests of a file. */
export async function pgBouncerForFile(server: PostgresServer): Promise<PgBouncer> {
  const pooler = await startPgBouncer(server)
  releaseLast(() => pooler.stop())
  return pooler
}

async function ready(child: ChildProcess): Promise<void> {
  let log = ''
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on('data', (text) => {
      log = `${log}${String(text)}`.slice(-4000)
      if (log.includes('process up')) resolve()
    })
    child.on('error', reject)
    child.on('exit', () => { reject(new Error(`PgBouncer has ended: ${log}`)) })
  })
  child.unref()
  ;(child.stderr as unknown as { unref: () => void }).unref()
}

/** Finds it. Throws one line that says what to install. */
export async function pgBouncerBinary(): Promise<PgBouncerBinary> {
  return installed() ?? await fetched()
}

function installed(): PgBouncerBinary | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin'].filter((folder) => folder !== '')
  const file = folders.map((folder) => join(folder, 'pgbouncer')).find(existsSync)
  return file === undefined ? undefined : { file }
}

async function fetched(): Promise<PgBouncerBinary> {
  try {
    const folder = await sharedFolder('pgbouncer', async (empty) => {
      await run('apt-get', ['download', '-q', ...DEBIAN_PACKAGES], { cwd: empty, timeout: 60_000 })
      for (const name of readdirSync(empty)) {
        if (name.endsWith('.deb')) await run('dpkg', ['-x', join(empty, name), empty])
      }
      if (!runs(inFolder(empty))) throw new Error('The program does not run')
    })
    return inFolder(folder)
  } catch (cause) {
    throw new Error('These tests need PgBouncer: install pgbouncer (apt-get update, for one that is fetched)', {
      cause,
    })
  }
}

function inFolder(folder: string): PgBouncerBinary {
  const usr = join(folder, 'usr')
  const libraries = readdirSync(join(usr, 'lib')).map((name) => join(usr, 'lib', name)).join(':')
  return { file: join(usr, 'sbin', 'pgbouncer'), libraries }
}

function runs(binary: PgBouncerBinary): boolean {
  return spawnSync(binary.file, ['--version'], { env: environment(binary), stdio: 'ignore' }).status === 0
}

function environment({ libraries }: PgBouncerBinary): NodeJS.ProcessEnv {
  return libraries === undefined ? process.env : { ...process.env, LD_LIBRARY_PATH: libraries }
}
