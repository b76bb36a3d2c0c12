import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RecordText } from '../../../src/ndjson/record-text.js'
import { syncPieces } from '../../../src/ndjson/record-text.js'

test('records of a synchronous source are never flushed, because a flush costs compression and waits for the engine', async () => {
  const records = Array.from({ length: 2000 }, (_, id) => ({ id, text: 'x'.repeat(100) }))
  for (const source of [records, [records], [records[0] as object]]) {
    const flushes: boolean[] = []
    for await (const { flush } of syncPieces<object>(source, new RecordText<object>(JSON.stringify, 'lines')))
      flushes.push(flush)
    assert.ok(
      source.length === 1 && source[0] !== records ? flushes.length === 1 : flushes.length > 3,
      `${flushes.length} pieces`,
    )
    assert.ok(
      flushes.every((flush) => !flush),
      flushes.join(),
    )
  }
})
