import { isSqlite, pathOf } from '../sqlite-file.js'
import { MemoryUsers } from './memory-users.js'
import type { Users } from './repository.js'
import { RoleRule } from './role-rule.js'
import { seededUsers } from './seed.js'

/**
 * Opens the users: `memory`, or those at a `sqlite:`, `redis://` or `postgres://` address. If the database has none,
 * the initial users are created.
 */
export async function openUsers(database: string): Promise<Users> {
  return new RoleRule(await open(database))
}

async function open(database: string): Promise<Users> {
  if (database === 'memory') return new MemoryUsers(seededUsers())
  // Loaded on demand.
  if (isSqlite(database)) return await (await import('./open-sqlite.js')).openSqliteUsers(pathOf(database))
  if (database.startsWith('redis')) return (await import('./open-redis.js')).openRedisUsers(database)
  return await (await import('./open-sql.js')).openSqlUsers(database)
}
