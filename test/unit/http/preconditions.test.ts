import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  evaluatePreconditions, ifRangeHolds, type PreconditionFacts, type PreconditionOutcome,
} from '../../../src/http/headers/preconditions.js'

const THEN = Date.UTC(2024, 4, 6, 7, 8, 9)
const THEN_TEXT = 'Mon, 06 May 2024 07:08:09 GMT'
const BEFORE = 'Mon, 06 May 2024 07:08:08 GMT'
const AFTER = 'Mon, 06 May 2024 07:08:10 GMT'

function outcome(
  method: string,
  headers: PreconditionFacts['headers'],
  rest: Partial<PreconditionFacts> = {},
): PreconditionOutcome {
  return evaluatePreconditions({ method, headers, exists: true, etag: '"a"', lastModified: THEN + 500, ...rest })
}

describe('preconditions, RFC 9110 section 13', () => {
  const cases: [PreconditionOutcome, string, Record<string, string>, Partial<PreconditionFacts>?][] = [
    ['proceed', 'GET', {}],
    ['proceed', 'GET', { 'if-match': '"a"' }],
    ['proceed', 'PUT', { 'if-match': '"b", "a"' }],
    ['proceed', 'PUT', { 'if-match': '*' }],
    ['proceed', 'PUT', { 'if-match': ' * ' }, { etag: undefined }],
    ['failed', 'PUT', { 'if-match': '*' }, { exists: false }],
    ['failed', 'PUT', { 'if-match': '"a"' }, { exists: false }],
    ['failed', 'PUT', { 'if-match': '"b"' }],
    ['failed', 'GET', { 'if-match': '"b"' }],
    ['failed', 'HEAD', { 'if-match': '"b"' }],
    ['failed', 'PUT', { 'if-match': 'W/"a"' }],
    ['failed', 'PUT', { 'if-match': 'W/"a"' }, { etag: 'W/"a"' }],
    ['failed', 'PUT', { 'if-match': 'a' }],
    ['failed', 'PUT', { 'if-match': '' }],
    ['failed', 'PUT', { 'if-match': '"a"' }, { etag: undefined }],

    ['proceed', 'PUT', { 'if-unmodified-since': THEN_TEXT }],
    ['proceed', 'PUT', { 'if-unmodified-since': AFTER }],
    ['failed', 'PUT', { 'if-unmodified-since': BEFORE }],
    ['failed', 'GET', { 'if-unmodified-since': BEFORE }],
    ['proceed', 'PUT', { 'if-unmodified-since': 'yesterday' }],
    ['proceed', 'PUT', { 'if-unmodified-since': BEFORE }, { lastModified: undefined }],
    ['proceed', 'PUT', { 'if-unmodified-since': BEFORE }, { exists: false }],
    // If-Match makes If-Unmodified-Since count for nothing.
    ['proceed', 'PUT', { 'if-match': '"a"', 'if-unmodified-since': BEFORE }],

    ['not-modified', 'GET', { 'if-none-match': '"a"' }],
    ['not-modified', 'HEAD', { 'if-none-match': '"b", W/"a"' }],
    ['not-modified', 'GET', { 'if-none-match': '"a"' }, { etag: 'W/"a"' }],
    ['not-modified', 'GET', { 'if-none-match': '*' }],
    ['failed', 'PUT', { 'if-none-match': '*' }],
    ['failed', 'DELETE', { 'if-none-match': '"a"' }],
    ['proceed', 'PUT', { 'if-none-match': '*' }, { exists: false }],
    ['proceed', 'GET', { 'if-none-match': '"b"' }],

    ['not-modified', 'GET', { 'if-modified-since': THEN_TEXT }],
    ['not-modified', 'HEAD', { 'if-modified-since': AFTER }],
    ['proceed', 'GET', { 'if-modified-since': BEFORE }],
    ['proceed', 'POST', { 'if-modified-since': AFTER }],
    ['proceed', 'GET', { 'if-modified-since': AFTER }, { lastModified: undefined }],
    ['proceed', 'GET', { 'if-modified-since': `${AFTER}, ${AFTER}` }],
    // If-None-Match makes If-Modified-Since count for nothing.
    ['proceed', 'GET', { 'if-none-match': '"b"', 'if-modified-since': AFTER }],
    // If-Match comes first, and what follows is still looked at.
    ['failed', 'GET', { 'if-match': '"b"', 'if-none-match': '"a"' }],
    ['not-modified', 'GET', { 'if-match': '"a"', 'if-none-match': '"a"' }],
    ['not-modified', 'GET', { 'if-unmodified-since': AFTER, 'if-modified-since': AFTER }],

    ['proceed', 'OPTIONS', { 'if-match': '"b"' }],
    ['proceed', 'TRACE', { 'if-none-match': '*' }],
  ]
  for (const [expected, method, headers, rest] of cases) {
    test(`${method} ${JSON.stringify(headers)} ${rest === undefined ? '' : JSON.stringify(rest)}: ${expected}`, () => {
      assert.equal(outcome(method, headers, rest), expected)
    })
  }

  test('read several header lines as one list', () => {
    assert.equal(outcome('PUT', { 'if-match': ['"b"', '"a"'] }), 'proceed')
    assert.equal(outcome('GET', { 'if-modified-since': [AFTER, AFTER] }), 'proceed')
  })
})

describe('If-Range, RFC 9110 section 13.1.5', () => {
  const holds = (text: string, etag: string | undefined = '"a"', now = THEN + 1000): boolean =>
    ifRangeHolds({ headers: { 'if-range': text }, etag, lastModified: THEN + 500 }, now)

  test('is not needed for partial content', () => assert.equal(ifRangeHolds({ headers: {} }, 0), true))
  test('compares an entity tag strongly', () => {
    assert.equal(holds('"a"'), true)
    assert.equal(holds(' "a" '), true)
    assert.equal(holds('"b"'), false)
    assert.equal(holds('W/"a"'), false)
    assert.equal(holds('W/"a"', 'W/"a"'), false)
    assert.equal(ifRangeHolds({ headers: { 'if-range': '"a"' }, lastModified: THEN }, THEN + 9000), false)
    assert.equal(holds('"a", "b"'), false)
    assert.equal(holds('*'), false)
    assert.equal(holds('a'), false)
    assert.equal(holds(''), false)
  })
  test('needs an equal date whose second is over', () => {
    assert.equal(holds(THEN_TEXT), true)
    assert.equal(holds('Monday, 06-May-24 07:08:09 GMT'), true)
    assert.equal(holds(THEN_TEXT, '"a"', THEN + 999), false)
    assert.equal(holds(AFTER, '"a"', THEN + 9000), false)
    assert.equal(holds(BEFORE), false)
    assert.equal(ifRangeHolds({ headers: { 'if-range': THEN_TEXT }, etag: '"a"' }, THEN + 9000), false)
  })
})
