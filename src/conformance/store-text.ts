import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreContext } from './store-context.js'

/** Keys that a store might confuse or misinterpret. */
const KEYS = [
  'a',
  'A',
  'ab',
  'a ',
  ' a',
  'a:b',
  'a::b',
  'a:',
  ':a',
  'a/b',
  'a\\b',
  'a.b',
  'a%b',
  'a_b',
  'a%62',
  'a+b',
  'a*',
  'a?',
  'a[b]',
  'a{b}',
  '{a}b',
  "a'b",
  'a"b',
  'a`b',
  'a;--',
  '$1',
  'a$$b',
  'a\nb',
  'a\r\nb',
  'a\tb',
  '__proto__',
  'constructor',
  'toString',
  'null',
  'undefined',
  '0',
  '00',
  'caf\u00e9',
  'cafe\u0301',
  '\u6771\u4eac',
  '\u{1f600}',
  '\u{1f601}',
  '\u200b',
  '\ufeff',
  '\u2028',
  '\u0007',
]

const VALUES = [
  '',
  ' ',
  '0',
  '007',
  '1e3',
  'null',
  'true',
  '{}',
  '[1,2]',
  '"quoted"',
  'a\nb\r\nc\td',
  '\ufeffbyte order mark',
  'it\'s "quoted" \\ and %s $1 {0}',
  'caf\u00e9 cafe\u0301 \u6771\u4eac \u{1f469}\u200d\u{1f680}',
  '\u2028\u2029\u0001\u001f\u007f',
  ' leading and trailing \n',
]

/** Tests that keys and values are stored unchanged. */
export const text: Cases<StoreContext> = {
  'keys that look alike are different keys': async (context) => {
    for (const [i, key] of KEYS.entries()) await context.created(context.key(key), `value ${i}`)
    for (const [i, key] of KEYS.entries()) {
      assert.equal(
        await context.value(context.key(key)),
        `value ${i}`,
        `the key ${JSON.stringify(key)} has another's value`,
      )
    }
    assert.equal(await context.store.delete(context.key('a*')), true)
    assert.equal(await context.value(context.key('a')), 'value 0')
    for (const [i, key] of KEYS.entries()) {
      assert.equal(
        (await context.store.increment(context.key(key), i + 1, context.later)).value,
        i + 1,
        `the counter ${JSON.stringify(key)} is another's`,
      )
    }
  },

  'long keys are different to the last character': async (context) => {
    const stem = context.key('k'.repeat(400)).padEnd(511, '\u00e9')
    await context.created(`${stem}1`, 'one')
    await context.created(`${stem}2`, 'two')
    assert.equal(await context.value(`${stem}1`), 'one')
    assert.equal(await context.value(`${stem}2`), 'two')
    assert.equal(await context.value(stem), undefined)
    assert.equal((await context.store.increment(`${stem}1`, 1, context.later)).value, 1)
    assert.equal((await context.store.increment(`${stem}2`, 1, context.later)).value, 1)
  },

  'values come back as they were, from every verb': async (context) => {
    for (const [i, value] of VALUES.entries()) {
      const key = context.key(`value-${i}`)
      const revision = await context.created(key, value)
      assert.equal(await context.value(key), value)
      const existing = await context.store.create(key, 'other', context.later)
      assert.ok(!existing.created, 'create() wrote over an entry')
      assert.equal(existing.entry.value, value)
      const next = VALUES[(i + 1) % VALUES.length] ?? ''
      assert.equal((await context.store.replace(key, next, revision, context.later)).replaced, true)
      const conflict = await context.store.replace(key, 'other', revision, context.later)
      assert.ok(!conflict.replaced, 'replace() took an old revision')
      assert.equal(conflict.entry?.value, next)
    }
  },

  'a value may have a megabyte': async (context) => {
    const large = `${'0123456789abcdef'.repeat(65_535)}\u00e9\u6771\u{1f600}`
    const revision = await context.created(context.key(), large)
    assert.ok(await context.value(context.key()) === large, 'the large value came back changed')
    const larger = `x${large}`
    assert.equal(
      (await context.store.replace(context.key(), larger, revision, context.later)).replaced,
      true,
    )
    assert.ok(await context.value(context.key()) === larger, 'the large value came back changed')
  }
}
