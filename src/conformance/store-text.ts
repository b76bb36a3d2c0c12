import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'

/** Keys that a store might take for one another, or for something of its own. */
const KEYS = [
  'a', 'A', 'ab', 'a ', ' a', 'a:b', 'a::b', 'a:', ':a', 'a/b', 'a\\b', 'a.b', 'a%b', 'a_b', 'a%62', 'a+b', 'a*', 'a?', 'a[b]', 'a{b}', '{a}b',
  "a'b", 'a"b', 'a`b', 'a;--', '$1', 'a$$b', 'a\nb', 'a\r\nb', 'a\tb', '__proto__', 'constructor', 'toString', 'null', 'undefined', '0', '00',
  'caf\u00e9', 'cafe\u0301', '\u6771\u4eac', '\u{1f600}', '\u{1f601}', '\u200b', '\ufeff', '\u2028', '\u0007'
]

const VALUES = [
  '', ' ', '0', '007', '1e3', 'null', 'true', '{}', '[1,2]', '"quoted"', 'a\nb\r\nc\td', '\ufeffbyte order mark', "it's \"quoted\" \\ and %s $1 {0}",
  'caf\u00e9 cafe\u0301 \u6771\u4eac \u{1f469}\u200d\u{1f680}', '\u2028\u2029\u0001\u001f\u007f', ' leading and trailing \n'
]

/** That text comes back as it was. */
export const text: Cases<StoreBench> = {
  'keys that look alike are different keys': async (bench) => {
    for (const [i, key] of KEYS.entries()) await bench.created(bench.key(key), `value ${i}`)
    for (const [i, key] of KEYS.entries()) {
      assert.equal(await bench.value(bench.key(key)), `value ${i}`, `the key ${JSON.stringify(key)} has another's value`)
    }
    assert.equal(await bench.store.delete(bench.key('a*')), true)
    assert.equal(await bench.value(bench.key('a')), 'value 0')
    for (const [i, key] of KEYS.entries()) {
      assert.equal((await bench.store.increment(bench.key(key), i + 1, bench.later)).value, i + 1, `the counter ${JSON.stringify(key)} is another's`)
    }
  },

  'long keys are different to the last character': async (bench) => {
    const stem = bench.key('k'.repeat(400)).padEnd(511, '\u00e9')
    await bench.created(`${stem}1`, 'one')
    await bench.created(`${stem}2`, 'two')
    assert.equal(await bench.value(`${stem}1`), 'one')
    assert.equal(await bench.value(`${stem}2`), 'two')
    assert.equal(await bench.value(stem), undefined)
    assert.equal((await bench.store.increment(`${stem}1`, 1, bench.later)).value, 1)
    assert.equal((await bench.store.increment(`${stem}2`, 1, bench.later)).value, 1)
  },

  'values come back as they were, from every verb': async (bench) => {
    for (const [i, value] of VALUES.entries()) {
      const key = bench.key(`value-${i}`)
      const revision = await bench.created(key, value)
      assert.equal(await bench.value(key), value)
      const existing = await bench.store.create(key, 'other', bench.later)
      assert.ok(!existing.created, 'create() wrote over an entry')
      assert.equal(existing.entry.value, value)
      const next = VALUES[(i + 1) % VALUES.length] ?? ''
      assert.equal((await bench.store.replace(key, next, revision, bench.later)).replaced, true)
      const conflict = await bench.store.replace(key, 'other', revision, bench.later)
      assert.ok(!conflict.replaced, 'replace() took an old revision')
      assert.equal(conflict.entry?.value, next)
    }
  },

  'a value may have a megabyte': async (bench) => {
    const large = `${'0123456789abcdef'.repeat(65_535)}\u00e9\u6771\u{1f600}`
    const revision = await bench.created(bench.key(), large)
    assert.ok(await bench.value(bench.key()) === large, 'the large value came back changed')
    const larger = `x${large}`
    assert.equal((await bench.store.replace(bench.key(), larger, revision, bench.later)).replaced, true)
    assert.ok(await bench.value(bench.key()) === larger, 'the large value came back changed')
  }
}
