import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { checkNames } from '../../../src/http/option-names.js'

const known = { owner: 1, id: 1, timeoutMs: 1, maxLineBytes: 1, maxWaitSeconds: 1, respond: 1, onError: 1 }
const names = Object.keys(known)
const check = (options: unknown) => () => { checkNames('make', options, known) }

/** Letters left out, put in or changed, by the table that every book has. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)))
    }
    row = next
  }
  return row[b.length] as number
}
const stem = (name: string) => name.replace(/(ms|seconds|bytes)$/, '')
const isNear = (one: string, other: string): boolean => {
  const [a, b] = [one.toLowerCase(), other.toLowerCase()]
  return stem(a) === stem(b) || distance(a, b) <= (Math.min(a.length, b.length) > 5 ? 2 : 1)
}

describe('names of options', () => {
  for (const [wrong, meant] of [
    ['ownr', 'owner'], ['Owner', 'owner'], ['onerror', 'onError'], ['respnd', 'respond'], ['timeout', 'timeoutMs'], ['timeoutSeconds', 'timeoutMs'],
    ['maxLine', 'maxLineBytes'], ['maxWaitMs', 'maxWaitSeconds'], ['ids', 'id'], ['ID', 'id'],
  ] as const) {
    test(`${wrong} is told from ${meant}`, () => {
      assert.throws(check({ [wrong]: 1 }), { name: 'TypeError', message: `make: there is no option "${wrong}"; did you mean "${meant}"?` })
    })
  }

  test('what is near to a name that is given too is fine, and so is what is far from all', () => {
    check({ owner: 1, ownr: 2 })()
    checkNames('make', { records: 1 }, { record: 1, records: 1 })
    assert.throws(check({ owner: undefined, ownr: 2 }), /did you mean "owner"/)
    check({ blobs: 1, store: 1, oner3e: 1, ida1: 1, toString: 1, constructor: 1, maxLines3: 1 })()
    check(Object.create({ toString: 1 }))()
  })

  test('what are no options is refused with an example', () => {
    for (const wrong of [undefined, null, 'x', 5, () => 1]) assert.throws(check(wrong), { name: 'TypeError', message: 'make: pass options, such as { owner }' })
  })

  test('known names never throw, far ones never, near ones always', () => {
    fc.assert(fc.property(fc.subarray(names), (given) => { check(Object.fromEntries(given.map((name) => [name, 1])))() }))
    const edited = fc.tuple(fc.constantFrom(...names), fc.array(fc.tuple(fc.nat(14), fc.constantFrom('', 'a', 'S', 'ms')), { maxLength: 4 }), fc.boolean())
      .map(([name, edits, put]) => edits.reduce((text, [at, letter]) => text.slice(0, at) + letter + text.slice(put ? at : at + 1), name))
    fc.assert(fc.property(fc.oneof(edited, fc.string()), (name) => {
      if (name in known || name === '__proto__') return
      if (names.some((each) => isNear(name, each))) assert.throws(check({ [name]: 1 }), TypeError, name)
      else check({ [name]: 1 })()
    }), { numRuns: 3000 })
  })
})
