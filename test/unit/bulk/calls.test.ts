// The budget of calls of a background request on memory. test/http/stores/background-calls.test.ts has the databases.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { bulkCalls, CALL_BUDGETS, ndjsonCalls } from '../../kit/background-calls.js'
import { describeCalls, totalOf } from '../../kit/counted-calls.js'

describe('calls of engine, store and blobs', () => {
  for (const [name, count] of [['bulk', bulkCalls], ['ndjson', ndjsonCalls]] as const) {
    test(`a background ${name} request of 1,000 records stays within its budget`, async (t) => {
      const parts = memory()
      t.after(async () => {
        await parts.blobs.close()
        await parts.store.close()
      })
      const calls = await count(t, parts)
      t.diagnostic(describeCalls(calls))
      assert.ok(totalOf(calls) <= CALL_BUDGETS[name], describeCalls(calls))
    })
  }
})
