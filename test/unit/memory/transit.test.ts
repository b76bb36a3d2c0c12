import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Transit } from '../../../src/queues/transit.js'

test('a transit is a map, also when it has been begun anew', () => {
  const id = fc.nat(20).map(String)
  const step = fc.oneof(
    fc.record({ kind: fc.constant('set' as const), id, value: fc.nat() }),
    fc.record({ kind: fc.constant('delete' as const), id }),
  )
  fc.assert(fc.property(fc.array(step, { maxLength: 300 }), fc.nat(600), (steps, before) => {
    const transit = new Transit<number>()
    const model = new Map<string, number>()
    for (let n = 0; n < before; n++) {
      transit.set(`b${String(n)}`, n)
      transit.delete(`b${String(n)}`)
    }
    for (const each of steps) {
      if (each.kind === 'set') {
        transit.set(each.id, each.value)
        model.set(each.id, each.value)
      } else {
        transit.delete(each.id)
        model.delete(each.id)
      }
      assert.equal(transit.size, model.size)
      assert.equal(transit.has(each.id), model.has(each.id))
      assert.equal(transit.get(each.id), model.get(each.id))
    }
    assert.deepEqual([...transit.values()], [...model.values()])
  }))
})

test('who goes through the values while all of them go and others come sees no more than there were', () => {
  const transit = new Transit<number>()
  for (let n = 0; n < 1000; n++) transit.set(String(n), n)
  const seen: number[] = []
  for (const value of transit.values()) {
    seen.push(value)
    for (let n = value; n < 1000; n++) transit.delete(String(n))
    transit.set('new', -1)
    if (seen.length > 1000) break
  }
  assert.ok(seen.length <= 2, `saw ${String(seen.length)} values`)
  assert.equal(transit.get('new'), -1)
})
