import assert from 'node:assert/strict'
import fc from 'fast-check'
import rangeParser from 'range-parser'
import { contentRange, selectRanges, type Range } from '../../src/http/headers/range.js'
import { linear } from './frame/linear.js'
import { mutated } from './frame/mutate.js'

const EXAMPLES = [
  'bytes=0-4', 'bytes=5-', 'bytes=-3', 'bytes=0-0,-1', 'items=0-24', 'bytes=0-5,4-8',
  'bytes=9-99999999999999999999', 'BYTES = 0-1', 'bytes=0-1, 3-4 ,,6-', 'seconds=1-2',
]
const PIECES = ['bytes=', 'items=', '0-', '-0', '-', '1-2', ',', ', ', '0', '007', '18446744073709551616', '=', 'b']

const size = fc.oneof(fc.nat(40), fc.constantFrom(0, 1, 2 ** 31, 2 ** 53 - 1))
const overlaps = (ranges: readonly Range[]): boolean =>
  ranges.some((one, a) => ranges.some((other, b) => a !== b && one.start < other.end && other.start < one.end))

/** Fields in which nothing is wrong; few, so that neither bound is met. */
const sound = fc
  .array(
    fc.oneof(
      fc.tuple(fc.nat(60), fc.nat(60)).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
      fc.nat(60).map((a) => `${a}-`),
      fc.integer({ min: 1, max: 60 }).map((a) => `-${a}`),
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((specs) => `bytes=${specs.join(',')}`)

export const rules = {
  'gives ranges that lie within and apart': fc.property(
    mutated(EXAMPLES, PIECES),
    size,
    fc.constantFrom('bytes', 'items'),
    (text, whole, unit) => {
      const ranges = selectRanges(text, whole, { unit })
      if (typeof ranges === 'string') {
        assert.ok(ranges === 'whole' || ranges === 'unsatisfiable')
        return
      }
      assert.ok(ranges.length > 0 && ranges.length <= 16)
      for (const { start, end } of ranges)
        assert.ok(Number.isSafeInteger(start) && start >= 0 && start < end && end <= whole, `${start} ${end}`)
      assert.ok(!overlaps(ranges))
      assert.match(contentRange(ranges[0], whole, unit), new RegExp(`^${unit} \\d+-\\d+/\\d+$`))
    },
  ),
  'is what range-parser says, where nothing overlaps': fc.property(sound, fc.nat(60), (text, whole) => {
    // range-parser calls a suffix that is longer than all of it unsatisfiable; section 14.1.2 says that it is all.
    fc.pre(![...text.matchAll(/[=,]-(\d+)/g)].some(([, length]) => Number(length) > whole))
    const theirs = rangeParser(whole, text)
    const ours = selectRanges(text, whole)
    if (typeof theirs === 'number') {
      // The last so many of nothing: no Content-Range can say that, so it is the whole.
      assert.ok(ours === 'unsatisfiable' || (whole === 0 && ours === 'whole'))
      return
    }
    const ranges = theirs.map(({ start, end }) => ({ start, end: end + 1 }))
    if (!overlaps(ranges)) assert.deepEqual(ours, ranges)
    else assert.ok(ours === 'whole' || (Array.isArray(ours) && ours.length === ranges.length - 1))
  }),
  'takes linear time': linear([...PIECES, ' ', '\t', '9', '0-,', '0-0,'], (text) => {
    selectRanges(text, 1000)
  }),
  'takes linear time behind the unit': linear([...PIECES, ' ', '\t', '9', '0-,'], (text) => {
    selectRanges(`bytes=${text}`, 1000, { maxRanges: Infinity })
  }),
}
