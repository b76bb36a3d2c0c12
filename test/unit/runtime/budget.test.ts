import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Budget } from '../../../src/runtime/budget.js'
import { heapBytesOf } from '../../../src/runtime/json-size.js'

const never = new AbortController().signal

describe('a budget', () => {
  test('gives what fits, in the order of the requests, and more than all of it to one that is alone', async () => {
    const budget = new Budget(10)
    assert.ok(budget.tryAcquire(50))
    assert.ok(!budget.tryAcquire(1))
    const order: string[] = []
    const large = budget.acquire(8, never).then((acquired) => order.push(`large ${acquired}`))
    const small = budget.acquire(2, never).then((acquired) => order.push(`small ${acquired}`))
    budget.release(50)
    await Promise.all([large, small])
    assert.deepEqual(order, ['large true', 'small true'])
    assert.ok(!budget.tryAcquire(1))
    budget.release(8)
    assert.ok(budget.tryAcquire(8))
  })

  test('lets nobody pass one that waits, and admits the next if that one gives up', async () => {
    const budget = new Budget(10)
    assert.ok(budget.tryAcquire(5))
    const stop = new AbortController()
    const first = budget.acquire(9, stop.signal)
    const second = budget.acquire(5, never)
    assert.ok(!budget.tryAcquire(1))
    stop.abort()
    assert.equal(await first, false)
    assert.equal(await second, true)
    assert.equal(await budget.acquire(1, stop.signal), false)
  })
})

test('the estimate of the heap of a parsed value counts objects, arrays, keys, text and numbers', () => {
  const empty = heapBytesOf([])
  assert.equal(heapBytesOf([{}, {}]) - heapBytesOf([{}]), 64)
  assert.equal(heapBytesOf([[]]), 2 * empty)
  assert.equal(heapBytesOf([1]) - empty, 16)
  assert.ok(heapBytesOf(['x'.repeat(1000)]) - empty >= 2000)
  assert.ok(heapBytesOf({ key: null }) - heapBytesOf({}) >= 48)
})
