import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask } from '../../../../src/index.js'
import { coreOf } from '../../../../src/tasks/tasks.js'
import { openDatabase } from '../../../servers/open-database.js'
import { sqliteUrl } from '../../../servers/sqlite.js'

const ENGINES = { memory: async () => undefined, SQLite: sqliteUrl }
const HOUR = 3_600_000

interface Kept { readonly retentionMs?: number, readonly failedRetentionMs?: number }

/** Returns the hours for which a task is kept that has completed, that has failed, and that was cancelled. */
async function hoursKept(t: TestContext, url: string | undefined, all: Kept, one: Kept): Promise<number[]> {
  const { parts, close } = openDatabase(url, { name: 'failed_retention' })
  const work = defineTask({
    name: 'work', ...one,
    run: (end: string, { signal }) => {
      if (end === 'failed') throw new Error('It fails')
      return end === 'completed' ? end : new Promise((_, reject) => {
        signal.addEventListener('abort', () => { reject(new Error('stopped')) })
      })
    },
  })
  const tasks = createTasks({ ...parts, definitions: [work], onError: () => undefined, ...all })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await close()
  })
  const hours: number[] = []
  for (const end of ['completed', 'failed', 'cancelled']) {
    const task = await tasks.submit(work, end)
    if (end === 'cancelled') await task.cancel()
    assert.equal((await task.wait({ timeoutMs: 60_000 }))?.status, end)
    const { expiresAt = 0, finishedAt = 0 } = await coreOf(tasks).read(task.taskId) ?? {}
    hours.push((expiresAt - finishedAt) / HOUR)
  }
  return hours
}

for (const [name, open] of Object.entries(ENGINES)) {
  describe(`failedRetentionMs on ${name}`, () => {
    test('the option of createTasks keeps failed tasks only', async (t) => {
      const hours = await hoursKept(t, await open(), { retentionMs: HOUR, failedRetentionMs: 9 * HOUR }, {})
      assert.deepEqual(hours, [1, 9, 1])
    })

    test('the option of a definition takes precedence', async (t) => {
      const hours = await hoursKept(
        t, await open(), { failedRetentionMs: 9 * HOUR }, { retentionMs: 2 * HOUR, failedRetentionMs: 5 * HOUR },
      )
      assert.deepEqual(hours, [2, 5, 2])
    })

    test('retentionMs is its default', async (t) => {
      const hours = await hoursKept(t, await open(), { retentionMs: HOUR }, { retentionMs: 3 * HOUR })
      assert.deepEqual(hours, [3, 3, 3])
    })
  })
}
