import { MemoryUsers } from './memory-users.js'
import type { Users } from './repository.js'
import { seededUsers } from './seed.js'

/** Opens the users: `memory`, `pglite`, or those at a `postgres://` address. The last are kept; where there are none yet, they are made. */
export async function openUsers(database: string): Promise<Users> {
  if (database === 'memory') return new MemoryUsers(seededUsers())
  // Only those who ask for it load it.
  const { openSqlUsers } = await import('./open-sql.js')
  return await openSqlUsers(database)
}
