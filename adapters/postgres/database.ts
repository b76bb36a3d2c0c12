import {
  duration, flag, readOptions, value, type Filled, type OptionTable,
} from '../../src/runtime/options.js'
import { Breaker, reasonOf } from '../../src/stores/calls.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { Connections, type PostgresPool, type Query, type Running } from './connections.js'
import { applyMigrations, missingMigrations, quoted, SCHEMA } from './migrations.js'
import { NoticeChannel } from './notices.js'
import { faultOf, isLostConnection } from './sql.js'

/** Least time that the check of the tables at first use may take, in milliseconds. */
const CHECK_MS = 5000
/** Maximum time of the migrations and of background work, in milliseconds. */
const BACKGROUND_MS = 30_000

/** Options of the access to a database. */
export interface DatabaseOptions {
  /** Your `pg.Pool`. You close it yourself. */
  readonly pool: PostgresPool
  /**
   * Schema of the tables: 1 to 40 of `a-z 0-9 _`. Default `longhaul`.
   *
   * Each application on one database needs its own.
   */
  readonly schema?: string
  /**
   * `true` creates and changes the tables at the first use. `false` only checks them: if a
   * migration is missing, every call fails and says which. Default `true`.
   */
  readonly migrate?: boolean
  /**
   * Maximum time of one call, in milliseconds. Default 1500. The first call may also wait for the
   * creation of the tables, for at most 30 seconds.
   *
   * A slower call fails.
   */
  readonly timeoutMs?: number
  /**
   * Prepares each statement once for each connection. Not behind a pooler in transaction mode,
   * unless it supports prepared statements. Default `false`.
   *
   * PgBouncer supports them from 1.21 with `max_prepared_statements`.
   */
  readonly preparedStatements?: boolean
}

export const DATABASE_OPTIONS = {
  pool: value(),
  schema: SCHEMA,
  migrate: flag({ default: true }),
  timeoutMs: duration({ min: 10, max: 60_000, default: 1500 }),
  preparedStatements: flag({ default: false }),
} satisfies OptionTable<DatabaseOptions>

/** Access to the database for the engine, the store and the blobs: time limits, migrations at first use. */
export class Database {
  /** Schema, quoted as an identifier. */
  readonly schema: string
  readonly channel: NoticeChannel
  /**
   * Runs one statement, which commits by itself, after the migrations. Rejects with a
   * `StoreUnavailableError` if it fails or is late.
   */
  readonly query: Query
  /** Runs a statement that carries much data, like `query`. It may take twice as long. */
  readonly transfer: Query
  /** Runs a statement that no request waits for, like `query`. It may take 30 seconds. */
  readonly background: Query
  private readonly options: Filled<DatabaseOptions, typeof DATABASE_OPTIONS>
  private readonly connections: Connections
  private readonly breaker: Breaker
  private readonly backgrounds: Breaker
  private isReady = false
  private identity: string | undefined
  private preparing: Readonly<Record<'checked' | 'created', Promise<unknown>>> | undefined

  /** @throws {TypeError} An option is not valid. */
  constructor(options: DatabaseOptions) {
    this.options = readOptions('postgres', options, DATABASE_OPTIONS)
    const { pool, schema, timeoutMs, preparedStatements } = this.options
    this.connections = new Connections(pool, preparedStatements)
    this.schema = quoted(schema)
    const breakerOf = (ms: number): Breaker => new Breaker({
      server: 'PostgreSQL', faultOf, hasManyConnections: true, timeoutMs: ms,
    })
    this.breaker = breakerOf(timeoutMs)
    this.backgrounds = breakerOf(BACKGROUND_MS)
    this.query = this.through(this.breaker)
    this.transfer = this.through(breakerOf(2 * timeoutMs))
    this.background = this.through(this.backgrounds)
    this.channel = new NoticeChannel(this.connections, `${schema}.changes`, this.query)
  }

  /**
   * Runs a statement like `query`, and repeats it once if the connection was lost before the reply.
   */
  readonly repeated: Query = <Row>(text: string, values?: readonly unknown[]) => (
    this.query<Row>(text, values).catch((error: unknown) => {
      if (isLostConnection((error as Error).cause)) return this.query<Row>(text, values)
      throw error
    })
  )

  /** Waits for the migrations. */
  async ready(): Promise<void> {
    if (!this.isReady) await this.query('SELECT 1')
  }

  async isIdentity(identity: string): Promise<boolean> {
    // The identity changes if the database is restored.
    if (this.identity !== identity) this.identity = await this.readIdentity(this.query)
    return this.identity === identity
  }

  private through(breaker: Breaker): Query {
    return async <Row>(text: string, values: readonly unknown[] = []) => {
      if (!this.isReady) await this.prepare()
      let running: Running<readonly Row[]> | undefined
      return breaker.call(() => {
        running = this.connections.start<Row>(text, values)
        return running.result
      }, (rows) => rows, () => running?.cancel())
    }
  }

  /**
   * Waits for the check of the tables, as long as for a call, and then for their creation. All calls
   * share one check, which continues after the time limit of a call.
   */
  private async prepare(): Promise<void> {
    if (!this.preparing) {
      const checked = this.checkTables()
      const created = checked.then((missing) => this.createTables(missing))
      const end = (): void => { this.preparing = undefined }
      void created.then(end, end)
      this.preparing = { checked, created }
    }
    const { checked, created } = this.preparing
    await this.breaker.call(() => checked, () => undefined)
    await created
  }

  /** Returns the missing migrations, if they may be applied. */
  private async checkTables(): Promise<readonly unknown[]> {
    const { connections, options: { schema, migrate, timeoutMs } } = this
    // Reads the identity now, so that no open transaction has to wait for another connection.
    const missing = await connections.transaction(async (query) => {
      await checkValues(query)
      const found = await missingMigrations(query, schema)
      if (found.length === 0) this.identity = await this.readIdentity(query)
      return found
    }, Math.max(CHECK_MS, timeoutMs))
    if (missing.length > 0 && !migrate) {
      const names = missing.map(({ number, name }) => `${String(number)} "${name}"`).join(', ')
      throw new StoreUnavailableError(
        `postgres: the schema "${schema}" lacks the migrations ${names}. Run the SQL that `
        + `\`npx longhaul migrate --print --schema ${schema}\` prints, or set migrate: true`,
      )
    }
    return missing
  }

  private async createTables(missing: readonly unknown[]): Promise<void> {
    if (missing.length > 0) {
      await this.backgrounds.call(() => this.connections.transaction(async (query) => {
        await applyMigrations(query, this.options.schema)
        this.identity = await this.readIdentity(query)
      }, BACKGROUND_MS), () => undefined).catch((error: unknown) => { throw notOfThisCall(error) })
    }
    this.isReady = true
  }

  private async readIdentity(query: Query): Promise<string | undefined> {
    const [row] = await query<{ readonly identity: string }>(identitySql(this.schema))
    return row?.identity
  }
}

/** Returns the error of a migration that was rejected. The call that began it is not at fault. */
function notOfThisCall(error: unknown): unknown {
  if (!(error instanceof TypeError)) return error
  return new StoreUnavailableError(`A migration failed: ${reasonOf(error.cause)}`, { cause: error.cause })
}

/** A time in milliseconds, which the binary parser of `pg` reads as another number. */
const TIME = 1_795_747_375_123

/** @throws {TypeError} The database does not keep every character, or `pg` does not read every number. */
async function checkValues(query: Query): Promise<void> {
  const [row] = await query<{ readonly encoding: string, readonly time: unknown }>(
    // With a parameter, because only such statements have binary results.
    'SELECT current_setting(\'server_encoding\') AS encoding, $1::float8 AS time', [TIME],
  )
  if (row?.encoding !== 'UTF8') {
    throw new TypeError(`postgres: the database has the encoding ${String(row?.encoding)}, and must have `
      + 'UTF8. Create one: CREATE DATABASE name ENCODING \'UTF8\' TEMPLATE template0')
  }
  if (Number(row.time) === TIME) return
  throw new TypeError('postgres: pool returns a number of the type float8 as another number. Remove '
    + 'binary: true from its options, or your parser of this type')
}

/**
 * Returns the SQL of the identity of a database: the id of its tables, and its number, which differs
 * for a copy on the same server.
 *
 * @param schema - quoted as an identifier
 */
export function identitySql(schema: string): string {
  return 'SELECT id || \'/\' || (SELECT oid FROM pg_database WHERE datname = current_database()) '
    + `AS identity FROM ${schema}.installation`
}
