// Tasks that start much later.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineTask } from 'longhaul'
import { databaseForFile } from '../kit/postgres.js'
import { eventually } from '../../kit/wait.js'

const { transact, tasksOver } = await databaseForFile()
const send = defineTask({ name: 'send', run: () => 1 })
const flaky = defineTask({
  name: 'flaky', attempts: 2, backoff: { type: 'fixed', delayMs: 10.5 },
  run: (_input, { attempt }) => {
    if (attempt === 1) throw new Error('fails once')
    return 1
  },
})
const tasks = tasksOver({ definitions: [send, flaky] })

test('a delayed task that was submitted in a transaction is scheduled, and waits for nothing else', async () => {
  await eventually(async () => (await tasks.health()).ok, 30_000, 'the tables are there')
  const { taskId } = await transact((client) => (
    tasks.submit(send, {}, { transaction: client, delayMs: 3_600_000 })
  ))
  assert.equal((await tasks.get(taskId))?.status, 'scheduled')
  const [pool] = await tasks.pools()
  assert.deepEqual([pool?.waiting, pool?.delayed], [0, 1])
})

test('tasks may start in months, and after a fraction of a millisecond', async () => {
  for (const delayMs of [100 * 86_400_000, 3_600_000.5]) {
    const task = await tasks.submit(send, {}, { delayMs })
    assert.equal((await task.cancel())?.status, 'cancelled')
  }
  const soon = await tasks.submit(send, {}, { delayMs: 0.3 })
  assert.equal((await soon.wait({ timeoutMs: 60_000 }))?.status, 'completed')
})

test('a run is repeated after a fraction of a millisecond', async () => {
  const task = await tasks.submit(flaky, {})
  assert.equal((await task.wait({ timeoutMs: 60_000 }))?.status, 'completed')
})
