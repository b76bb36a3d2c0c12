import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileTypeOf } from '../../../src/tasks/definition/file-content.js'

test('a result file has a media type that a header can hold', () => {
  for (const type of ['text/csv', 'text/csv; charset=utf-8', 'a/b; c="\\""', 'text/plain; x="é"']) {
    assert.equal(fileTypeOf('a.txt', { type }), type)
  }
  // Such a file would be stored, and no client could ever download it.
  const refused = ['text/plain; x="日"', 'text/html\r\nX: y', 'text/plain; x="\0"', 'text', '']
  for (const type of refused) {
    assert.throws(() => { fileTypeOf('a.txt', { type }) }, TypeError, JSON.stringify(type))
  }
})
