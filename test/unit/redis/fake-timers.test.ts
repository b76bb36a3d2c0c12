// What is begun under a test's fake timers goes on when they are gone; no Redis is needed for that.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { after, describe, test, type TestContext } from 'node:test'
import type { RedisClient } from '../../../adapters/redis/client.js'
import { Connection } from '../../../adapters/redis/connection.js'
import { Watches } from '../../../adapters/redis/watches.js'
import { Notices } from '../../../src/runtime/notices.js'
import { isStoreUnavailable } from '../../../src/stores/store.js'
import { within } from '../../kit/wait.js'

// Timers of the library let a process end.
const hold = setInterval(() => undefined, 60_000)
after(() => { clearInterval(hold) })

function underFakes(t: TestContext, work: () => void): void {
  t.mock.timers.enable()
  work()
  t.mock.timers.reset()
}

describe('after fake timers', () => {
  test('calls without a reply still end', async (t) => {
    const connection = new Connection({} as RedisClient, 20, 'base')
    const silent = () => connection.call('get', () => new Promise(() => undefined), () => undefined)
    let first: Promise<unknown> = Promise.resolve()
    underFakes(t, () => { first = silent() })
    const second = silent()
    await within(Promise.all([first, second].map((call) => assert.rejects(call, isStoreUnavailable))))
  })

  test('collected notices are sent', async (t) => {
    const sent = new EventEmitter()
    const notices = new Notices((channels) => {
      for (const channel of channels) sent.emit('sent', channel)
      return Promise.resolve()
    })
    const heard = new Promise<void>((resolve) => {
      sent.on('sent', (channel) => { if (channel === 'b') resolve() })
    })
    underFakes(t, () => {
      notices.add('a')
      notices.add('b')
    })
    await within(heard)
  })

  test('a missing connection is opened', async (t) => {
    const asked = new EventEmitter()
    const client = { nodes: () => { asked.emit('asked'); return [] } } as unknown as RedisClient
    const watches = new Watches(client, () => undefined)
    t.after(() => { watches.clear(); watches.release() })
    underFakes(t, () => { watches.add('a', () => undefined) })
    await within(new Promise<void>((resolve) => { asked.once('asked', () => { resolve() }) }))
  })
})
