import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ShortLivedMap } from '../../../adapters/memory/short-lived-map.js'

test('behaves as a Map, also after it was rebuilt', () => {
  const id = fc.nat(20).map(String)
  const step = fc.oneof(
    fc.record({ kind: fc.constant('set' as const), id, value: fc.nat() }),
    fc.record({ kind: fc.constant('delete' as const), id }),
  )
  fc.assert(fc.property(fc.array(step, { maxLength: 300 }), fc.nat(600), (steps, before) => {
    const map = new ShortLivedMap<number>()
    const model = new Map<string, number>()
    for (let n = 0; n < before; n++) {
      map.set(`b${String(n)}`, n)
      map.delete(`b${String(n)}`)
    }
    for (const each of steps) {
      if (each.kind === 'set') {
        map.set(each.id, each.value)
        model.set(each.id, each.value)
      } else {
        map.delete(each.id)
        model.delete(each.id)
      }
      assert.equal(map.size, model.size)
      assert.equal(map.has(each.id), model.has(each.id))
      assert.equal(map.get(each.id), model.get(each.id))
    }
    assert.deepEqual([...map.values()], [...model.values()])
  }))
})

test('an iteration during changes is bounded by the size', () => {
  const map = new ShortLivedMap<number>()
  for (let n = 0; n < 1000; n++) map.set(String(n), n)
  const seen: number[] = []
  for (const value of map.values()) {
    seen.push(value)
    for (let n = value; n < 1000; n++) map.delete(String(n))
    map.set('new', -1)
    if (seen.length > 1000) break
  }
  assert.ok(seen.length <= 2, `saw ${String(seen.length)} values`)
  assert.equal(map.get('new'), -1)
})
