import { Breaker } from '../../../src/stores/breaker.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { Connections, Query, Subscriber, Subscription } from '../connections.js'
import { faultOf, sqlState } from '../faults.js'
import { warnOfMissing } from '../missing-migrations.js'
import { bullSchema, isMigrated, migrateBull } from './schema.js'
import { Statements } from './statements.js'

/** Maximum time of BullMQ's migrations, in milliseconds. */
const MIGRATION_MS = 300_000

/** Options of a `JobDatabase`. */
export interface JobDatabaseOptions {
  /** Pool of the connections. */
  readonly pool: object
  readonly schema: string
  readonly migrate: boolean
  readonly timeoutMs: number
}

/**
 * BullMQ's access to the database of the host: deadlines, the circuit breaker, migrations at first
 * use. Errors of the connection are errors that BullMQ retries.
 */
export class JobDatabase {
  private readonly breaker: Breaker
  private readonly quoted: string
  private preparing: Promise<Statements> | undefined
  private statements: Statements | undefined

  constructor(
    private readonly connections: Connections, private readonly options: JobDatabaseOptions,
  ) {
    this.quoted = `"${bullSchema(options.schema)}"`
    this.breaker = new Breaker({ server: 'PostgreSQL', timeoutMs: options.timeoutMs, faultOf })
  }

  /** Applies or checks the migrations, once. Tries again at the next call if that failed. */
  async ready(): Promise<void> {
    if (this.statements === undefined) await this.prepare()
  }

  /** Runs a statement of BullMQ. */
  async bull<Row>(text: string, values?: readonly unknown[]): Promise<readonly Row[]> {
    const statements = this.statements ?? await this.prepare()
    const adapted = statements.adapt(text, values)
    return await this.run<Row>(adapted.text, adapted.values)
  }

  /** Runs a statement on BullMQ's tables. `{schema}` stands for their schema. */
  async query<Row>(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    await this.ready()
    return await this.run<Row>(text.replaceAll('{schema}', this.quoted), values)
  }

  /** Subscribes to a channel on a connection of its own. */
  listen(channel: string, subscriber: Subscriber): Promise<Subscription> {
    return this.connections.listen(channel, subscriber)
  }

  /** Runs a statement. Rejects with an error that BullMQ knows, or retries. */
  private async run<Row>(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    try {
      return await this.start<Row>(text, values)
    } catch (error) {
      throw toBullError(error)
    }
  }

  /** Runs a statement. Rejects with PostgreSQL's own error if there is one. */
  private async start<Row>(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    let cancel: (() => void) | undefined
    try {
      return await this.breaker.call(() => {
        const running = this.connections.start<Row>(text, values)
        cancel = () => { running.cancel() }
        return running.rows
      }, (rows) => rows, () => cancel?.())
    } catch (error) {
      const { cause } = error as Error
      throw sqlState(cause) === undefined ? error : cause
    }
  }

  private prepare(): Promise<Statements> {
    this.preparing ??= this.migrate().catch((error: unknown) => {
      throw toBullError(error)
    }).finally(() => {
      this.preparing = undefined
    })
    return this.preparing
  }

  private async migrate(): Promise<Statements> {
    const { schema, migrate } = this.options
    const query: Query = (text, values = []) => this.start(text, values)
    if (!await isMigrated(query, schema)) {
      if (!migrate) throw this.refuse()
      await this.connections.transaction(
        (transaction) => migrateBull(transaction, schema), MIGRATION_MS,
      )
    }
    this.statements = await Statements.of(schema)
    return this.statements
  }

  private refuse(): Error {
    const { pool, schema } = this.options
    const error = new StoreUnavailableError(
      `postgres: the schema "${bullSchema(schema)}" lacks migrations of BullMQ. `
      + `Run the SQL that \`npx longhaul migrate --print --schema ${schema}\` prints, `
      + 'or set migrate: true',
    )
    warnOfMissing(pool, schema, error)
    return error
  }
}

/** An error for which BullMQ waits and tries again. It tells such errors by their code. */
class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
  readonly code = 'ECONNREFUSED'
}

/**
 * Returns the error of PostgreSQL itself if BullMQ's function raised it: BullMQ knows its codes.
 * All others may be over soon. BullMQ would repeat such a call without a pause.
 */
function toBullError(error: unknown): Error {
  if (/^(?:BM|22|23)/.test(sqlState(error) ?? '')) return error as Error
  return new ConnectionError((error as Error).message, { cause: error })
}
