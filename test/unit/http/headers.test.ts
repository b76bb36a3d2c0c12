import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import fc from 'fast-check'
import type { ResponseHeaders } from '../../../src/http/exchange.js'
import { addVary } from '../../../src/http/respond.js'
import { isHeaderValue } from '../../../src/http/headers/reader.js'
import { etagMatches } from '../../../src/http/headers/preconditions.js'
import { httpDate, parseHttpDate } from '../../../src/http/headers/dates.js'
import { linkValue } from '../../../src/http/headers/link.js'
import { entityTags } from './list-grammar.js'
import { countSteps } from '../kit/steps.js'

const SUNDAY = Date.UTC(1994, 10, 6, 8, 49, 37)

describe('HTTP dates', () => {
  test('are written as day, date, time, GMT', () => {
    assert.equal(httpDate(SUNDAY), 'Sun, 06 Nov 1994 08:49:37 GMT')
    assert.equal(httpDate(SUNDAY + 999), 'Sun, 06 Nov 1994 08:49:37 GMT')
    assert.equal(httpDate(SUNDAY + 1000), 'Sun, 06 Nov 1994 08:49:38 GMT')
    assert.equal(httpDate(SUNDAY), 'Sun, 06 Nov 1994 08:49:37 GMT')
  })

  test('are cut to the valid range, and NaN throws', () => {
    assert.equal(httpDate(Infinity), 'Fri, 31 Dec 9999 23:59:59 GMT')
    assert.equal(httpDate(-1), 'Thu, 01 Jan 1970 00:00:00 GMT')
    assert.throws(() => httpDate(Number.NaN), RangeError)
    assert.equal(httpDate(0), 'Thu, 01 Jan 1970 00:00:00 GMT')
  })

  test('are read in all three forms of RFC 9110 5.6.7', () => {
    for (const text of [
      'Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994',
    ]) {
      assert.equal(parseHttpDate(text), SUNDAY, text)
    }
    assert.equal(parseHttpDate('Sun Nov 16 08:49:37 1994'), SUNDAY + 10 * 86_400_000)
    assert.equal(
      parseHttpDate('Wednesday, 09-Nov-94 08:49:37 GMT'),
      SUNDAY + 3 * 86_400_000,
      'the longest text that is a date',
    )
    assert.equal(parseHttpDate('Sat, 31 Dec 2016 23:59:60 GMT'), Date.UTC(2017, 0, 1))
    assert.equal(parseHttpDate('Mon, 01 Jan 0001 00:00:00 GMT'), Date.parse('0001-01-01T00:00:00Z'))
  })

  test('are at most 50 years ahead if the year has two digits', () => {
    mock.timers.enable({ apis: ['Date'], now: Date.UTC(2030, 5, 15) })
    try {
      const year = (text: string): number => new Date(parseHttpDate(text) ?? Number.NaN).getUTCFullYear()
      assert.equal(year('Sunday, 06-Nov-79 08:49:37 GMT'), 2079)
      assert.equal(year('Monday, 01-Jan-80 08:49:37 GMT'), 2080)
      assert.equal(year('Sunday, 06-Nov-80 08:49:37 GMT'), 1980)
      assert.equal(year('Sunday, 06-Nov-99 08:49:37 GMT'), 1999)
    } finally {
      mock.timers.reset()
    }
  })

  test('are undefined for other texts', () => {
    for (const text of [
      '',
      '0',
      '1994-11-06T08:49:37Z',
      'Sun, 6 Nov 1994 08:49:37 GMT',
      'Sun, 06 Nov 1994 08:49:37 UTC',
      'sun, 06 nov 1994 08:49:37 gmt',
      'Sun, 06 Nov 1994 24:00:00 GMT',
      'Sun, 06 Nov 1994 08:60:00 GMT',
      'Sun, 06 Nov 1994 08:49:61 GMT',
      'Sun, 31 Nov 1994 08:49:37 GMT',
      'Sun, 00 Nov 1994 08:49:37 GMT',
      'Sun, 29 Feb 2023 00:00:00 GMT',
      'Xyz, 06 Nov 1994 08:49:37 GMT',
      ' Sun, 06 Nov 1994 08:49:37 GMT',
      'Sun, 06 Nov 1994 08:49:37 GMT\n',
      'Sun Nov 6 08:49:37 1994',
      'x'.repeat(20_000),
    ])
      assert.equal(parseHttpDate(text), undefined, text.slice(0, 40))
  })

  test('are read back as they were written', () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 253402300799 }), (second) => {
      assert.equal(parseHttpDate(httpDate(second * 1000)), second * 1000)
    }))
  })
})

describe('addVary', () => {
  test('joins each name once, in any case, and reads * as all names', () => {
    const cases: [ResponseHeaders, string[], string][] = [
      [{}, ['Accept', 'Prefer'], 'Accept, Prefer'],
      [{ vary: 'accept' }, ['Accept', 'Prefer'], 'accept, Prefer'],
      [{ vary: ['Origin', 'Accept-Encoding, ,Prefer'] }, ['prefer'], 'Origin, Accept-Encoding, Prefer'],
      [{ vary: '*' }, ['Accept'], '*'],
      [{ vary: 'Accept' }, ['*'], '*'],
      [{}, ['Accept', '*'], '*'],
      [{ vary: '' }, ['Accept'], 'Accept'],
    ]
    for (const [headers, names, expected] of cases) {
      addVary(headers, ...names)
      assert.deepEqual(headers, { vary: expected })
    }
  })
})

describe('linkValue', () => {
  test('writes links as RFC 8288 says', () => {
    assert.equal(
      linkValue([
        { target: '/users?start=0&batch_size=25', rel: 'first' },
        { target: 'https://e.org/d', rel: 'deprecation help', type: 'text/html' },
      ]),
      '</users?start=0&batch_size=25>; rel="first", <https://e.org/d>; rel="deprecation help"; type="text/html"',
    )
    assert.equal(
      linkValue([{ target: '/a', rel: 'next', title: 'a "b" \\c', media: undefined }]),
      '</a>; rel="next"; title="a \\"b\\" \\\\c"',
    )
    assert.equal(
      linkValue([{ target: '/ä>,<', rel: 'next', title: '€\r\nX: y' }]),
      '</%C3%A4%3E,%3C>; rel="next"; title*=UTF-8\'\'%E2%82%AC%0D%0AX%3A%20y',
    )
  })

  test('writes one line with parseable parts for any text', () => {
    const any = fc.string({ unit: 'binary' })
    fc.assert(fc.property(any, any, (target, title) => {
      const value = linkValue([{ target, rel: 'next', title }])
      assert.match(
        value,
        /^<[!#$&-;=?-Z_a-z~[\]%]*>; rel="next"; title(?:="(?:[ !#-[\]-~]|\\["\\])*"|\*=UTF-8''[\w%!#$&+.^`|~-]*)$/,
      )
      const quoted = /title="(.*)"$/.exec(value)
      const encoded = /title\*=UTF-8''(.*)$/.exec(value)
      const read = quoted ? quoted[1]?.replace(/\\(.)/g, '$1') : decodeURIComponent(encoded?.[1] ?? '')
      assert.equal(read, title.toWellFormed())
    }))
  })

  test('throws an error of the application for a relation or name that cannot be written', () => {
    for (const rel of ['', ' ', 'a"b', 'a\nb', 'a\\b', 'ä', 'a  b'])
      assert.throws(() => linkValue([{ target: '/', rel }]), TypeError)
    for (const name of ['a b', 'a\r\nb', 'a='])
      assert.throws(() => linkValue([{ target: '/', rel: 'next', [name]: 'x' }]), TypeError)
  })
})

describe('isHeaderValue', () => {
  test('rejects line breaks, controls and wide characters', () => {
    for (const text of ['', 'a b\tc', 'é', '"x"']) assert.equal(isHeaderValue(text), true, text)
    for (const text of ['a\r\nb', '\n', '\r', '\0', '\x7f', '€']) assert.equal(isHeaderValue(text), false, text)
  })
})

describe('etagMatches', () => {
  test('compares strongly and weakly as in RFC 9110 8.8.3.2', () => {
    const table: [string, string, boolean, boolean][] = [
      ['W/"1"', 'W/"1"', false, true],
      ['W/"1"', 'W/"2"', false, false],
      ['W/"1"', '"1"', false, true],
      ['"1"', '"1"', true, true],
    ]
    for (const [one, other, strong, weak] of table) {
      for (const [field, etag] of [[one, other], [other, one], [`"x,", ${one}`, other]] as const) {
        assert.equal(etagMatches(field, etag, 'strong'), strong, `${field} ${etag}`)
        assert.equal(etagMatches(field, etag, 'weak'), weak, `${field} ${etag}`)
      }
    }
  })

  test('reads lists, several lines, the star, and malformed elements', () => {
    for (const field of [
      '"a"',
      ' "b" ,"a"\t',
      ',,"a",',
      'x, "a"',
      'a, "b c", "a"',
      ['"b"', '"a"'],
      '*',
      ' * ',
      '"b"x, "a"',
    ]) {
      assert.equal(etagMatches(field, '"a"', 'strong'), true, String(field))
    }
    for (const field of [
      undefined,
      '',
      'a',
      '"b"',
      '"a',
      'a"',
      '"a"x',
      '"a" "a"',
      'w/"a"',
      'W/ "a"',
      '*, "b"',
      '"b, "a"',
      "'a'",
      '"A"',
      [],
    ]) {
      assert.equal(etagMatches(field, '"a"', 'weak'), false, String(field))
    }
    assert.equal(etagMatches('*', undefined, 'weak'), false)
    assert.equal(etagMatches('"a,b", W/"c,"', '"c,"', 'weak'), true)
  })

  test('accepts any characters in a tag but quotes, blanks and controls, or none at all', () => {
    for (const tag of ['""', '"!"', '"#~"', '"\x80ÿ"', '"a\\"']) {
      assert.equal(etagMatches(`"b", ${tag}`, tag, 'strong'), true, tag)
      assert.equal(etagMatches(`${tag}, "b"`, `W/${tag}`, 'weak'), true, tag)
    }
    for (const none of ['"a b"', '"a\tb"', '"\x1f"', '"\x7f"'])
      assert.equal(etagMatches(`"b", ${none}`, none, 'weak'), false, none)
  })

  test('reads any text according to the grammar', () => {
    const unit = fc.constantFrom('"', 'a', 'b', ',', ' ', 'W/', '"a"', '*', '\t', '\u0001')
    fc.assert(fc.property(fc.string({ unit, maxLength: 16 }), (field) => {
      const tags = entityTags(field)
      const star = field.trim() === '*'
      assert.equal(etagMatches(field, '"a"', 'strong'), star || tags.includes('"a"'))
      assert.equal(etagMatches(field, '"a"', 'weak'), star || tags.includes('"a"') || tags.includes('W/"a"'))
    }), { numRuns: 5000 })
  })

  test('takes linear time for texts of 16 KiB from an attacker', () => {
    for (const unit of ['"', ',', 'W/', 'W/"', '"a', 'x"', ' ', '"" ', '"a",', 'W/"a', '"\u0001', 'a,', '"a"x']) {
      const text = unit.repeat(Math.ceil(16_384 / unit.length))
      const steps = countSteps(() => etagMatches(text, '"b"', 'weak'))
      assert.ok(steps < 16_384 * 12, `${unit}: ${steps} steps`)
    }
  })
})
