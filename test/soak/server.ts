import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { snapshot } from '../conformance/sqlite-fixture.js'
import { RedisServer, say } from '../servers/redis-server.js'
import { openSqlite } from '../servers/sqlite.js'
import { startPostgres } from '../servers/postgres-server.js'

/** A fault that ends after some milliseconds. */
export interface Fault {
  /** How often it is chosen, in relation to the others. */
  readonly weight: number
  readonly cause: (ms: number) => Promise<void>
}

/** Where the tasks of the soak are. The soak breaks it. */
export interface SoakServer {
  /** Absent for a file. */
  readonly port?: number
  /** Its address by another port: that of a proxy. */
  url(port?: number): string
  /** Faults of the server itself. */
  readonly faults: Readonly<Record<string, Fault>>
  /**
   * Prepares the loss of all that is acknowledged from now on. The result loses it. It calls `freeze`
   * before, at a moment at which a process can be frozen without a lock.
   */
  mayLose(): Promise<(freeze: () => void) => Promise<void>>
  stop(): Promise<void>
}

/** What a server process can do that has died, hangs or takes no writes. */
interface Breakable {
  kill(): Promise<void>
  run(): Promise<void>
  freeze(): void
  thaw(): void
}

function serverFaults(
  server: Breakable, drop: () => Promise<unknown>, rejectWrites: (on: boolean) => Promise<unknown>,
): SoakServer['faults'] {
  return {
    killServer: { weight: 3, cause: async (ms) => {
      await server.kill()
      await sleep(ms)
      await server.run()
    } },
    pauseServer: { weight: 3, cause: async (ms) => {
      server.freeze()
      await sleep(ms)
      server.thaw()
    } },
    rejectWrites: { weight: 2, cause: async (ms) => {
      await rejectWrites(true)
      await sleep(ms / 2)
      await rejectWrites(false)
    } },
    dropConnections: { weight: 2, cause: async () => { await drop() } },
  }
}

/** A Redis that writes each change to its disk. With an older copy of its files it loses data. */
export async function redisServer(): Promise<SoakServer> {
  const redis = await RedisServer.start(['--appendonly', 'yes', '--appendfsync', 'always'])
  const drop = async (): Promise<void> => {
    await say(redis.port, 'CLIENT KILL TYPE pubsub')
    await say(redis.port, 'CLIENT KILL TYPE normal')
  }
  const rejectWrites = (on: boolean): Promise<unknown> => (
    say(redis.port, `CONFIG SET maxmemory ${on ? '1' : '0'}`)
  )
  return {
    port: redis.port,
    url: (port = redis.port) => `redis://127.0.0.1:${String(port)}`,
    faults: serverFaults(redis, drop, rejectWrites),
    mayLose: async () => {
      const [files, copy] = [join(redis.dir, 'appendonlydir'), join(redis.dir, 'copy')]
      cpSync(files, copy, { recursive: true })
      return async (freeze) => {
        freeze()
        await redis.kill()
        rmSync(files, { recursive: true })
        cpSync(copy, files, { recursive: true })
        await redis.run()
      }
    },
    stop: () => redis.stop(),
  }
}

/** A PostgreSQL that writes each commit to its disk. Without `synchronous_commit` it loses data. */
export async function postgresServer(): Promise<SoakServer> {
  const database = await startPostgres({ fsync: true })
  const set = async (setting: string): Promise<void> => {
    await database.query(`alter system set ${setting}`)
    await database.query('select pg_reload_conf()')
  }
  const drop = (): Promise<unknown> => {
    const sql = `select pg_terminate_backend(pid) from pg_stat_activity
      where pid <> pg_backend_pid() and backend_type = 'client backend'`
    return database.query(sql)
  }
  const rejectWrites = (on: boolean): Promise<void> => (
    set(`default_transaction_read_only = ${on ? 'on' : 'off'}`)
  )
  return {
    port: database.port,
    url: (port = database.port) => database.urlAt(port),
    faults: serverFaults(database, drop, rejectWrites),
    mayLose: async () => {
      await set('synchronous_commit = off')
      await database.query('checkpoint')
      // Without this process, commits stay in the memory of the server.
      const sql = "select pid from pg_stat_activity where backend_type = 'walwriter'"
      const [writer] = await database.query(sql)
      process.kill(Number(writer?.['pid']), 'SIGSTOP')
      return async (freeze) => {
        freeze()
        await database.kill()
        await database.run()
      }
    },
    stop: () => database.stop(),
  }
}

/** A file of SQLite. It loses data as one whose tables get older rows. */
export function sqliteFile(path: string): SoakServer {
  const lock = openSqlite(path)
  return {
    url: () => `sqlite:${path}`,
    faults: {
      lockFile: { weight: 3, cause: async (ms) => {
        lock.exec('PRAGMA busy_timeout = 5000')
        lock.exec('BEGIN IMMEDIATE')
        await sleep(ms)
        lock.exec('ROLLBACK')
      } },
    },
    mayLose: async () => snapshot(path),
    stop: async () => { lock.close() },
  }
}
