import assert from 'node:assert/strict'
import fc from 'fast-check'
import { httpDate, parseHttpDate } from '../../src/http/headers/dates.js'
import {
  etagMatches, evaluatePreconditions, ifRangeHolds,
} from '../../src/http/headers/preconditions.js'
import { entityTags } from '../unit/http/list-grammar.js'
import { linear } from './frame/linear.js'
import { mutated } from './frame/mutate.js'

const TAGS = ['"a"', 'W/"a"', '"a", "b"', 'W/"x,y", "a"', '*', '"', '"a"x, "a"', '""', ', ,"a"']
const DATES = [
  'Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994',
  'Tue, 29 Feb 2028 23:59:60 GMT', 'Fri, 31 Dec 9999 23:59:59 GMT',
]
const PIECES = ['"a"', 'W/', '"', ',', '*', 'GMT', '1994', 'Nov', 'Sun', ':', '29 Feb', '00', '60', '99']
const MODIFIED = Date.UTC(1994, 10, 6, 8, 49, 37)

/** The three forms, by what they write. */
function dateReference(text: string): number | undefined {
  const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')
  const match =
    /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\d\d) (?<month>\w{3}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) GMT$/.exec(
      text,
    ) ??
    /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?<month>\w{3}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/.exec(
      text,
    )
  const { day = '', month = '', year = '', time = '' } = match?.groups ?? {}
  const [hour, minute, second] = time.split(':').map(Number) as [number, number, number]
  if (!months.includes(month) || hour > 23 || minute > 59 || second > 60) return undefined
  const written = `${year}-${String(months.indexOf(month) + 1).padStart(2, '0')}-${day.trim().padStart(2, '0')}`
  const start = Date.parse(`${written}T00:00:00Z`)
  // The engine takes 30 February for 2 March.
  if (Number.isNaN(start) || new Date(start).toISOString().slice(0, 10) !== written) return undefined
  return start + ((hour * 60 + minute) * 60 + second) * 1000
}

export const rules = {
  'If-Match names what the grammar says': fc.property(
    mutated(TAGS, PIECES),
    fc.constantFrom('"a"', 'W/"a"'),
    (field, etag) => {
      const star = field.trim() === '*'
      const named = entityTags(field)
      assert.equal(etagMatches(field, etag, 'strong'), star || (etag === '"a"' && named.includes('"a"')) || false)
      assert.equal(etagMatches(field, etag, 'weak'), star || named.includes('"a"') || named.includes('W/"a"'))
    },
  ),
  'a date is what its form says': fc.property(mutated(DATES, PIECES), (text) => {
    if (!/^[A-Z][a-z]+day,/.test(text)) assert.equal(parseHttpDate(text), dateReference(text))
    const read = parseHttpDate(text)
    if (read !== undefined && read >= 0 && read <= Date.UTC(9999, 11, 31, 23, 59, 59))
      assert.equal(parseHttpDate(httpDate(read)), read)
  }),
  'conditions come to one of three things': fc.property(
    mutated(TAGS, PIECES),
    mutated(DATES, PIECES),
    fc.constantFrom('GET', 'HEAD', 'PUT', 'DELETE'),
    fc.subarray(['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since']),
    fc.boolean(),
    (tag, date, method, names, exists) => {
      const headers = Object.fromEntries(names.map((name) => [name, name.endsWith('since') ? date : tag]))
      const facts = { method, headers, exists, etag: '"a"', lastModified: MODIFIED }
      const told = evaluatePreconditions(facts)
      assert.ok(['proceed', 'not-modified', 'failed'].includes(told))
      if (names.length === 0) assert.equal(told, 'proceed')
      if (told === 'not-modified') assert.ok(method === 'GET' || method === 'HEAD')
      // A write whose If-Match names no tag that is there must never go on.
      if (names.includes('if-match') && tag.trim() !== '*' && !entityTags(tag).includes('"a"'))
        assert.equal(told, 'failed')
    },
  ),
  'If-Range holds for the very tag or date only': fc.property(
    fc.oneof(mutated(TAGS, PIECES), mutated(DATES, PIECES)),
    (field) => {
      const holds = ifRangeHolds(
        { headers: { 'if-range': field }, etag: '"a"', lastModified: MODIFIED },
        MODIFIED + 5000,
      )
      assert.equal(holds, field.trim() === '"a"' || parseHttpDate(field.trim()) === MODIFIED)
    },
  ),
  'takes linear time': linear([...PIECES, ' ', '"a', 'W/"', '" ', '\u0001'], (text) => {
    etagMatches(text, '"b"', 'weak')
    parseHttpDate(text)
    ifRangeHolds({ headers: { 'if-range': text }, etag: '"a"', lastModified: 0 }, 0)
  }),
}
