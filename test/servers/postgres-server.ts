import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { releaseLast } from '../../scripts/test-releases.mjs'
import { postgresBinaries, type PostgresBinaries, type PostgresMajor } from './postgres-binary.js'
import { newData, POSTGRES_USER, serverFolder } from './postgres-data.js'
import { freePort } from './redis-server.js'
import { NOBODY } from './shared-folder.js'
import { TIED } from './tied.js'

/** Options of `startPostgres`. */
export interface PostgresOptions {
  /** Major version. Fetched from npm if it is not installed. Default: the one that is there. */
  readonly major?: PostgresMajor
  /** True: commits wait for the disk. Default: false, for speed. */
  readonly fsync?: boolean
  /** Settings of `postgresql.conf`. Default: 100 connections. */
  readonly settings?: Readonly<Record<string, string | number>>
  /**
   * Space in bytes for the tables of the tests, in a tablespace on a file system of its own. Default: unlimited.
   * Needs Linux, and root or user namespaces.
   */
  readonly tablespaceBytes?: number
  /** Makes the server a replica of this one. `promote` ends that. */
  readonly replicaOf?: PostgresServer
}

/** Starts a server of its own with an empty database, on a free port. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const binaries = await postgresBinaries(options.major)
  const folder = serverFolder()
  try {
    const data = join(folder, 'data')
    await newData(binaries, data)
    if (options.replicaOf) {
      writeFileSync(join(data, 'standby.signal'), '')
    }
    const server = new PostgresServer(binaries, folder, await freePort(), options)
    await server.run()
    if (options.tablespaceBytes !== undefined) await server.useSmallTablespace()
    return server
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** A server for all tests of a file. */
export async function postgresForFile(options: PostgresOptions = {}): Promise<PostgresServer> {
  const server = await startPostgres(options)
  releaseLast(() => server.stop())
  return server
}

/** One real server, with its data in a folder of its own. Can be stopped, killed and started again. */
export class PostgresServer {
  private child: ChildProcess | undefined
  private log = ''
  private readonly killed = (): void => { this.child?.kill('SIGKILL') }

  constructor(
    private readonly binaries: PostgresBinaries,
    private readonly folder: string,
    readonly port: number,
    private readonly options: PostgresOptions,
  ) {
    process.once('exit', this.killed)
  }

  /** `18.4`, for example. */
  get version(): string {
    return this.binaries.version
  }

  /** The address of an empty database. */
  get url(): string {
    return this.urlAt(this.port)
  }

  /** The address of the same database by another port: that of a proxy. */
  urlAt(port: number): string {
    return `postgres://${POSTGRES_USER}@127.0.0.1:${String(port)}/postgres`
  }

  /** Starts it (again), on the same port and data. Resolves when it accepts connections. */
  async run(): Promise<void> {
    const [command = '', ...args] = this.inNamespace([
      ...TIED, join(this.binaries.folder, 'postgres'), '-D', join(this.folder, 'data'),
      ...Object.entries(this.settings()).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ])
    const child = spawn(command, args, {
      ...(this.quota() ? {} : NOBODY),
      cwd: this.folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.child = child
    this.log = ''
    let report = (): void => undefined
    child.stderr.on('data', (text) => {
      this.log = `${this.log}${String(text)}`.slice(-8000)
      report()
    })
    await new Promise<void>((resolve, reject) => {
      report = () => { if (this.log.includes('ready to accept')) resolve() }
      child.on('error', reject)
      child.on('exit', () => { reject(new Error(`PostgreSQL has ended: ${this.log}`)) })
    })
    // The server must not keep a test file alive that has ended.
    child.unref()
    ;(child.stderr as unknown as { unref: () => void }).unref()
  }

  /** Runs one statement on a connection of its own. */
  async query(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: this.url })
    client.on('error', () => undefined)
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(text, [...values])).rows
    } finally {
      await client.end()
    }
  }

  /** Ends it as an administrator does: clients lose their connection, the data is complete. `run` starts it again. */
  async shutDown(): Promise<void> {
    await this.end('SIGINT')
  }

  /** Kills all of its processes at once, as a power failure does. `run` starts it again. */
  async kill(): Promise<void> {
    const processes = this.processes()
    const exited = this.exited()
    for (const pid of processes) signal(pid, 'SIGKILL')
    await exited
  }

  /** Stops all of its processes without closing a connection, as a machine that hangs does. */
  freeze(): void {
    // The first one starts the others, so no new one appears meanwhile.
    if (this.child?.pid !== undefined) signal(this.child.pid, 'SIGSTOP')
    for (const pid of this.processes()) signal(pid, 'SIGSTOP')
  }

  thaw(): void {
    for (const pid of this.processes()) signal(pid, 'SIGCONT')
  }

  /** CPU time of its present processes so far, in microseconds. Linux only. */
  cpuMicros(): number {
    const ticks = this.processes().map((pid) => {
      const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8')
      const [user, system] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12, 14)
      return Number(user) + Number(system)
    })
    // A tick is 10 ms.
    return 10_000 * ticks.reduce((sum, each) => sum + each, 0)
  }

  /** Makes a replica a primary. Resolves when it accepts writes. */
  async promote(): Promise<void> {
    const [row] = await this.query('select pg_promote() as promoted')
    if (row?.['promoted'] !== true) throw new Error('The replica was not promoted')
  }

  /**
   * Resolves when `replica` receives every commit before it is acknowledged. From then on a commit
   * waits for the replica.
   */
  async waitForReplica(): Promise<void> {
    await this.query("alter system set synchronous_standby_names = '*'")
    await this.query('select pg_reload_conf()')
    for (;;) {
      const rows = await this.query("select 1 from pg_stat_replication where sync_state = 'sync'")
      if (rows.length > 0) return
      await new Promise((resolve) => { setTimeout(resolve, 20) })
    }
  }

  /** Ends it and removes its data. */
  async stop(): Promise<void> {
    process.off('exit', this.killed)
    this.thaw()
    await this.end('SIGQUIT')
    rmSync(this.folder, { recursive: true, force: true })
  }

  /**
   * The folder of the small tablespace, as this process sees it. A file in it takes space from the server.
   */
  get tablespaceFolder(): string {
    return `/proc/${String(this.child?.pid)}/root${this.tablespace()}`
  }

  /** Every table and index that is created from now on lies in the small tablespace. */
  async useSmallTablespace(): Promise<void> {
    await this.query(`create tablespace small location '${this.tablespace()}'`)
    await this.query('alter database postgres set default_tablespace = small')
  }

  private settings(): Record<string, string | number> {
    const primary = this.options.replicaOf
    return {
      port: this.port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: 100,
      fsync: this.options.fsync === true ? 'on' : 'off',
      // A replica starts from the first record of the primary's log.
      wal_keep_size: '512MB',
      ...primary && { primary_conninfo: `host=127.0.0.1 port=${String(primary.port)} user=${POSTGRES_USER}` },
      ...this.options.settings,
    }
  }

  private tablespace(): string {
    return join(this.folder, 'small')
  }

  private quota(): boolean {
    return this.options.tablespaceBytes !== undefined
  }

  /** A mount in a namespace of its own ends with the server, however that ends. */
  private inNamespace(command: readonly string[]): readonly string[] {
    const { tablespaceBytes } = this.options
    if (tablespaceBytes === undefined) return command
    const { uid, gid } = NOBODY
    const options = [
      `size=${String(tablespaceBytes)}`,
      'mode=700',
      ...(uid === undefined ? [] : [`uid=${String(uid)}`]),
    ]
    const mount = `mkdir -p "$0" && mount -t tmpfs -o ${options.join(',')} none "$0" && exec "$@"`
    const script = ['sh', '-c', mount, this.tablespace()]
    if (uid !== undefined && gid !== undefined) {
      const become = ['setpriv', '--reuid', String(uid), '--regid', String(gid), '--clear-groups']
      return ['unshare', '--mount', ...script, ...become, ...command]
    }
    const { uid: user, gid: group } = userInfo()
    const become = ['unshare', '--user', `--map-user=${String(user)}`, `--map-group=${String(group)}`]
    return ['unshare', '--mount', '--user', '--map-root-user', ...script, ...become, ...command]
  }

  private processes(): readonly number[] {
    const server = this.child?.pid
    if (server === undefined || this.ended()) return []
    const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
    const pairs = lines.map((line) => line.trim().split(/\s+/).map(Number))
    return [server, ...pairs.flatMap(([pid, parent]) => parent === server && pid !== undefined ? [pid] : [])]
  }

  private async end(how: 'SIGINT' | 'SIGQUIT'): Promise<void> {
    const exited = this.exited()
    this.child?.kill(how)
    await exited
  }

  private ended(): boolean {
    return !this.child || this.child.exitCode !== null || this.child.signalCode !== null
  }

  private async exited(): Promise<void> {
    if (!this.child || this.ended()) return
    this.child.ref()
    await once(this.child, 'exit')
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended meanwhile.
  }
}
