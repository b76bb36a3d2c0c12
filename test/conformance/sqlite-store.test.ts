import { join } from 'node:path'
import * as runner from 'node:test'
import { storeConformance } from 'longhaul/conformance'
import { Database } from '../../adapters/sqlite/database.js'
import { SqliteStore } from '../../adapters/sqlite/store.js'
import { openSqlite, sqliteFolder } from '../servers/sqlite.js'

const path = join(sqliteFolder(), 'store.db')

function open(): SqliteStore {
  const database = new Database({ database: openSqlite(path), synchronous: 'normal', timeoutMs: 3000 })
  return new SqliteStore(database, { maxEntries: 20, maxBytes: 16_000 })
}

storeConformance(runner, async () => ({ store: open(), second: open() }), {
  title: 'SqliteStore', toleranceMs: 100, callerShare: { entries: 20, bytes: 16_000 },
})
