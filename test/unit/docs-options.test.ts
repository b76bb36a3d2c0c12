import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { agrees, differentDefaults } from '../../scripts/option-defaults.mjs'
import { optionsReference } from '../../scripts/options-reference.mjs'

test('docs/guide/options.md equals the output of npm run options', () => {
  const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'guide', 'options.md'), 'utf8')
  assert.equal(page, optionsReference())
})

test('each option has the same default in its table and in its docstring', () => {
  assert.deepEqual(differentDefaults(), [])
})

test('a default may be written with spaces, commas or a unit', () => {
  for (const [said, value] of [
    ['10 000', 10_000],
    ['10,000', 10_000],
    ['1 MiB', 1_048_576],
    ['one day', 86_400_000],
    ['30 s', 30_000],
    ['no limit', Infinity],
    ["`'cancel'`", 'cancel'],
    ['`true`', true],
  ] as const)
    assert.ok(agrees(said, value), said)
  for (const [said, value] of [
    ['', 5],
    ['6', 5],
    ['1 KiB', 1000],
    ['10', Infinity],
    ["`'cancel'`", 'forget'],
  ] as const) {
    assert.ok(!agrees(said, value), said)
  }
})
