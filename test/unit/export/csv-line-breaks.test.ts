import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CsvText } from '../../../src/export/export-text.js'

function csvOf(value: string, escapeFormulas = true): string {
  const text = new CsvText<{ a: string }>({ columns: [{ key: 'a' }], escapeFormulas })
  text.addAll([{ a: value }])
  return text.take().toString()
}

test('a line break in a text never begins a line of the CSV, where the rest could be a formula', () => {
  for (const value of ['a\n=1+1', 'a\r=1+1', 'a\r\n=1+1', 'a\n', 'a\r']) {
    assert.equal(csvOf(value), `a\r\n"${value}"\r\n`)
  }
  for (const value of ['\n=1+1', '\r=1+1', '\r\n=1+1']) {
    assert.equal(csvOf(value), `a\r\n"'${value}"\r\n`)
  }
  assert.equal(csvOf('\n=1', false), 'a\r\n"\n=1"\r\n')
})
