import assert from 'node:assert/strict'
import type { Entry } from '../src/stores/store.js'
import type { Cases } from './runner.js'
import type { StoreContext } from './store-context.js'
import { reject } from './wait.js'

/** Tests of each method without concurrent callers. */
export const entries: Cases<StoreContext> = {
  'create writes an entry once, and get and a second create return it': async (context) => {
    await context.absent(context.key())
    const revision = await context.created(context.key(), 'one')
    assert.deepEqual({ ...await context.store.get(context.key()) }, { value: 'one', revision })
    const outcome = await context.store.create(context.key(), 'two', context.later)
    assert.deepEqual(outcome, { created: false, entry: { value: 'one', revision } })
    assert.deepEqual({ ...await context.store.get(context.key()) }, { value: 'one', revision })
  },

  'replace with an old revision changes nothing, and returns the entry': async (context) => {
    const first = await context.created(context.key(), 'one')
    const revision = await context.replaced(context.key(), 'two', first)
    assert.notEqual(revision, first)
    const third = await context.store.replace(context.key(), 'three', first, context.later)
    assert.deepEqual(third, { replaced: false, entry: { value: 'two', revision } })
    assert.deepEqual({ ...await context.store.get(context.key()) }, { value: 'two', revision })
  },

  'replace with the same value gives a new revision': async (context) => {
    const first = await context.created(context.key(), 'same')
    assert.notEqual(await context.replaced(context.key(), 'same', first), first)
    await context.outdated(context.key(), first)
  },

  'replace of an absent entry writes nothing': async (context) => {
    const revision = await context.created(context.key('other'), 'one')
    const outcome = await context.store.replace(context.key(), 'two', revision, context.later)
    assert.deepEqual(outcome, { replaced: false, entry: undefined })
    await context.absent(context.key())
  },

  'an unknown revision matches no entry': async (context) => {
    const revision = await context.created(context.key(), 'one')
    const wrong = [
      '', '0', 'x', `${revision} `, ` ${revision}`, `${revision}0`, `0${revision}`,
      `${revision}.0`, '*', 'undefined',
    ]
    for (const each of wrong) await context.outdated(context.key(), each)
    assert.equal(await context.value(context.key()), 'one')
  },

  'only the first delete of an entry returns true, and only with its revision if one is given': async (context) => {
    const first = await context.created(context.key(), 'one')
    const second = await context.replaced(context.key(), 'two', first)
    assert.equal(await context.store.delete(context.key(), first), false)
    assert.equal(await context.value(context.key()), 'two')
    for (const revision of [second, undefined]) {
      assert.equal(await context.store.delete(context.key(), revision), true)
      await context.absent(context.key())
      assert.equal(await context.store.delete(context.key(), revision), false)
      await context.created(context.key(), 'one')
    }
  },

  'a key never gets the same revision twice, not even after delete': async (context) => {
    const seen: string[] = []
    for (let round = 0; round < 3; round++) {
      let revision = await context.created(context.key(), 'x')
      for (const old of seen) await context.outdated(context.key(), old)
      seen.push(revision)
      for (let i = 0; i < 3; i++) {
        revision = await context.replaced(context.key(), 'x', revision)
        seen.push(revision)
      }
      assert.equal(await context.store.delete(context.key(), revision), true)
    }
    assert.equal(new Set(seen).size, seen.length, `a revision was repeated: ${seen.join(', ')}`)
  },

  'a caller that changes a returned entry does not change the stored one': async (context) => {
    const revision = await context.created(context.key(), 'one')
    const entry = await context.store.get(context.key()) as { -readonly [K in keyof Entry]: Entry[K] }
    try {
      entry.value = 'two'
      entry.revision = 'none'
    } catch {
      // The store may return a frozen entry instead of a copy.
    }
    assert.equal(await context.value(context.key()), 'one')
    await context.replaced(context.key(), 'three', revision)
  },

  'an evictable entry may disappear early, and other entries may not': async (context) => {
    const evictable = { ...context.later, evictable: true }
    const first = await context.created(context.key('held'), 'held')
    for (let i = 0; i < 20; i++) {
      await context.created(context.key(`evictable-${i}`), `${i}`, evictable)
      const value = await context.value(context.key(`evictable-${i}`))
      assert.ok(value === undefined || value === `${i}`, 'an entry has the value of another')
    }
    assert.equal(await context.value(context.key('held')), 'held')
    await context.replaced(context.key('held'), 'free', first, evictable)
  },

  'misuse rejects with a TypeError and changes nothing': async (context) => {
    const revision = await context.created(context.key(), 'one')
    for (const ttlMs of [NaN, Infinity]) {
      await reject(context, TypeError, {
        create: () => context.store.create(context.key('new'), 'x', { ttlMs }),
        replace: () => context.store.replace(context.key(), 'x', revision, { ttlMs }),
        increment: () => context.store.increment(context.key('count'), 1, { ttlMs }),
      })
    }
    await reject(context, TypeError, {
      fraction: () => context.store.increment(context.key('count'), 0.5, context.later),
      NaN: () => context.store.increment(context.key('count'), NaN, context.later),
    })
    assert.equal(await context.value(context.key()), 'one')
    await context.absent(context.key('new'))
    assert.equal(await context.count(context.key('count')), 1)
  },

  'keys and values that a store cannot keep are rejected with a TypeError': async (context) => {
    const { store, later } = context
    const revision = await context.created(context.key(), 'one')
    const long = context.key('k'.repeat(512))
    for (const key of ['', long, context.key('a\0b'), context.key('\ud800'), context.key('\udc00b')]) {
      await reject(context, TypeError, {
        get: () => store.get(key), create: () => store.create(key, 'x', later),
        replace: () => store.replace(key, 'x', revision, later),
        increment: () => store.increment(key, 1, later),
      })
    }
    for (const value of ['a\0b', '\ud800', 'b\udc00']) {
      await reject(context, TypeError, {
        create: () => store.create(context.key('new'), value, later),
        replace: () => store.replace(context.key(), value, revision, later),
      })
    }
    assert.equal(await context.value(context.key()), 'one')
    await context.absent(context.key('new'))
  },
}

/** Keys that a store might confuse or misinterpret. */
const KEYS = [
  'a', 'A', 'ab', 'a ', ' a', 'a:b', 'a::b', 'a:', ':a', 'a/b', 'a\\b', 'a.b', 'a%b', 'a_b', 'a%62',
  'a+b', 'a*', 'a?', 'a[b]', 'a{b}', '{a}b', "a'b", 'a"b', 'a`b', 'a;--', '$1', 'a$$b', 'a\nb',
  'a\r\nb', 'a\tb', '__proto__', 'constructor', 'toString', 'null', 'undefined', '0', '00',
  'caf\u00e9', 'cafe\u0301', '\u6771\u4eac', '\u{1f600}', '\u{1f601}', '\u200b', '\ufeff', '\u2028',
  '\u0007',
]

const VALUES = [
  '', ' ', '0', '007', '1e3', 'null', 'true', '{}', '[1,2]', '"quoted"', 'a\nb\r\nc\td',
  '\ufeffbyte order mark', 'it\'s "quoted" \\ and %s $1 {0}', ' leading and trailing \n',
  'caf\u00e9 cafe\u0301 \u6771\u4eac \u{1f469}\u200d\u{1f680}', '\u2028\u2029\u0001\u001f\u007f',
]

/** Tests that keys and values are stored unchanged. */
export const strings: Cases<StoreContext> = {
  'similar keys are different keys': async (context) => {
    for (const [i, key] of KEYS.entries()) await context.created(context.key(key), `value ${i}`)
    for (const [i, key] of KEYS.entries()) {
      assert.equal(await context.value(context.key(key)), `value ${i}`, JSON.stringify(key))
    }
    assert.equal(await context.store.delete(context.key('a*')), true)
    assert.equal(await context.value(context.key('a')), 'value 0')
    for (const [i, key] of KEYS.entries()) {
      assert.equal(await context.count(context.key(key), i + 1), i + 1, JSON.stringify(key))
    }
  },

  'long keys are compared to the last character': async (context) => {
    const stem = context.key('k'.repeat(400)).padEnd(511, '\u00e9')
    await context.created(`${stem}1`, 'one')
    await context.created(`${stem}2`, 'two')
    assert.equal(await context.value(`${stem}1`), 'one')
    assert.equal(await context.value(`${stem}2`), 'two')
    assert.equal(await context.value(stem), undefined)
    assert.equal(await context.count(`${stem}1`), 1)
    assert.equal(await context.count(`${stem}2`), 1)
  },

  'every method returns values unchanged': async (context) => {
    for (const [i, value] of VALUES.entries()) {
      const key = context.key(`value-${i}`)
      const revision = await context.created(key, value)
      assert.equal(await context.value(key), value)
      const existing = await context.store.create(key, 'other', context.later)
      assert.ok(!existing.created, 'create() wrote over an entry')
      assert.equal(existing.entry.value, value)
      const next = VALUES[(i + 1) % VALUES.length] ?? ''
      await context.replaced(key, next, revision)
      const conflict = await context.store.replace(key, 'other', revision, context.later)
      assert.ok(!conflict.replaced, 'replace() took an old revision')
      assert.equal(conflict.entry?.value, next)
    }
  },

  'a value may have a megabyte': async (context) => {
    const large = `${'0123456789abcdef'.repeat(65_535)}\u00e9\u6771\u{1f600}`
    const revision = await context.created(context.key(), large)
    assert.ok(await context.value(context.key()) === large, 'the large value came back changed')
    await context.replaced(context.key(), `x${large}`, revision)
    assert.ok(await context.value(context.key()) === `x${large}`, 'the value came back changed')
  },
}
