import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { after, describe, test } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/index.js'
import { Follower, Waiters } from '../../../src/tasks/wait.js'
import { within } from './kit.js'

// Timers of the library let a process end.
const hold = setInterval(() => undefined, 60_000)
after(() => { clearInterval(hold) })

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

describe('Follower', () => {
  test('wakes at a notice, its time, its signal and its close, and leaves nothing behind', async (t) => {
    const store = new MemoryStore()
    t.after(() => store.close())
    const follower = await Follower.open(store, 'k')
    const controller = new AbortController()
    assert.equal(await follower.next(60_000, controller.signal), undefined, 'the first is at once')
    const woken = follower.next(60_000, controller.signal)
    await store.create('k', 'v', { ttlMs: 60_000 })
    assert.equal((await within(woken, 1000))?.value, 'v')
    assert.equal((await within(follower.next(10, controller.signal), 1000))?.value, 'v')
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
    const aborted = follower.next(60_000, controller.signal)
    controller.abort()
    await within(aborted, 1000)
    const closed = follower.next(60_000, new AbortController().signal)
    follower.close()
    follower.close()
    await within(closed, 1000)
    assert.equal(store.usage().watches, 0)
  })

  test('reads again by itself when a notice is lost', async (t) => {
    const store = new MemoryStore()
    t.after(() => store.close())
    const real = setTimeout
    const waits: number[] = []
    t.mock.method(globalThis, 'setTimeout', (work: () => void, ms: number) => { waits.push(ms); return real(work, 5) })
    const deaf = { ...bound(store), watch: async () => () => undefined }
    const follower = await Follower.open(deaf, 'k')
    const { signal } = new AbortController()
    await follower.next(60_000, signal)
    const next = follower.next(60_000, signal)
    await store.create('k', 'v', { ttlMs: 60_000 })
    assert.equal((await next)?.value, 'v')
    assert.ok(waits.includes(3000), waits.join())
    follower.close()
  })
})

function bound(store: MemoryStore) {
  return {
    shared: false, get: store.get.bind(store), create: store.create.bind(store), replace: store.replace.bind(store),
    delete: store.delete.bind(store), increment: store.increment.bind(store), close: store.close.bind(store),
  }
}
