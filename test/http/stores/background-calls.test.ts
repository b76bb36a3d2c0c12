// The budget of calls of a background request, on the real databases.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { bulkCalls, CALL_BUDGETS, ndjsonCalls } from '../../kit/background-calls.js'
import { describeCalls, totalOf } from '../../kit/counted-calls.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { sqliteFolder, sqliteUrl } from '../../servers/sqlite.js'

for (const [database, url] of [['Redis', redisUrl], ['PostgreSQL', postgresUrl], ['SQLite', sqliteUrl]] as const) {
  describe(`calls of engine, store and blobs on ${database}`, () => {
    for (const [name, count] of [['bulk', bulkCalls], ['ndjson', ndjsonCalls]] as const) {
      test(`a background ${name} request of 1,000 records stays within its budget`, async (t) => {
        // Other tests leave tasks in the database, which this process would take and give back.
        const { parts, close } = openDatabase(await url(), { folder: sqliteFolder(), name: `calls_${name}` })
        t.after(close)
        const calls = await count(t, parts)
        t.diagnostic(describeCalls(calls))
        assert.ok(totalOf(calls) <= CALL_BUDGETS[name], describeCalls(calls))
      })
    }
  })
}
