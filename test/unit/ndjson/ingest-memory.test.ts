// Uploads that continue: what is held between two commits has a limit, whatever a client sends.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { ndjsonUpload } from '../../../src/ndjson/index.js'
import type { RecordPosition } from '../../../src/records/position.js'
import { testContext } from '../../../src/testing/index.js'

const MIB = 1_048_576
const BLOB = `ndjson-upload/${'a'.repeat(22)}`

const byteOf = ({ place }: RecordPosition): number => (place as { byte: number } | undefined)?.byte ?? 0

/** Reads a body. Returns the positions that were committed, and the most bytes that waited for one. */
async function read(line: string, bytes: number, maxLines?: number) {
  const { blobs } = memory()
  let sent = 0
  let waiting = 0
  async function* body(): AsyncGenerator<Uint8Array> {
    const chunk = Buffer.from(line.repeat(16_384 / line.length))
    for (; sent < bytes; sent += chunk.byteLength) {
      const last = context.saved.at(-1)
      waiting = Math.max(waiting, sent - (last === undefined ? 0 : byteOf(last as RecordPosition)))
      yield chunk
    }
  }
  const put = blobs.put.bind(blobs)
  const watched = Object.assign(Object.create(blobs) as typeof blobs, {
    put,
    open: async (key: string) => (key.includes('.part') ? undefined : body()),
  })
  const { task } = ndjsonUpload({
    write: () => undefined, ...maxLines !== undefined && { maxLines }, background: { name: 'up', blobs: watched },
  })
  const context = testContext(task)
  const result = await task.run({ blob: BLOB, coding: 'identity', size: bytes }, context)
  return { positions: context.saved as RecordPosition[], result, waiting }
}

describe('an upload that continues', () => {
  test('commits its position after each MiB of blank lines', async () => {
    const { positions, waiting } = await read('\n', 16 * MIB)
    assert.ok(positions.length >= 14, `${positions.length} commits`)
    assert.ok(waiting <= 3 * MIB, `${waiting} bytes waited for a commit`)
    const last = positions.at(-1)
    assert.equal((last?.place as { lines: number } | undefined)?.lines, byteOf(last as RecordPosition))
  })

  test('counts blank lines toward maxLines while they arrive', async () => {
    await assert.rejects(read('\n', 4 * MIB, 1000), { code: 'body_too_large' })
  })

  test('counts every bad line, and keeps only a few', async () => {
    const { result, waiting } = await read('x\n', 4 * MIB)
    assert.deepEqual(result.summary, { total: 2 * MIB, succeeded: 0, failed: 2 * MIB })
    assert.equal(result.items.length, 100)
    assert.deepEqual(result.items.map(({ line }) => line), Array.from({ length: 100 }, (_, at) => at + 1))
    assert.ok(waiting <= 3 * MIB, `${waiting} bytes waited for a commit`)
  })
})
