import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { Sha256 } from '../../examples/reference-server/console/sha256.js'

test('the SHA-256 of the console counts more than 2^32 bits', () => {
  const piece = new Uint8Array(1 << 20).fill(7)
  const ours = new Sha256()
  const theirs = createHash('sha256')
  for (let at = 0; at < 513; at++) {
    ours.update(piece)
    theirs.update(piece)
  }
  assert.equal(ours.hex(), theirs.digest('hex'))
})
