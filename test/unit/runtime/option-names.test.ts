import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { checkNames } from '../../../src/runtime/option-names.js'

const known = { owner: 1, id: 1, timeoutMs: 1, maxLineBytes: 1, maxWaitSeconds: 1, respond: 1, onError: 1 }
const names = Object.keys(known)
const check = (options: unknown) => () => { checkNames('make', options, known) }

/** Letters left out, put in, changed, or exchanged with the next one, by the table that every book has. */
function distance(a: string, b: string): number {
  let last: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const exchanged =
        i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? (last[j - 2] as number) + 1 : Infinity
      const changed = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, changed, exchanged))
    }
    last = row
    row = next
  }
  return row[b.length] as number
}
const stem = (name: string) => name.replace(/(ms|seconds|bytes)$/, '')
const isNear = (one: string, other: string): boolean => {
  const [a, b] = [one.toLowerCase(), other.toLowerCase()]
  return stem(a) === stem(b) || distance(a, b) <= (Math.min(a.length, b.length) > 5 ? 2 : 1)
}

const LIST = 'The options are owner, id, timeoutMs, maxLineBytes, maxWaitSeconds, respond and onError.'

describe('the name of an option', () => {
  for (const [wrong, meant] of [
    ['ownr', 'owner'],
    ['Owner', 'owner'],
    ['onerror', 'onError'],
    ['respnd', 'respond'],
    ['timeout', 'timeoutMs'],
    ['timeoutSeconds', 'timeoutMs'],
    ['maxLine', 'maxLineBytes'],
    ['maxWaitMs', 'maxWaitSeconds'],
    ['onwer', 'owner'],
    ['ids', 'id'],
    ['ID', 'id'],
  ] as const) {
    test(`${wrong} is not mistaken for ${meant}`, () => {
      const message = `make: there is no option "${wrong}"; did you mean "${meant}"? ${LIST}`
      assert.throws(check({ [wrong]: 1 }), { name: 'TypeError', message })
    })
  }

  test('is rejected with the existing names if it is unknown, with any value', () => {
    for (const [name, value] of [['blobs', 1], ['toString', 1], ['constructor', 1], ['unset', undefined]] as const) {
      assert.throws(check({ owner: 1, [name]: value }), {
        name: 'TypeError',
        message: `make: there is no option "${name}". ${LIST}`,
      })
    }
    assert.throws(check(Object.create({ inherited: 1 })), { message: `make: there is no option "inherited". ${LIST}` })
    assert.throws(
      () => {
        checkNames('make', { b: 1 }, { a: 1 })
      },
      { message: 'make: there is no option "b"; did you mean "a"? The only option is a.' },
    )
  })

  test('is not suggested if it is set', () => {
    assert.throws(check({ owner: 1, ownr: 2 }), { message: `make: there is no option "ownr". ${LIST}` })
    assert.throws(check({ owner: undefined, ownr: 2 }), /did you mean "owner"/)
    checkNames('make', { records: 1 }, { record: 1, records: 1 })
  })

  test('is explained with an example if the options are not an object', () => {
    for (const wrong of [undefined, null, 'x', 5, () => 1]) {
      assert.throws(check(wrong), { name: 'TypeError', message: 'make: pass options, such as { owner }' })
    }
  })

  test('never throws if it is known, and always throws if it is unknown, with suggestions of similar names', () => {
    fc.assert(
      fc.property(fc.subarray(names), (given) => {
        check(Object.fromEntries(given.map((name) => [name, 1])))()
      }),
    )
    const edited = fc
      .tuple(
        fc.constantFrom(...names),
        fc.array(fc.tuple(fc.nat(14), fc.constantFrom('', 'a', 'S', 'ms')), { maxLength: 4 }),
        fc.boolean(),
      )
      .map(([name, edits, put]) =>
        edits.reduce((text, [at, letter]) => text.slice(0, at) + letter + text.slice(put ? at : at + 1), name),
      )
    fc.assert(fc.property(fc.oneof(edited, fc.string()), (name) => {
      if (Object.hasOwn(known, name) || name === '__proto__') return
      const near = names.some((each) => isNear(name, each))
      assert.throws(
        check({ [name]: 1 }),
        (error: Error) => error.name === 'TypeError' && error.message.includes('did you mean') === near,
        name,
      )
    }), { numRuns: 3000 })
  })
})
