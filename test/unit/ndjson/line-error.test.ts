import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { lineError } from '../../../src/ndjson/line-text.js'
import { excerptOf } from '../../../src/records/report.js'

describe('the excerpt of a bad line', () => {
  test('has 80 units, or 79 if the last one would be half of a character', () => {
    for (const char of ['\u{10000}', '\u{1f400}', '\u{10ffff}']) {
      for (let at = 76; at <= 84; at++) {
        const text = `${'x'.repeat(at)}${char}${'y'.repeat(20)}`
        assert.equal(excerptOf(text), at === 79 ? 'x'.repeat(79) : text.slice(0, 80), `${char} at ${at}`)
      }
    }
  })

  test('is the whole line if it is short', () => {
    for (const text of ['', '{', 'x'.repeat(79), 'x'.repeat(80)]) assert.equal(excerptOf(text), text)
  })
})

test('the position of an error is searched in lines of up to 4096 units', () => {
  const messageOf = (units: number): string => lineError(1, 'line_malformed', `{"a":"${'x'.repeat(units - 6)}`).message
  assert.equal(messageOf(4096), 'The line is not valid JSON: at character 4097, the closing double quote was expected.')
  assert.equal(messageOf(4097), 'The line is not valid JSON.')
})
