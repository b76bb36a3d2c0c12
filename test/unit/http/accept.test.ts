import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { negotiate, negotiateCoding, parseAccept, parseMediaType } from '../../../src/http/headers/accept.js'
import { prefersProblem } from '../../../src/http/respond.js'
import { OWS, PARAMETERS, TOKEN, members, parameters } from './list-grammar.js'
import { countSteps } from '../kit/steps.js'

type Plain = { type: string; subtype: string; params: Record<string, string>; q: number }

function weight(text: string | undefined): number | undefined {
  if (text === undefined) return 1
  return /^[01]?(?:\.\d*)?$/.test(text) && /\d/.test(text) && Number(text) <= 1 ? Number(text) : undefined
}

/** What the header means by the grammar of RFC 9110 alone. */
function reference(text: string): Plain[] {
  const item = new RegExp(`^(${TOKEN})/(${TOKEN})(${PARAMETERS})${OWS}$`)
  return members(text).flatMap((member) => {
    const match = item.exec(member)
    if (!match) return []
    const { q: written, ...params } = parameters(match[3] ?? '')
    const [type, subtype, q] = [(match[1] ?? '').toLowerCase(), (match[2] ?? '').toLowerCase(), weight(written)]
    return q === undefined || (type === '*' && subtype !== '*') ? [] : [{ type, subtype, params, q }]
  })
}

function plain(text: string): Plain[] {
  return parseAccept(text).map(({ type, subtype, params, q }) => ({
    type,
    subtype,
    params: Object.fromEntries(params),
    q,
  }))
}

const HOSTILE = [
  ',', 'a/b,', '"', 'a/b;c="', 'a/b;', ';', ' ', '*/*,', 'a/', '/', 'a/b;q=0.1;', '*/*;q="\\',
  'a/b;q=1 ', '"\u0001', 'gzip,', 'gzip;q=0,',
]

function hostile(unit: string): string {
  return unit.repeat(Math.ceil(16_384 / unit.length)).slice(0, 16_384)
}

describe('parseAccept', () => {
  test('reads ranges in the order sent', () => {
    assert.deepEqual(plain('Text/HTML;Level="1";q=0.5, application/*;q=.25;v=2, */*;q=1.000, image/png; q=0'), [
      { type: 'text', subtype: 'html', params: { level: '1' }, q: 0.5 },
      { type: 'application', subtype: '*', params: { v: '2' }, q: 0.25 },
      { type: '*', subtype: '*', params: {}, q: 1 },
      { type: 'image', subtype: 'png', params: {}, q: 0 },
    ])
  })

  test('ignores empty elements and the white space after them', () => {
    assert.deepEqual(plain(', a/b ,, ,\tc/d,').map(({ type, subtype }) => `${type}/${subtype}`), ['a/b', 'c/d'])
  })

  test('skips malformed ranges and malformed q values', () => {
    for (const bad of [
      '*', '*/json', 'a', 'a/', '/b', 'a/b/c', 'a/b;q=2', 'a/b;q=-1', 'a/b;q=x', 'a/b;q=',
      'a/b;q=1.1', 'a/b;q=.', 'a/b c', '"a/b"',
    ]) {
      assert.deepEqual(plain(`${bad}, x/y`), [{ type: 'x', subtype: 'y', params: {}, q: 1 }], bad)
    }
  })

  test('reads any text according to the grammar', () => {
    const unit = fc.constantFrom(
      'a',
      'B',
      '*',
      '/',
      'a/b',
      ';q=',
      '0',
      '1',
      '.',
      '5',
      '=',
      '"',
      ';',
      ',',
      ' ',
      '\t',
      '\\',
      '\u0001',
    )
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 20 }), (header) => {
        assert.deepEqual(plain(header), reference(header))
      }),
      { numRuns: 3000 },
    )
  })
})

describe('negotiate', () => {
  const offers = ['application/json', 'application/x-ndjson', 'text/event-stream']

  test('chooses the first offer without Accept', () => {
    for (const header of [undefined, '', '*/*', '*/*;q=0.1', ',,', 'nonsense', []])
      assert.equal(negotiate(header, offers), offers[0])
  })

  test('prefers the highest q, then the more specific range, then the order of the offers', () => {
    const cases: [string, string | undefined][] = [
      ['application/x-ndjson', 'application/x-ndjson'],
      ['application/x-ndjson;q=0.5, application/json;q=0.4', 'application/x-ndjson'],
      ['application/x-ndjson, application/json', 'application/json'],
      ['*/*, application/x-ndjson', 'application/x-ndjson'],
      ['application/*;q=0.8, text/event-stream;q=0.9', 'text/event-stream'],
      ['application/json;q=0, */*', 'application/x-ndjson'],
      ['application/*;q=0, */*;q=0.1', 'text/event-stream'],
      ['APPLICATION/X-NDJSON', 'application/x-ndjson'],
      ['image/png', undefined],
      ['*/*;q=0', undefined],
      ['application/jso, application/jsonx, applicatio/json, applicatio/*', undefined],
    ]
    for (const [header, expected] of cases) assert.equal(negotiate(header, offers), expected, header)
    assert.equal(negotiate(['text/*;q=0.2', 'application/x-ndjson;q=0.1'], offers), 'text/event-stream')
  })

  test('compares the parameters of a range with those of the offer, and ignores charset=utf-8', () => {
    const versions = ['application/vnd.x+json;version=1', 'application/vnd.x+json;version=2']
    assert.equal(negotiate('application/vnd.x+json;version="2"', versions), versions[1])
    assert.equal(
      negotiate('application/vnd.x+json;q=0.9, application/vnd.x+json;version=2;q=0.5', versions),
      versions[0],
    )
    assert.equal(negotiate('application/vnd.x+json;version=3', versions), undefined)
    assert.equal(negotiate('application/json; charset=UTF-8', offers), 'application/json')
    assert.equal(negotiate('application/json; charset=latin1', offers), undefined)
    assert.equal(
      negotiate('application/json;q=0.1, application/json;charset=utf-8;q=0.9, application/x-ndjson;q=0.5', offers),
      'application/x-ndjson',
      'no condition: nor more specific',
    )
  })

  test('uses the most specific range in any order: any type, any subtype, exact, more parameters', () => {
    const [two, other] = ['text/plain;a=1;b=2', 'image/png']
    const ranges = [
      '*/*', '*/*;a=1;b=2', 'text/*', 'text/*;b=2', 'text/*;a=1;b=2', 'text/plain',
      'text/plain;a=1', 'text/plain;a=1;b=2',
    ]
    for (let less = 0; less < ranges.length; less++) {
      for (let more = less + 1; more < ranges.length; more++) {
        const [a, b] = [ranges[less], ranges[more]] as [string, string]
        for (const header of [`${a};q=0.2, ${b};q=0.9, ${other};q=0.5`, `${b};q=0.9, ${a};q=0.2, ${other};q=0.5`])
          assert.equal(negotiate(header, [other, two]), two, header)
        for (const header of [`${a};q=0.9, ${b};q=0.2, ${other};q=0.5`, `${b};q=0.2, ${a};q=0.9, ${other};q=0.5`])
          assert.equal(negotiate(header, [two, other]), other, header)
      }
    }
  })

  test('throws an error of the application for an offer that is not a media type', () => {
    assert.throws(() => negotiate('text/plain', ['json']), { name: 'TypeError', message: /"json" is no media type/ })
  })
})

describe('prefersProblem', () => {
  test('is true only for a client that names the problem type with a q not below that of application/json', () => {
    const cases: [string | string[] | undefined, boolean][] = [
      ['application/problem+json', true],
      ['Application/Problem+JSON; charset=utf-8', true],
      ['application/json, application/problem+json', true],
      [['application/json;q=0.5', 'application/problem+json;q=0.5'], true],
      ['application/problem+json;q=0.1, application/json;q=0', true],
      ['application/problem+json;q=0.1, text/*', true],
      ['application/json, application/problem+json;q=0.9', false],
      ['application/problem+json;q=0.5, application/*', false],
      ['application/problem+json;q=0', false],
      ['application/problem+json;q=x', false],
      ['*/*', false], ['application/*', false], ['*/*, application/json', false], ['', false], [undefined, false],
    ]
    for (const [header, expected] of cases) assert.equal(prefersProblem(header), expected, String(header))
  })
})

describe('negotiateCoding', () => {
  const codings = ['br', 'gzip']

  test('follows the rules of RFC 9110 12.5.3', () => {
    const cases: [string | string[] | undefined, string | undefined][] = [
      [undefined, 'identity'],
      ['', 'identity'],
      ['compress', 'identity'],
      ['gzip', 'gzip'],
      ['GZIP', 'gzip'],
      ['x-gzip', 'gzip'],
      ['gzip, br', 'br'],
      [['gzip', 'br;q=0.9'], 'gzip'],
      ['*', 'br'],
      ['br;q=0, *', 'gzip'],
      ['gzip;q=0', 'identity'],
      ['gzip;q=0.1', 'gzip'],
      ['identity;q=0.5, gzip;q=0.2', 'identity'],
      ['identity, gzip', 'gzip'],
      ['gzip;q=0.3, *;q=0.5, br;q=0', 'identity'],
      ['identity;q=0', undefined],
      ['*;q=0', undefined],
      ['*;q=0, identity', 'identity'],
      ['identity;q=0, gzip;q=0.001', 'gzip'],
      ['gzip;q=2, br;q=x', 'identity'],
      [', gzip', 'gzip'],
      ['br;q=0,,\tgzip', 'gzip'],
      ['gzip br', 'identity'],
      ['gzip;q=0, gzip', 'identity'],
    ]
    for (const [header, expected] of cases) assert.equal(negotiateCoding(header, codings), expected, String(header))
  })

  test('never throws, and returns a coding, identity or nothing', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('gzip', '*', 'identity', ';q=', '0', '1', ',', ' ', '"') }),
        (header) => {
          assert.ok([...codings, 'identity', undefined].includes(negotiateCoding(header, codings)))
        },
      ),
    )
  })
})

describe('parseMediaType', () => {
  test('returns type and parameters, or undefined', () => {
    const found = parseMediaType(' Application/Json ; Charset="UTF-8";charset=x;')
    assert.deepEqual([found?.type, [...(found?.params ?? [])]], ['application/json', [['charset', 'UTF-8']]])
    for (const text of ['', 'json', 'a/b, c/d', 'a/b;c="', 'a/b c', '/', 'a/b;='])
      assert.equal(parseMediaType(text), undefined, text)
  })
})

test('Accept headers of 16 KiB from an attacker take linear time', () => {
  const offers = ['application/json', 'application/x-ndjson;v=1']
  for (const text of HOSTILE.map(hostile)) {
    const steps = countSteps(() => {
      negotiate(text, offers)
      prefersProblem(text)
      negotiateCoding(text, ['br', 'gzip'])
      parseMediaType(text)
    })
    assert.ok(steps < 16_384 * 30, `${JSON.stringify(text.slice(0, 9))}: ${steps} steps`)
  }
})
