import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Memo } from '../../../src/runtime/collections.js'

test('a memoised text that is used again stays through a flood of other texts, and the size is limited', () => {
  const made: string[] = []
  const memo = new Memo((text) => {
    made.push(text)
    return { text }
  })
  const first = memo.get('often')
  for (let round = 0; round < 5000; round++) {
    memo.get(`flood ${round}`)
    assert.equal(memo.get('often'), first)
    assert.ok(memo.size <= 256)
  }
  assert.equal(made.filter((text) => text === 'often').length, 1)
})

test('the size of a memo includes the texts of both generations', () => {
  const memo = new Memo((text) => ({ text }))
  const sizes = Array.from({ length: 300 }, (_, at) => {
    memo.get(`text ${at}`)
    return memo.size
  })
  // The 257th takes the place of the oldest 128.
  assert.deepEqual([sizes[0], sizes[127], sizes[128], sizes[255], sizes[256], sizes[299]], [1, 128, 129, 256, 129, 172])
})

test('a memo keeps no long texts', () => {
  const memo = new Memo((text) => ({ text }))
  assert.equal(memo.get('x'.repeat(255)), memo.get('x'.repeat(255)))
  assert.notEqual(memo.get('x'.repeat(256)), memo.get('x'.repeat(256)))
  assert.equal(memo.size, 1)
})
