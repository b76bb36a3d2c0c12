import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { test } from 'node:test'
import { Polling } from '../../../adapters/postgres/changes/polling.js'
import { WatchList } from '../../../src/runtime/notices.js'

test('polling that was stopped and started during a query has one query a second', async (t) => {
  const watches = new WatchList()
  watches.add('key', () => undefined)
  const events = new EventEmitter()
  const begun = once(events, 'begun')
  const ended = once(events, 'ended')
  const times: number[] = []
  let isFirst = true
  const polling = new Polling(watches, async () => {
    if (isFirst) {
      isFirst = false
      const replied = once(events, 'replied')
      events.emit('begun')
      await replied
    } else times.push(performance.now())
    if (times.length === 3) events.emit('ended')
    return new Map()
  })
  t.after(() => { polling.stop() })
  // The timers of the polling keep no process alive.
  const alive = setInterval(() => undefined, 1000)
  t.after(() => { clearInterval(alive) })
  polling.start(false)
  await begun
  polling.stop()
  polling.start(false)
  events.emit('replied')
  await ended
  for (const [n, time] of times.slice(1).entries()) {
    assert.ok(time - (times[n] as number) > 500, 'two queries at once')
  }
})
