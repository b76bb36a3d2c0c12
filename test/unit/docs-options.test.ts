import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { optionsReference } from '../../scripts/options-reference.mjs'

test('docs/guide/options.md is what the docstrings say; if it is not, run npm run options', () => {
  const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'guide', 'options.md'), 'utf8')
  assert.equal(page, optionsReference())
})
