import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HeaderReader, headerText, isToken } from '../../../src/http/headers/reader.js'

const CONTROLS = [0x00, 0x08, 0x0a, 0x0d, 0x1f, 0x7f].map((code) => String.fromCharCode(code))
const OTHERS = ['\t', ' ', '!', '~', '\x80', 'ÿ', ',', ';', '=']

describe('tokens, RFC 9110 section 5.6.2', () => {
  test('are read for every character of ASCII and its neighbours', () => {
    const chars = Array.from({ length: 0x101 }, (_, code) => String.fromCharCode(code))
    assert.equal(
      chars.filter(isToken).join(''),
      "!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~",
    )
    for (const char of chars) assert.equal(isToken(`a${char}b`), isToken(char))
    assert.equal(isToken(''), false)
  })
})

describe('quoted strings, RFC 9110 section 5.6.4', () => {
  const word = (text: string): string | undefined => new HeaderReader(text).word()

  test('have no control characters except tabs, unescaped or escaped', () => {
    for (const char of CONTROLS)
      for (const text of [`"${char}"`, `"a${char}b"`, `"\\${char}"`, `"a\\${char}b"`])
        assert.equal(word(text), undefined, JSON.stringify(text))
    for (const char of OTHERS) {
      assert.equal(word(`"a${char}b"`), `a${char}b`)
      assert.equal(word(`"a\\${char}b"`), `a${char}b`)
    }
  })

  test('end at the first quote that is not escaped', () => {
    for (const [text, expected, at] of [
      ['""', '', 2],
      ['"\\""x', '"', 4],
      ['"\\\\"x', '\\', 4],
      ['"a" "b"', 'a', 3],
    ] as const) {
      const reader = new HeaderReader(text)
      assert.deepEqual([reader.word(), reader.at], [expected, at])
    }
    for (const open of ['"', '"a', '"\\"', '"\\', '"a\\']) assert.equal(word(open), undefined)
  })
})

describe('lists, RFC 9110 section 5.6.1', () => {
  test('end an item at its comma, unless the comma is quoted', () => {
    const behind = (text: string): string => {
      const reader = new HeaderReader(text)
      reader.skipItem()
      return text.slice(reader.at)
    }
    assert.deepEqual(['a,b', 'a="x,y",b', 'a="x\\",y",b', 'a\\,b', 'a', 'a="x,b', '"\\'].map(behind), [
      'b', 'b', 'b', 'b', '', '', '',
    ])
  })

  test('have the first of repeated parameters, in lower case, and ignore empty ones', () => {
    const params = (text: string) => {
      const found = new HeaderReader(text).parameters()
      return found && [...found]
    }
    assert.deepEqual(params(';A=1; b = "x y" ;;c; a=2\t;d='), [['a', '1'], ['b', 'x y'], ['c', ''], ['d', '']])
    assert.deepEqual([params(''), params('x'), params(';a="')], [[], [], undefined])
  })

  test('join several lines', () => {
    assert.deepEqual([headerText('a'), headerText(['a', 'b, c'])], ['a', 'a, b, c'])
  })
})
