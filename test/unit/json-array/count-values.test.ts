import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { countValues } from '../../../src/json-array/count-values.js'

/** Counts the values of a text that is a part of the bytes, as in a body. */
function count(text: string): number {
  const bytes = Buffer.from(`[${text},`)
  return countValues(bytes, 1, bytes.length - 1)
}

function parsedCount(text: string): number | undefined {
  try {
    return (JSON.parse(`[${text}]`) as unknown[]).length
  } catch {
    return undefined
  }
}

const VALUES = [
  '0', '-0', '-1.5e+10', '1E5', '10', '0.0', 'true', 'false', 'null', '""', '"a\\"b"', '"\\u00Fc"', '"é\u2028\u007f"',
  '{}', '[]', ' [ ] ', '{ "a" : [ 1 , { } ] , "b":\t"}" }\r\n', '[[],{"":[]}]',
]
const FAULTS = [
  '',
  ' ',
  '01',
  '-',
  '1.',
  '.5',
  '1e',
  '1e+',
  '+1',
  'tru',
  'nul',
  'truee',
  'NaN',
  '"',
  '"\\x"',
  '"\\u12g4"',
  '"\n"',
  '"\u0000"',
  '"\\"',
  '{',
  '}',
  '[1',
  '1]',
  '[1}',
  '{1:2}',
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  '[1,]',
  '[,1]',
  ',1',
  '1,',
  '1,,2',
  '1 2',
  '{"a" 1}',
  '{a:1}',
  '\uFEFF1',
  "'a'",
  '],[',
]

describe('countValues', () => {
  test('counts values of each kind', () => {
    for (const value of VALUES) assert.equal(count(value), 1, value)
    assert.equal(count(VALUES.join(',')), VALUES.length)
  })

  test('returns -1 for a fault, and for no value', () => {
    for (const fault of FAULTS) {
      assert.equal(count(fault), -1, fault)
      if (fault.trim() !== '') assert.equal(parsedCount(fault), undefined, fault)
    }
  })

  test('accepts no more texts than JSON.parse does, and counts the values of the accepted ones', () => {
    const pieces = fc.constantFrom(
      ...VALUES,
      ...FAULTS,
      ',',
      ',',
      ':',
      '{"k":',
      '"k"',
      '{',
      '}',
      '[',
      ']',
      ' ',
      '\\',
      '1',
    )
    fc.assert(fc.property(fc.array(pieces, { maxLength: 8 }).map((all) => all.join('')), (text) => {
      const parsed = parsedCount(text)
      assert.equal(count(text), parsed === undefined || parsed === 0 ? -1 : parsed, text)
    }), { numRuns: 20_000 })
  })

  test('leaves values that are nested more than 512 levels to the parser', () => {
    assert.equal(count(`${'['.repeat(513)}1${']'.repeat(513)}`), -1)
    assert.equal(count(`${'{"a":['.repeat(256)}1${']}'.repeat(256)}`), 1)
  })
})
