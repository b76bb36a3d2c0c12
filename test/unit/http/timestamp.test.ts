import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseTimestamp } from '../../../src/http/headers/dates.js'

test('a timestamp of RFC 3339 is read to the millisecond, whatever its offset', () => {
  const good: readonly [text: string, iso: string][] = [
    ['2026-03-01T09:30:00Z', '2026-03-01T09:30:00.000Z'],
    ['2026-03-01t09:30:00z', '2026-03-01T09:30:00.000Z'],
    ['2026-03-01T09:30:00+01:00', '2026-03-01T08:30:00.000Z'],
    ['2026-03-01T00:10:00-02:30', '2026-03-01T02:40:00.000Z'],
    ['2024-02-29T23:59:60Z', '2024-03-01T00:00:00.000Z'],
    ['2026-03-01T09:30:00.1Z', '2026-03-01T09:30:00.100Z'],
    ['2026-03-01T09:30:00.285999999Z', '2026-03-01T09:30:00.285Z'],
    ['0099-01-01T00:00:00Z', '0099-01-01T00:00:00.000Z'],
  ]
  for (const [text, iso] of good) {
    const time = parseTimestamp(text)
    assert.equal(time === undefined ? text : new Date(time).toISOString(), iso)
  }
})

test('a text that is not a timestamp, or names a time that does not exist, is rejected', () => {
  const bad = [
    '', '2026-03-01', '2026-03-01T09:30Z', '2026-03-01T09:30:00', '2026-03-01 09:30:00Z',
    '1700000000000', '2026-02-29T00:00:00Z', '2026-02-30T00:00:00Z', '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z', '2026-01-00T00:00:00Z', '2026-01-01T24:00:00Z', '2026-01-01T00:60:00Z',
    '2026-01-01T00:00:61Z', '2026-01-01T00:00:00+24:00', '2026-01-01T00:00:00+01:60',
    '2026-01-01T00:00:00.Z', '2026-01-01T00:00:00.1234567890Z', ' 2026-01-01T00:00:00Z',
    '2026-01-01T00:00:00Z\n', '+002026-01-01T00:00:00Z',
  ]
  for (const text of bad) assert.equal(parseTimestamp(text), undefined, text)
})

test('every time that Date writes is read back', () => {
  const years = {
    min: new Date('0000-01-01T00:00:00Z'),
    max: new Date('9999-12-31T23:59:59.999Z'),
    noInvalidDate: true,
  }
  fc.assert(fc.property(fc.date(years), (date) => {
    assert.equal(parseTimestamp(date.toISOString()), date.getTime())
  }))
})
