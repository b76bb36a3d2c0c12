import type { Users } from './repository.js'
import { seededUsers } from './seed.js'
import { SqlUsers } from './sql-users.js'
import { createTable } from './table.js'

export async function openSqlUsers(database: string): Promise<Users> {
  const db = database === 'pglite'
    ? await (await import('./pglite.js')).openPglite()
    : (await import('./postgres.js')).openPostgres(database)
  try {
    await createTable(db, seededUsers())
  } catch (error) {
    await db.close()
    throw error
  }
  return new SqlUsers(db)
}
