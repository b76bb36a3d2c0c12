import assert from 'node:assert/strict'
import { test } from 'node:test'
import { heapBytesOf } from '../../../src/runtime/json.js'

test('the estimate of the heap of a parsed value counts objects, arrays, keys, text and numbers', () => {
  const empty = heapBytesOf([])
  assert.equal(heapBytesOf([{}, {}]) - heapBytesOf([{}]), 64)
  assert.equal(heapBytesOf([[]]), 2 * empty)
  assert.equal(heapBytesOf([1]) - empty, 16)
  assert.ok(heapBytesOf(['x'.repeat(1000)]) - empty >= 2000)
  assert.ok(heapBytesOf({ key: null }) - heapBytesOf({}) >= 48)
})
