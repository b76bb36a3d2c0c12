// A real PostgreSQL for the tests: the one on this machine, or else the one of pglite, behind a socket.
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { freePort } from './redis-server.js'
import { PgliteServer } from './pglite-server.js'

const TIED = spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true']).status === 0 ? ['setpriv', '--pdeathsig', 'KILL'] : []
/** PostgreSQL refuses to run as root. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

/** The folder with `initdb` and `postgres`, if there is one. */
function binaries(): string | undefined {
  const installed = '/usr/lib/postgresql'
  const versions = existsSync(installed) ? readdirSync(installed).map((version) => join(installed, version, 'bin')) : []
  return [...(process.env['PATH'] ?? '').split(delimiter), ...versions]
    .find((folder) => folder !== '' && existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')))
}

export interface PostgresServer {
  /** A database of its own. */
  readonly url: string
  stop(): Promise<void>
}

/** Starts a server with an empty database, on a free port. */
export async function startPostgres(): Promise<PostgresServer> {
  const bin = binaries()
  return bin === undefined ? await PgliteServer.start() : await startInstalled(bin)
}

async function startInstalled(bin: string): Promise<PostgresServer> {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-postgres-'))
  if (NOBODY.uid !== undefined) chownSync(dir, NOBODY.uid, NOBODY.gid)
  const data = join(dir, 'data')
  execFileSync(join(bin, 'initdb'), ['-D', data, '-U', 'longhaul', '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C'], { ...NOBODY, stdio: 'pipe' })
  const port = await freePort()
  const [command = '', ...args] = [
    ...TIED, join(bin, 'postgres'), '-D', data, '-p', String(port), '-h', '127.0.0.1', '-k', dir, '-F', '-c', 'max_connections=40',
  ]
  const child = spawn(command, args, { ...NOBODY, stdio: ['ignore', 'ignore', 'pipe'] })
  const killed = (): void => { child.kill('SIGKILL') }
  process.once('exit', killed)
  await ready(child)
  return {
    url: `postgres://longhaul@127.0.0.1:${String(port)}/postgres`,
    stop: async () => {
      process.off('exit', killed)
      const exited = once(child, 'exit')
      // Without waiting for clients.
      if (child.kill('SIGQUIT')) await exited
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

async function ready(child: ChildProcess): Promise<void> {
  let log = ''
  child.stderr?.on('data', (text) => { log = `${log}${String(text)}`.slice(-4000) })
  while (!log.includes('ready to accept connections')) {
    if (child.exitCode !== null) throw new Error(`PostgreSQL has ended: ${log}`)
    await Promise.race([once(child.stderr ?? child, 'data'), once(child, 'exit')])
  }
}
