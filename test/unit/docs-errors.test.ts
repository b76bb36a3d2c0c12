import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ERROR_CODES } from '../../src/http/errors.js'

const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'errors.md'), 'utf8')
const rows = page
  .split('\n')
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .filter(([, code]) => /^`.*`$/.test(code ?? ''))

test('docs/errors.md has each code of the table once, with its status and in the same order', () => {
  assert.deepEqual(
    rows.map(([, code, status]) => `${status} ${code?.replaceAll('`', '')}`),
    Object.entries(ERROR_CODES).map(([code, [status]]) => `${status} ${code}`)
  )
})

test('each entry has a reason and a remedy', () => {
  for (const [, code, , when, what, end] of rows) {
    assert.ok(when && what && end === '', `${code} has an empty cell or one too many`)
  }
})
