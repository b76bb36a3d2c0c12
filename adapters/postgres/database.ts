import { within } from '../../src/runtime/timers.js'
import { warn } from '../../src/runtime/warning.js'
import { Breaker } from '../../src/stores/calls.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import type { PgliteClient, PostgresPool } from './client.js'
import type { Connections, Query, Running } from './connections.js'
import { connectionsOf } from './connections-of.js'
import { faultOf, isLostConnection } from './faults.js'
import type { ChannelAccess } from './changes/monitored-channel.js'
import { applyMigrations, missingMigrations } from './migrations/migrate.js'
import { checkSchema, quoted } from './migrations/sql.js'

/** Maximum time of the migrations at first use, in milliseconds. */
const MIGRATION_MS = 30_000
/** Maximum time of one statement that checks the tables at first use, in milliseconds. */
const CHECK_MS = 5000
/** Maximum time of a statement that no request waits for, in milliseconds. */
const BACKGROUND_MS = 30_000

/** Schemas with missing migrations that were reported, by pool. */
const reported = new WeakMap<object, Set<string>>()

/** Options of the access to a database. */
export interface DatabaseOptions {
  /** Your `pg.Pool`, or a `PGlite`. You close it yourself. */
  readonly pool: PostgresPool | PgliteClient
  /**
   * Schema of the tables: 1 to 40 of `a-z 0-9 _`. Each application on one database needs its own.
   * Default `longhaul`.
   */
  readonly schema?: string
  /**
   * `true` creates and changes the tables at the first use. `false` only checks them: if a
   * migration is missing, every call fails and says which. Default `true`.
   */
  readonly migrate?: boolean
  /** Maximum time of one call, in milliseconds. A slower call fails. Default 1500. */
  readonly timeoutMs?: number
  /**
   * Prepares each statement once for each connection, which halves the CPU time of the server. Not
   * behind a pooler in transaction mode, unless it supports prepared statements, as PgBouncer does
   * from 1.21 with `max_prepared_statements`. Default `false`.
   */
  readonly preparedStatements?: boolean
}

/**
 * All access to the database of the host: deadlines, the circuit breaker, migrations at first use.
 * The task engine, the store and the blobs of one `postgres()` share it.
 */
export class Database {
  /** True if other processes see the same data. */
  readonly shared: boolean
  /** Schema, quoted as an identifier. */
  readonly schema: string
  private readonly pool: object
  private readonly name: string
  private readonly migrate: boolean
  private readonly connections: Connections
  private readonly breaker: Breaker
  private readonly transfers: Breaker
  private isReady = false
  /** Read at the first use, so that no transaction of the host has to wait for another connection. */
  private identity: string | undefined
  private preparing: Promise<void> | undefined

  /** @throws {TypeError} An option is not valid. */
  constructor(
    {
      pool, schema = 'longhaul', migrate = true, timeoutMs = 1500, preparedStatements = false,
    }: DatabaseOptions,
  ) {
    checkSchema('postgres', schema)
    if (!(timeoutMs >= 10 && timeoutMs <= 60_000)) {
      throw new TypeError('postgres: timeoutMs must be from 10 to 60000')
    }
    this.pool = pool
    this.connections = connectionsOf(pool, preparedStatements)
    this.shared = this.connections.shared
    this.name = schema
    this.schema = quoted(schema)
    this.migrate = migrate
    const breaker = { server: 'PostgreSQL', faultOf, hasManyConnections: this.shared }
    this.breaker = new Breaker({ ...breaker, timeoutMs })
    this.transfers = new Breaker({ ...breaker, timeoutMs: 2 * timeoutMs })
  }

  /**
   * Runs one statement, which commits by itself. Waits for the migrations at first. Rejects with a
   * `StoreUnavailableError` if it fails or is late.
   */
  readonly query: Query = <Row>(text: string, values: readonly unknown[] = []) => (
    this.guarded<Row>(this.breaker, text, values)
  )

  /**
   * As `query`, for a statement that carries much data. It may take twice as long. If it is late,
   * that says nothing about the server to calls without data.
   */
  readonly transfer: Query = <Row>(text: string, values: readonly unknown[] = []) => (
    this.guarded<Row>(this.transfers, text, values)
  )

  /**
   * As `query`, for a statement that may run twice. Runs it again, once, if the connection was lost
   * before the reply.
   */
  readonly repeated: Query = <Row>(text: string, values?: readonly unknown[]) => (
    this.query<Row>(text, values).catch((error: unknown) => {
      if (error instanceof Error && isLostConnection(error.cause)) {
        return this.query<Row>(text, values)
      }
      throw error
    })
  )

  /**
   * As `query`, for work that no request waits for. It may take 30 seconds, and says nothing about
   * the server to other calls.
   */
  readonly background: Query = async <Row>(text: string, values: readonly unknown[] = []) => {
    if (!this.isReady) await this.prepare()
    return withDeadline(this.connections.start<Row>(text, values), BACKGROUND_MS)
  }

  /** As `query`, before the migrations were checked. */
  private readonly check: Query = <Row>(text: string, values: readonly unknown[] = []) => (
    withDeadline(this.connections.start<Row>(text, values), CHECK_MS)
  )

  /** Returns the access to a channel of this schema. */
  channel(name: string): ChannelAccess {
    return {
      listen: (subscriber) => this.connections.listen(`${this.name}.${name}`, subscriber),
      send: (payload) => this.notify(name, [payload]),
    }
  }

  /** Sends notices on a channel of this schema, in a transaction of their own. */
  async notify(channel: string, payloads: readonly string[]): Promise<void> {
    await this.query(
      'SELECT pg_notify($1::text, payload) FROM unnest($2::text[]) AS payload',
      [`${this.name}.${channel}`, payloads],
    )
  }

  /** Waits for the migrations. A transaction of the host must find the tables. */
  async ready(): Promise<void> {
    if (!this.isReady) await this.query('SELECT 1')
  }

  /** Returns true if a transaction that reads this identity belongs to this database. */
  async isIdentity(identity: string): Promise<boolean> {
    if (this.identity === identity) return true
    // It changes if the database is restored.
    const [row] = await this.query<{ readonly identity: string }>(identitySql(this.schema))
    this.identity = row?.identity
    return this.identity === identity
  }

  private guarded<Row>(
    breaker: Breaker, text: string, values: readonly unknown[],
  ): Promise<readonly Row[]> {
    let isLate = false
    let cancel: (() => void) | undefined
    return breaker.call(async () => {
      if (!this.isReady) await this.prepare()
      if (isLate) return []
      const running = this.connections.start<Row>(text, values)
      cancel = () => { running.cancel() }
      return running.rows
    }, (rows) => rows, () => {
      isLate = true
      cancel?.()
    })
  }

  /** Checks or applies the migrations. Runs once at a time, and again after a failure. */
  private prepare(): Promise<void> {
    this.preparing ??= this.checkMigrations().then(async () => {
      const [row] = await this.check<{ readonly identity: string }>(identitySql(this.schema))
      this.identity = row?.identity
      this.isReady = true
    }).finally(() => {
      this.preparing = undefined
    })
    return this.preparing
  }

  private async checkMigrations(): Promise<void> {
    const missing = await missingMigrations(this.check, this.name)
    if (missing.length === 0) return
    if (this.migrate) {
      await this.connections.transaction(
        (transaction) => applyMigrations(transaction, this.name), MIGRATION_MS,
      )
      return
    }
    const names = missing.map(({ number, name }) => `${String(number)} ${name}`).join(', ')
    const error = new StoreUnavailableError(
      `postgres: the schema "${this.name}" lacks the migrations ${names}. `
      + `Run the SQL that \`npx longhaul migrate --print --schema ${this.name}\` prints, `
      + 'or set migrate: true',
    )
    warnOfMissing(this.pool, this.name, error)
    throw error
  }
}

/** Cancels a statement that is not done after `ms` milliseconds, and rejects. */
function withDeadline<Row>(running: Running<Row>, ms: number): Promise<readonly Row[]> {
  return within(running.rows, ms, () => {
    running.cancel()
    return new StoreUnavailableError(`PostgreSQL has not answered within ${String(ms)} ms`)
  })
}

/**
 * Returns the SQL that identifies a database: the id of its tables, and the number of the database,
 * which differs for a copy on the same server.
 *
 * @param schema - quoted as an identifier
 */
export function identitySql(schema: string): string {
  return 'SELECT id || \'/\' || (SELECT oid FROM pg_database WHERE datname = current_database()) '
    + `AS identity FROM ${schema}.installation`
}

/**
 * Reports that a schema lacks migrations as a warning of the process. Reports each schema of a pool
 * once, because engine, store and blobs of one `postgres()` lack the same migrations.
 */
function warnOfMissing(pool: object, schema: string, error: Error): void {
  const schemas = reported.get(pool) ?? new Set()
  reported.set(pool, schemas)
  if (!schemas.has(schema)) warn(error)
  schemas.add(schema)
}
