import { RedisServer, say } from '../servers/redis-server.js'
import { startPostgres } from '../servers/postgres-server.js'

/** A server whose tasks the soak keeps, and which it breaks. */
export interface SoakServer {
  readonly port: number
  /** Its address by another port: that of a proxy. */
  url(port: number): string
  /** Gone without a word. `run` brings it back. */
  kill(): Promise<void>
  run(): Promise<void>
  /** Stops answering, without closing a connection. */
  freeze(): void
  thaw(): void
  /** Ends the connections of all clients. */
  drop(): Promise<void>
  /** Rejects every write: out of memory, or read only. */
  rejectWrites(on: boolean): Promise<void>
  stop(): Promise<void>
}

/** A Redis that writes each change to its disk. */
export async function redisServer(): Promise<SoakServer> {
  const redis = await RedisServer.start(['--appendonly', 'yes', '--appendfsync', 'always'])
  return {
    port: redis.port,
    url: (port) => `redis://127.0.0.1:${String(port)}`,
    kill: () => redis.kill(),
    run: () => redis.run(),
    freeze: () => { redis.freeze() },
    thaw: () => { redis.thaw() },
    drop: async () => {
      await say(redis.port, 'CLIENT KILL TYPE pubsub')
      await say(redis.port, 'CLIENT KILL TYPE normal')
    },
    rejectWrites: async (on) => { await say(redis.port, `CONFIG SET maxmemory ${on ? '1' : '0'}`) },
    stop: () => redis.stop(),
  }
}

/** A PostgreSQL that writes each commit to its disk. */
export async function postgresServer(): Promise<SoakServer> {
  const database = await startPostgres({ fsync: true })
  return {
    port: database.port,
    url: (port) => database.urlAt(port),
    kill: () => database.kill(),
    run: () => database.run(),
    freeze: () => { database.freeze() },
    thaw: () => { database.thaw() },
    drop: async () => {
      const sql = 'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = $1'
      await database.query(sql, ['client backend'])
    },
    rejectWrites: async (on) => {
      await database.query(`alter system set default_transaction_read_only = ${on ? 'on' : 'off'}`)
      await database.query('select pg_reload_conf()')
    },
    stop: () => database.stop(),
  }
}
