import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import { Waiters } from '../../../../src/tasks/record/subscriptions.js'

describe('Waiters', () => {
  test('gives its places to requests, and none to a client that has disconnected or after close', () => {
    const waiters = new Waiters(2)
    const client = new AbortController()
    const [a, b] = [waiters.tryAcquire(client.signal, 'ann'), waiters.tryAcquire(new AbortController().signal, 'ben')]
    assert.ok(a && b)
    assert.equal(waiters.tryAcquire(client.signal, 'ann'), undefined)
    a.release()
    a.release()
    assert.equal(waiters.size, 1)
    assert.equal(waiters.tryAcquire(AbortSignal.abort(), 'cat'), undefined)
    waiters.close()
    assert.equal(b.signal.aborted, true)
    b.release()
    assert.equal(waiters.tryAcquire(client.signal, 'ann'), undefined)
    assert.equal(waiters.size, 0)
  })

  test('leaves no listener on the client of a released place', () => {
    const waiters = new Waiters(10)
    const { signal } = new AbortController()
    for (let n = 0; n < 10; n++) waiters.tryAcquire(signal, 'ann')?.release()
    assert.equal(getEventListeners(signal, 'abort').length, 0)
  })

  test('gives one owner maxPerOwner places, and other owners keep theirs', () => {
    const waiters = new Waiters(100, 3)
    const enter = (who: string) => waiters.tryAcquire(new AbortController().signal, who)
    const mine = [enter('ann'), enter('ann'), enter('ann')]
    assert.deepEqual([waiters.isFullFor('ann'), enter('ann')], [true, undefined])
    assert.ok(enter('ben'))
    assert.equal(waiters.isFullFor('ben'), false)
    mine[0]?.release()
    mine[0]?.release()
    assert.ok(enter('ann'))
    assert.equal(enter('ann'), undefined)
  })

  test('gives an owner a tenth by default, and at least 10', () => {
    for (const [max, own] of [[1000, 100], [50, 10]] as const) {
      const waiters = new Waiters(max)
      for (let at = 0; at < own; at++) assert.ok(waiters.tryAcquire(new AbortController().signal, 'ann'))
      assert.equal(waiters.tryAcquire(new AbortController().signal, 'ann'), undefined)
      assert.ok(waiters.tryAcquire(new AbortController().signal, 'ben'))
    }
  })
})
