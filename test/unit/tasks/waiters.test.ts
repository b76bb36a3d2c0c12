import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import { Waiters } from '../../../src/tasks/wait.js'

describe('Waiters', () => {
  test('as many places as there are, and none for who has gone or once it is closed', () => {
    const waiters = new Waiters(2)
    const client = new AbortController()
    const [a, b] = [waiters.enter(client.signal), waiters.enter(new AbortController().signal)]
    assert.ok(a && b)
    assert.equal(waiters.enter(client.signal), undefined)
    a.leave()
    a.leave()
    assert.equal(waiters.size, 1)
    assert.equal(waiters.enter(AbortSignal.abort()), undefined)
    waiters.close()
    assert.equal(b.signal.aborted, true)
    b.leave()
    assert.equal(waiters.enter(client.signal), undefined)
    assert.equal(waiters.size, 0)
  })

  test('a place left leaves no listener on its client', () => {
    const waiters = new Waiters(10)
    const { signal } = new AbortController()
    for (let n = 0; n < 10; n++) waiters.enter(signal)?.leave()
    assert.equal(getEventListeners(signal, 'abort').length, 0)
  })
})
