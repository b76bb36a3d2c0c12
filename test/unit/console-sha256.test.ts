import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { Sha256 } from '../../examples/reference-server/console/sha256.js'

const expected = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

describe('the SHA-256 of the console', () => {
  test('gives what node:crypto gives, however the bytes come', () => {
    fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 8 }), (pieces) => {
      const hash = new Sha256()
      for (const piece of pieces) hash.update(piece)
      assert.equal(hash.hex(), expected(Buffer.concat(pieces)))
    }))
  })

  test('is right at each length around a block', () => {
    for (let length = 0; length <= 130; length++) {
      const bytes = Uint8Array.from({ length }, (_, at) => (at * 31 + 200) % 256)
      const hash = new Sha256()
      hash.update(bytes)
      assert.equal(hash.hex(), expected(bytes), `${length} bytes`)
    }
  })
})
