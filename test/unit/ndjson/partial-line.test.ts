import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import { PartialLine } from '../../../src/ndjson/line-text.js'

/** How many bytes it holds, used or not. */
function held(line: PartialLine): number {
  return (Object.values(line) as unknown[]).reduce<number>(
    (sum, each) => sum + (Buffer.isBuffer(each) ? each.byteLength : 0),
    0,
  )
}

const MAX = 1_000_000
const bytes = (length: number): Buffer => Buffer.alloc(length, 0x61)

describe('the stored beginning of a line', () => {
  test('holds at most twice the received bytes, or 1 KiB, and never more than the limit of a line', () => {
    const line = new PartialLine(MAX)
    const short = new PartialLine(1500)
    assert.equal(held(line), 0)
    for (let length = 1; length <= 20_000; length++) {
      line.add(bytes(1))
      assert.ok(held(line) >= length && held(line) <= Math.max(1024, 2 * length), `${held(line)} bytes for ${length}`)
      if (length > 1500) continue
      assert.equal(short.add(bytes(1)), undefined)
      assert.ok(held(short) <= 1500)
    }
    assert.equal(line.end()?.length, 20_000)
  })

  test('takes a larger buffer only when its buffer is full', () => {
    const allocate = mock.method(Buffer, 'allocUnsafeSlow')
    const counts: number[] = []
    try {
      const line = new PartialLine(MAX)
      for (let round = 0; round < 3; round++) {
        for (let at = 0; at < 4096; at++) line.add(bytes(1))
        assert.equal(line.end()?.length, 4096)
        counts.push(allocate.mock.callCount())
      }
    } finally {
      allocate.mock.restore()
    }
    assert.deepEqual(counts, [3, 3, 3], '1, 2 and 4 KiB, which serve the next lines as well')
  })

  test('releases its buffer if the buffer has more than 64 KiB', () => {
    for (const [length, kept] of [[65_536, 65_536], [65_537, 0], [MAX, 0]] as const) {
      const line = new PartialLine(MAX)
      line.add(bytes(length))
      assert.equal(held(line), length)
      assert.deepEqual(line.end(), bytes(length))
      assert.equal(held(line), kept, String(length))
    }
  })

  test('is released at once if the line becomes too long, and does not affect the next line', () => {
    const line = new PartialLine(MAX)
    assert.equal(line.add(bytes(MAX)), undefined)
    assert.equal(line.add(bytes(1))?.length, MAX)
    assert.deepEqual([held(line), line.begun], [0, true])
    assert.equal(line.end(), undefined)
    assert.deepEqual([held(line), line.begun], [0, false])
  })
})
