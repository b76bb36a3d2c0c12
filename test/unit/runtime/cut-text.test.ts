import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cutText } from '../../../src/runtime/text.js'

test('a text is cut visibly, and never inside of a surrogate pair', () => {
  assert.equal(cutText('abcde', 5), 'abcde')
  assert.equal(cutText('abcdef', 5), 'abcd…')
  assert.equal(cutText('abc😀ef', 5), 'abc…')
  assert.equal(cutText('ab😀def', 5), 'ab😀…')
  for (let max = 2; max < 12; max++) {
    const cut = cutText('😀'.repeat(10), max)
    assert.ok(cut.length <= max && cut.isWellFormed?.() !== false)
    assert.match(cut, /^(😀)*…$/u)
  }
})
