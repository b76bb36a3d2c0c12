import { isHttpError } from 'longhaul'
import { ConfigError } from '../config.js'
import { sqlState, type Database } from './database.js'
import { openPostgres } from './postgres.js'
import type { Users } from './repository.js'
import { seededUsers } from './seed.js'
import { SqlUsers } from './sql-users.js'
import { createTable } from './table.js'

/** Maximum time that the start waits for PostgreSQL, in milliseconds. */
const START_MS = 3000

/**
 * Opens the users in a PostgreSQL. One that cannot be reached does not stop the start: requests get 503 until it answers.
 * Throws a `ConfigError` if PostgreSQL rejects the address: the password, the name of the database, the rights of the user.
 */
export async function openSqlUsers(database: string): Promise<Users> {
  const db = openPostgres(database)
  const withUsers = withTable(db)
  const late = new Promise<never>((_resolve, reject) => {
    setTimeout(() => { reject(new Error(`no answer within ${START_MS} ms`)) }, START_MS).unref()
  })
  try {
    await Promise.race([withUsers.query('SELECT 1'), late])
  } catch (error) {
    if (isRejected(error)) {
      await db.close()
      throw new ConfigError(`DATABASE: PostgreSQL does not accept this address: ${messageOf(error)}.`)
    }
    console.error(`PostgreSQL cannot be reached: ${messageOf(error)}. Requests get 503 until it can.`)
  }
  return new SqlUsers(withUsers)
}

/** Creates the table before the first statement. If that fails, the next statement tries again. */
function withTable(db: Database): Database {
  let created: Promise<void> | undefined
  const ready = (): Promise<void> => created ??= createTable(db, seededUsers()).catch((error: unknown) => {
    created = undefined
    throw error
  })
  return {
    ...db,
    query: async (text, values) => {
      await ready()
      return await db.query(text, values)
    },
    transaction: async (work) => {
      await ready()
      return await db.transaction(work)
    },
  }
}

/** True for an error that waiting cannot mend. `SASL:` begins the errors of `pg` for an address without the password. */
function isRejected(error: unknown): boolean {
  return sqlState(error) !== undefined || messageOf(error).startsWith('SASL:')
}

function messageOf(error: unknown): string {
  const { message } = isHttpError(error) && error.cause instanceof Error ? error.cause : error as Error
  return message
}
