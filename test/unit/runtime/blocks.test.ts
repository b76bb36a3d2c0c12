import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { Blocks } from '../../../src/runtime/text.js'

describe('Blocks', () => {
  test('return the bytes of any chunks, copied or kept, from any position', () => {
    const size = fc.oneof(
      fc.integer({ min: 0, max: 20 }),
      fc.constantFrom(16_383, 16_384, 40_000, 65_535, 65_536, 65_537, 150_000),
    )
    const added = fc.array(fc.tuple(size, fc.boolean()), { minLength: 1, maxLength: 8 })
    fc.assert(fc.property(added, fc.nat(), fc.nat(), fc.boolean(), (pieces, first, second, isShort) => {
      const blocks = new Blocks()
      const all: Uint8Array[] = []
      for (const [length, isKept] of pieces) {
        const piece = new Uint8Array(length).map((_, at) => (at + all.length * 7) % 251)
        all.push(piece)
        if (isKept) blocks.keep(piece)
        else blocks.add(piece)
      }
      const whole = Buffer.concat(all)
      assert.equal(blocks.size, whole.length)
      if (isShort) blocks.shorten()
      assert.ok(Buffer.concat([...blocks.pieces()]).equals(whole))
      const [start, end] = [first % (whole.length + 1), second % (whole.length + 1)].sort((a, b) => a - b) as [
        number,
        number,
      ]
      assert.ok(Buffer.concat([...blocks.pieces(start, end)]).equals(whole.subarray(start, end)))
    }), { numRuns: 300 })
  })

  test('keep a large piece without a copy, and copy small ones and small parts of a buffer', () => {
    const kept = (piece: Uint8Array): boolean => {
      const blocks = new Blocks()
      blocks.keep(piece)
      return [...blocks.pieces()][0]?.buffer === piece.buffer
    }
    assert.equal(kept(new Uint8Array(65_536)), true)
    assert.equal(kept(new Uint8Array(16_384)), true)
    assert.equal(kept(new Uint8Array(16_383)), false)
    assert.equal(kept(new Uint8Array(1_000_000).subarray(0, 65_536)), false)
  })
})
