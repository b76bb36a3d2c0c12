import { isStoreUnavailable } from 'longhaul/stores'
import { ConfigError } from '../config.js'
import { openFile, untilFree, type OpenSqlite } from '../sqlite-file.js'
import type { Users } from './repository.js'
import { seededUsers } from './seed.js'
import { createTables } from './sqlite-table.js'
import { SqliteUsers } from './sqlite-users.js'

/**
 * Opens the users in a file of SQLite, and creates them if it has none. Several processes may do this at once. Throws a
 * `ConfigError` if there is no SQLite, or the file cannot be used.
 */
export async function openSqliteUsers(path: string): Promise<Users> {
  const opened: OpenSqlite[] = []
  const open = (): OpenSqlite => {
    const database = openFile(path)
    opened.push(database)
    return database
  }
  try {
    const [writes, reads] = [open(), open()]
    await untilFree(() => { prepare(writes) })
    return new SqliteUsers({ reads, writes })
  } catch (error) {
    for (const database of opened) database.close()
    const { message } = (isStoreUnavailable(error) && error.cause instanceof Error ? error.cause : error) as Error
    throw new ConfigError(`DATABASE: the file ${path} cannot be used: ${message}.`)
  }
}

function prepare(database: OpenSqlite): void {
  database.prepare('PRAGMA journal_mode = WAL').all()
  database.exec('PRAGMA synchronous = FULL')
  database.exec('BEGIN IMMEDIATE')
  try {
    createTables(database, seededUsers())
    database.exec('COMMIT')
  } catch (error) {
    database.exec('ROLLBACK')
    throw error
  }
}
