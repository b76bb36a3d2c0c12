// Tasks that become due one after the other, while the worker looks.
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { join } from 'node:path'
import { test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { sqlite } from 'longhaul/sqlite'
import type { StoreEvent } from '../../../src/stores/calls.js'
import { deferred, within } from '../../kit/wait.js'
import { openSqlite, sqliteFolder } from '../../servers/sqlite.js'

test('A task that becomes due between a take and the next read can start before a place is free', async (t) => {
  const database = openSqlite(join(sqliteFolder(), 'tasks.db'))
  const first = deferred()
  const began: string[] = []
  const isOver = deferred()
  const hold = defineTask({
    name: 'hold',
    run: async () => {
      await first.promise
      return {}
    },
  })
  const work = defineTask({
    name: 'work',
    run: ({ name }: { name: string }) => {
      began.push(name)
      if (began.length === 2) isOver.resolve()
      return {}
    },
  })
  const tasks = createTasks({ ...sqlite({ database }), definitions: [hold, work], concurrency: 1 })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    database.close()
  })
  await tasks.submit(hold, {})
  const start = Date.now()
  let now = start
  t.mock.method(Date, 'now', () => now)
  await tasks.submit(work, { name: 'low' }, { delayMs: 1000, priority: 9 })
  await tasks.submit(work, { name: 'high' }, { delayMs: 1001, priority: 1 })
  const listen = (message: unknown): void => {
    const { verb } = message as StoreEvent
    // The second task is due once the first one was handed out.
    if (verb === 'take' && now === start + 1000) {
      now++
      // A look that follows at once is earlier than this timer, and the regular one is later.
      setTimeout(() => { first.resolve() }, 100)
    }
  }
  subscribe('longhaul:store', listen)
  t.after(() => { unsubscribe('longhaul:store', listen) })
  now = start + 1000
  await within(isOver.promise)
  assert.deepEqual(began, ['high', 'low'])
})
