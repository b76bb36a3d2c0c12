import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { contentRange, selectRanges, type Ranges } from '../../../src/http/headers/range.js'
import { isLinear } from '../kit/growth.js'

/** RFC 9110 section 14.1 and 14.2, the slow and obvious way. */
function reference(header: string, size: number, maxRanges: number): Ranges {
  const [, unit = '', set = ''] = /^[ \t]*([^=]*)=(.*)$/s.exec(header) ?? []
  if (unit.toLowerCase() !== 'bytes') return 'whole'
  const members = set
    .split(',')
    .map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((member) => member !== '')
  if (members.length === 0 || members.length > maxRanges) return 'whole'
  const asked: { start: number, end: number }[] = []
  let empty = false
  for (const member of members) {
    const match = /^([0-9]*)-([0-9]*)$/.exec(member)
    if (match === null || member === '-') return 'whole'
    const first = match[1] === '' ? undefined : BigInt(match[1] as string)
    const last = match[2] === '' ? undefined : BigInt(match[2] as string)
    if (first !== undefined && last !== undefined && last < first) return 'whole'
    const total = BigInt(size)
    let start = first ?? total - (last as bigint)
    if (start < 0n) start = 0n
    let end = first === undefined || last === undefined ? total : last + 1n
    if (end > total) end = total
    if (start < end) asked.push({ start: Number(start), end: Number(end) })
    else if (first === undefined && size === 0 && last !== 0n) empty = true
  }
  if (asked.length === 0) return empty ? 'whole' : 'unsatisfiable'
  // Every range that has a byte in common with another one.
  const pairs = asked.flatMap((one, a) =>
    asked.flatMap((other, b) => (b > a && one.start < other.end && other.start < one.end ? [[a, b]] : [])),
  )
  if (pairs.length === 0) return asked
  const [[a = 0, b = 0] = []] = pairs
  if (new Set(pairs.flat()).size > 2) return 'whole'
  const union = { start: Math.min(asked[a]!.start, asked[b]!.start), end: Math.max(asked[a]!.end, asked[b]!.end) }
  return asked.map((range, index) => (index === a ? union : range)).filter((_, index) => index !== b)
}

describe('Range, RFC 9110 section 14.2', () => {
  const cases: [string, number, Ranges][] = [
    ['bytes=0-4', 10, [{ start: 0, end: 5 }]],
    ['bytes=5-', 10, [{ start: 5, end: 10 }]],
    ['bytes=-3', 10, [{ start: 7, end: 10 }]],
    ['bytes=-30', 10, [{ start: 0, end: 10 }]],
    ['bytes=9-9', 10, [{ start: 9, end: 10 }]],
    ['bytes=9-99999999999999999999999999', 10, [{ start: 9, end: 10 }]],
    ['BYTES=0-0', 10, [{ start: 0, end: 1 }]],
    [' bytes= 0-0 ,, \t-1 ', 10, [{ start: 0, end: 1 }, { start: 9, end: 10 }]],
    ['bytes=5-6,0-1', 10, [{ start: 5, end: 7 }, { start: 0, end: 2 }]],
    ['bytes=0-5,4-8', 10, [{ start: 0, end: 9 }]],
    ['bytes=4-8,9-9,0-5', 10, [{ start: 0, end: 9 }, { start: 9, end: 10 }]],
    ['bytes=0-0,10-20', 10, [{ start: 0, end: 1 }]],
    ['bytes=10-', 10, 'unsatisfiable'],
    ['bytes=10-20,99-', 10, 'unsatisfiable'],
    ['bytes=-0', 10, 'unsatisfiable'],
    ['bytes=99999999999999999999-', 10, 'unsatisfiable'],
    ['bytes=0-', 0, 'unsatisfiable'],
    ['bytes=-5', 0, 'whole'],
    ['bytes=0-5,4-8,5-9', 10, 'whole'],
    ['bytes=0-1,1-2,5-6,6-7', 10, 'whole'],
    ['bytes=0-,0-,0-', 10, 'whole'],
    ['bytes=5-4', 10, 'whole'],
    ['bytes=99999999999999999999-99999999999999999998', 10, 'whole'],
    ['bytes=0-1,5-4', 10, 'whole'],
    ['bytes=', 10, 'whole'],
    ['bytes=,', 10, 'whole'],
    ['bytes=-', 10, 'whole'],
    ['bytes=a-b', 10, 'whole'],
    // The neighbours of the digits.
    ['bytes=0-:', 10, 'whole'],
    ['bytes=0-/', 10, 'whole'],
    ['bytes=0-1;2-3', 10, 'whole'],
    ['bytes=0 -1', 10, 'whole'],
    ['bytes=+1-2', 10, 'whole'],
    ['bytes=1.0-2', 10, 'whole'],
    ['bytes 0-1', 10, 'whole'],
    ['bytes =0-1', 10, 'whole'],
    ['items=0-1', 10, 'whole'],
    ['', 10, 'whole'],
  ]
  for (const [header, size, expected] of cases) {
    test(`is read as the RFC says: ${JSON.stringify(header)} of ${size}`, () => {
      assert.deepEqual(selectRanges(header, size), expected)
      assert.deepEqual(reference(header, size, 16), expected, 'the reference agrees')
    })
  }

  test('ignores a missing header, several lines and another unit', () => {
    assert.equal(selectRanges(undefined, 10), 'whole')
    assert.equal(selectRanges(['bytes=0-1', 'bytes=2-3'], 10), 'whole')
    assert.deepEqual(selectRanges('items=0-24', 100, { unit: 'items' }), [{ start: 0, end: 25 }])
    assert.equal(selectRanges('bytes=0-24', 100, { unit: 'items' }), 'whole')
  })

  test('limits the number of ranges', () => {
    const many = (count: number): string =>
      `bytes=${Array.from({ length: count }, (_, at) => `${at * 2}-${at * 2}`).join(',')}`
    assert.equal(selectRanges(many(16), 1000).length, 16)
    assert.equal(selectRanges(many(17), 1000), 'whole')
    assert.equal(selectRanges(many(3), 1000, { maxRanges: 2 }), 'whole')
  })

  test('agrees with a slow and simple implementation', () => {
    const number = fc.oneof(
      fc.nat(12).map(String),
      fc.bigInt({ min: 0n, max: 1n << 70n }).map(String),
      fc.constant(''),
      fc.constant('007'),
    )
    const spec = fc.oneof(
      { weight: 9, arbitrary: fc.tuple(number, number).map(([a, b]) => `${a}-${b}`) },
      fc.constantFrom('', '-', '1', 'x-1', '1--2', '1-2-3', '0 - 1'),
    )
    const blank = fc.constantFrom('', '', ' ', '\t ')
    const set = fc.array(fc.tuple(blank, spec, blank).map((parts) => parts.join('')), { minLength: 1, maxLength: 6 })
    const header = fc
      .tuple(fc.constantFrom('bytes', 'bytes', 'bytes', 'Bytes', 'byte', ' bytes'), set)
      .map(([unit, specs]) => `${unit}=${specs.join(',')}`)
    fc.assert(fc.property(header, fc.nat(14), fc.integer({ min: 1, max: 5 }), (text, size, maxRanges) => {
      assert.deepEqual(selectRanges(text, size, { maxRanges }), reference(text, size, maxRanges))
    }), { numRuns: 5000 })
    fc.assert(fc.property(fc.string({ unit: fc.constantFrom(...'0123459-,= \tbytes') }), fc.nat(14), (text, size) => {
      assert.deepEqual(selectRanges(text, size), reference(text, size, 16))
    }), { numRuns: 5000 })
  })

  test('returns ranges that never overlap and lie within the size', () => {
    const header = fc.array(
      fc.tuple(fc.nat(40), fc.nat(40)).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
      { minLength: 1, maxLength: 8 },
    )
    fc.assert(fc.property(header, fc.integer({ min: 1, max: 50 }), (specs, size) => {
      const ranges = selectRanges(`bytes=${specs.join(',')}`, size)
      if (typeof ranges === 'string') return
      const bytes = ranges.flatMap(({ start, end }) => Array.from({ length: end - start }, (_, at) => start + at))
      assert.equal(new Set(bytes).size, bytes.length)
      assert.ok(bytes.length > 0 && Math.min(...bytes) >= 0 && Math.max(...bytes) < size)
    }))
  })

  test('takes linear time for headers from an attacker', () => {
    const hostile: ((n: number) => string)[] = [
      (n) => `bytes=${','.repeat(n)}`,
      (n) => `bytes=${' '.repeat(n)}x`,
      (n) => `bytes=${'9'.repeat(n)}-${'9'.repeat(n)}`,
      (n) => `bytes=${'0'.repeat(n)}1-${'0'.repeat(n)}`,
      (n) => `bytes=${'0-,'.repeat(n)}`,
      (n) => `bytes=${' ,\t'.repeat(n)}1-`,
      (n) => 'b'.repeat(n),
    ]
    for (const header of hostile) {
      assert.ok(isLinear((n) => {
        const text = header(n)
        return () => { selectRanges(text, 1000) }
      }), header(5))
    }
  })
})

test('RFC 9110 section 14.4: contentRange writes a range, a size and a unit', () => {
  assert.equal(contentRange({ start: 0, end: 5 }, 10), 'bytes 0-4/10')
  assert.equal(contentRange(undefined, 10), 'bytes */10')
  assert.equal(contentRange({ start: 0, end: 25 }, 100, 'items'), 'items 0-24/100')
})
