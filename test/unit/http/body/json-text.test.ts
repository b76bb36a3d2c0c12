import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isHttpError, type HttpError } from '../../../../src/http/errors.js'
import { jsonFault } from '../../../../src/http/body/json-fault.js'
import { hasUnsafeKey, jsonOfBytes, mayHoldUnsafeKey, parseJson } from '../../../../src/http/body/json.js'

function refusal(work: () => unknown): HttpError {
  try {
    work()
  } catch (error) {
    if (isHttpError(error)) return error
    throw error
  }
  throw new Error('Nothing was thrown')
}

/** Where the engine says that the text is wrong; it does not always say. */
function engineSays(text: string): { valid: boolean; offset: number | undefined } {
  try {
    JSON.parse(text)
    return { valid: true, offset: undefined }
  } catch (error) {
    const match = / in JSON at position (\d+)(?: \(line \d+ column \d+\))?$/.exec((error as Error).message)
    return { valid: false, offset: match ? Number(match[1]) : undefined }
  }
}

const VALUE = fc.json({ maxDepth: 4 })
const PIECE = fc.constantFrom(
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"',
  '"a"',
  '"a":',
  '1',
  '-',
  '0',
  '.',
  'e',
  '+',
  'true',
  'nul',
  'l',
  ' ',
  '\n',
  '\\',
  '\\u00',
  '\u0001',
  'é',
  '💥',
)

describe('jsonFault', () => {
  test('finds the position of every kind of fault', () => {
    const cases: [string, number, RegExp][] = [
      ['', 0, /a value/],
      ['  ', 2, /a value/],
      ['{', 1, /property name.*or '}'/],
      ['{a:1}', 1, /property name/],
      ['{"a":1,}', 7, /property name/],
      ['{"a" 1}', 5, /':'/],
      ['{"a":}', 5, /a value/],
      ['{"a":1 x', 7, /',' or '}'/],
      ['[1,]', 3, /a value/],
      ['[1 2]', 3, /',' or '\]'/],
      ['[1,2', 4, /',' or '\]'/],
      ['[1}', 2, /end of the number|',' or '\]'/],
      ['nul', 3, /a value/],
      ['nuXl', 2, /a value/],
      ['NaN', 0, /a value/],
      ['1 2', 2, /end of the text/],
      ['01', 1, /end of the number/],
      ['-', 1, /digit/],
      ['1.', 2, /digit/],
      ['1e', 2, /digit/],
      ['1e+x', 3, /digit/],
      ['"a', 2, /double quote/],
      ['"a\nb"', 2, /control/],
      ['"\u001f"', 1, /control/],
      ['"\\x"', 2, /escape/],
      ['"\\u12"', 5, /hexadecimal/],
      ["{'a':1}", 1, /property name/],
      ['[]]', 2, /end of the text/],
      ['\ufeff1', 0, /a value/],
    ]
    for (const [text, offset, expected] of cases) {
      const fault = jsonFault(text)
      assert.equal(fault?.offset, offset, text)
      assert.match(fault.expected, expected, text)
    }
  })

  test('ends lines at LF, CR or CRLF', () => {
    const place = (text: string): unknown[] => [jsonFault(text)?.line, jsonFault(text)?.column]
    assert.deepEqual(place('[1,\n2,\n  }'), [3, 3])
    assert.deepEqual(place('[1,\r\n2,\r  }'), [3, 3])
    assert.deepEqual(place('x'), [1, 1])
    assert.deepEqual(place('[\n\n'), [3, 1])
    // What is wrong may be the end of a line itself.
    assert.deepEqual([place('"a\nb"'), place('["",\n"\r\n"]')], [[1, 3], [2, 2]])
  })

  test('ends a number at any white space, comma or bracket', () => {
    for (const end of [' ', '\t', '\n', '\r', ''])
      assert.equal(jsonFault(`{"a":[1${end},2${end}],"b":3${end}}`), undefined)
    for (const [text, offset] of [
      ['[1!]', 2],
      ['[1\v]', 2],
      ['[1\f]', 2],
      ['[1\u00a0]', 2],
      ['[1-]', 2],
      ['[1^]', 2],
      ['[1~]', 2],
    ] as const) {
      assert.deepEqual([jsonFault(text)?.offset, jsonFault(text)?.expected], [offset, 'the end of the number'], text)
    }
  })

  test('finds no fault in valid texts', () => {
    fc.assert(fc.property(VALUE, (text) => { assert.equal(jsonFault(text), undefined, text) }))
  })

  test('agrees with the engine on validity, and on the position if the engine states one', () => {
    const mutated = fc.tuple(VALUE, fc.nat(), fc.nat(3), PIECE).map(([text, at, drop, piece]) => {
      const cut = at % (text.length + 1)
      return text.slice(0, cut) + piece + text.slice(cut + drop)
    })
    const pieces = fc.array(PIECE, { maxLength: 12 }).map((list) => list.join(''))
    fc.assert(fc.property(fc.oneof(mutated, pieces), (text) => {
      const { valid, offset } = engineSays(text)
      const fault = jsonFault(text)
      assert.equal(fault === undefined, valid, text)
      if (offset !== undefined) assert.equal(fault?.offset, offset, text)
    }), { numRuns: 10_000 })
  })

  test('reads a million open brackets, and a megabyte of any text, in one pass', () => {
    for (const unit of ['[', '{"a":', '"', '\\', '[[1],', '1', ' ', '\n', '"\\u00e9', 'tru']) {
      const text = unit.repeat(Math.ceil(1_000_000 / unit.length))
      const before = process.cpuUsage()
      assert.ok(unit === '1' || jsonFault(text) !== undefined)
      const { user, system } = process.cpuUsage(before)
      assert.ok(user + system < 5_000_000, `${unit}: ${user + system} µs`)
    }
  })
})

describe('parseJson', () => {
  test('SPEC 7.400: reports malformed JSON with line, column and offset, and without the text', () => {
    const error = refusal(() => parseJson('{\n  "password": "hunter2" hunter2\n}'))
    assert.deepEqual([error.status, error.code], [400, 'malformed_json'])
    assert.equal(
      error.message,
      "The body is not valid JSON: at line 2, column 25 (offset 26), ',' or '}' was expected.",
    )
    assert.deepEqual(error.details, [
      { pointer: '', message: "line 2, column 25 (offset 26): ',' or '}' was expected." },
    ])
    assert.equal(error.cause, undefined)
  })

  test('never quotes the text in a message', () => {
    fc.assert(fc.property(fc.string({ unit: fc.constantFrom('Q', 'Z', 'QZ', '"', '{', 'at position 9') }), (text) => {
      let value: unknown
      try {
        value = parseJson(text)
      } catch (error) {
        assert.ok(isHttpError(error))
        assert.doesNotMatch(error.message + JSON.stringify(error.details), /[QZ]|position/)
        return
      }
      assert.equal(typeof value, 'string')
    }))
  })

  test('rejects keys that could change a prototype, in any object and any notation', () => {
    for (const text of [
      '{"__proto__":{"admin":true}}', '[{"a":{"__proto__":1}}]', '{"\\u005f_proto__":1}',
      '{"constructor":{"prototype":{}}}', '{"a":{"constructor" : {"prototype":1}}}',
    ]) {
      const error = refusal(() => parseJson(text))
      assert.deepEqual([error.status, error.code], [400, 'unsafe_key'], text)
      assert.equal(hasUnsafeKey(JSON.parse(text)), true, text)
    }
    for (const text of [
      '{"constructor":"Ford"}', '{"constructor":{"name":1}}', '["__proto__"]', '{"proto":1}',
      '{"a":"\\"__proto__\\":"}',
    ]) {
      assert.deepEqual(parseJson(text), JSON.parse(text))
      assert.equal(hasUnsafeKey(JSON.parse(text)), false, text)
    }
  })

  test('returns the value of JSON.parse for a valid text', () => {
    // Keys that change prototypes are refused: the test above.
    fc.assert(fc.property(fc.jsonValue({ noUnicodeString: false }).filter((value) => !hasUnsafeKey(value)), (value) => {
      const text = JSON.stringify(value)
      assert.deepEqual(jsonOfBytes(Buffer.from(text)).value, JSON.parse(text))
    }))
  })

  test('does not overflow the stack for deep nesting', () => {
    const deep = '['.repeat(200_000) + ']'.repeat(200_000)
    assert.ok(Array.isArray(parseJson(deep, Infinity)))
    assert.equal(refusal(() => parseJson(`${deep}]`)).code, 'malformed_json')
    assert.equal(refusal(() => parseJson(`[{"__proto__":1},${deep}]`)).code, 'unsafe_key')
    assert.equal(hasUnsafeKey(JSON.parse(deep)), false)
  })

  test('reads lists and objects of 512 levels, and rejects one more level anywhere', () => {
    const nested = (levels: number, open: string, close: string): string => open.repeat(levels) + close.repeat(levels)
    for (const [open, close, inner] of [['[', ']', ''], ['{"a":', '}', '1'], ['[{"a":', '}]', '1']] as const) {
      const each = open.startsWith('[{') ? 2 : 1
      const text = (levels: number): string => open.repeat(levels / each) + inner + close.repeat(levels / each)
      assert.equal(typeof parseJson(text(512)), 'object')
      assert.equal(refusal(() => parseJson(text(512 + each))).code, 'nested_too_deep')
      assert.equal(refusal(() => parseJson(`{"before":[1],"a":[0,${text(512)}],"after":1}`)).code, 'nested_too_deep')
    }
    // Brackets that are not nested, or that are text, are none of it.
    assert.equal((parseJson(`[${Array.from({ length: 2000 }, () => '[[]]').join()}]`) as unknown[]).length, 2000)
    assert.equal(parseJson(JSON.stringify(nested(2000, '[', ']'))), nested(2000, '[', ']'))
    const { status, code } = refusal(() => parseJson(nested(100_000, '[', ']')))
    assert.deepEqual([status, code], [400, 'nested_too_deep'])
  })
})

describe('jsonOfBytes', () => {
  test('skips a byte order mark, rejects bytes that are not UTF-8, and reports an empty body as missing', () => {
    assert.deepEqual(jsonOfBytes(Buffer.from('\ufeff{"a":"ä"}')).value, { a: 'ä' })
    for (const bytes of [
      [0x22, 0xff, 0x22],
      [0x22, 0xc3, 0x22],
      [0xff, 0xfe, 0x31, 0x00],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
    ]) {
      const error = refusal(() => jsonOfBytes(Uint8Array.from(bytes)).value)
      assert.deepEqual([error.status, error.code], [400, 'malformed_json'])
      assert.match(error.message, /UTF-8/)
      assert.equal(error.cause, undefined, 'the host would be told of what a client sends')
    }
    assert.equal(refusal(() => jsonOfBytes(new Uint8Array()).value).code, 'missing_body')
    assert.equal(refusal(() => jsonOfBytes(Buffer.from(' ')).value).code, 'malformed_json')
  })
})

test('hasUnsafeKey reads circular values once', () => {
  const loop: Record<string, unknown> = { list: [] }
  loop['self'] = loop
  assert.equal(hasUnsafeKey(loop), false)
  assert.equal(hasUnsafeKey({ loop, bad: JSON.parse('{"__proto__":null}') }), true)
})

describe('mayHoldUnsafeKey', () => {
  /** A key with some of its letters behind escapes, in either case of digits. */
  const written = (key: string, mask: number): string => [...key].map((char, at) => {
    const hex = char.charCodeAt(0).toString(16).padStart(4, '0')
    return (mask >> at) % 2 === 0 ? char : `\\u${(mask >> (at + 3)) % 2 === 0 ? hex : hex.toUpperCase()}`
  }).join('')

  test('finds every text with a rejected key, with any of its letters escaped (property)', () => {
    const key = fc
      .tuple(fc.constantFrom('__proto__', 'constructor', 'prototype', 'type'), fc.nat(0xffff))
      .map(([name, mask]) => written(name, mask))
    const text = fc.letrec<{ value: string }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom('1', '"proto"', '{}'),
        fc.tuple(key, tie('value')).map(([name, value]) => `{"a":[],"${name}" :${value}}`),
      ),
    })).value
    let unsafe = 0
    fc.assert(fc.property(text, (json) => {
      if (!hasUnsafeKey(JSON.parse(json))) return
      unsafe++
      assert.ok(mayHoldUnsafeKey(json), json)
      assert.throws(() => parseJson(json), json)
    }), { numRuns: 3000 })
    assert.ok(unsafe > 300)
  })

  test('ignores common words and escapes', () => {
    for (const text of [
      '{"protocol":"https","type":"constructor"}', '"J\\u00fcrgen \\u0031\\u000a\\u2014"',
      '{"proto":1}',
    ])
      assert.equal(mayHoldUnsafeKey(text), false, text)
  })
})
