// Times that are longer than a timer of Node, on each engine: `Infinity`, and a start in 30 days.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { deferred, pause } from '../../kit/wait.js'

/** Time in which a timer that fires at once would have done its harm, in milliseconds. */
const HARM_MS = 300
const MONTH_MS = 30 * 86_400_000

const engines = {
  'memory': async () => undefined, 'PostgreSQL': postgresUrl, 'Redis': redisUrl,
}

for (const [engine, url] of Object.entries(engines)) {
  describe(`a long time, with ${engine}`, () => {
    test('as drainMs (Infinity) lets the runs finish', async (t) => {
      const database = openDatabase(await url(), { name: `drain_${String(process.pid)}` })
      t.after(() => database.close())
      const [begun, mayEnd] = [deferred(), deferred()]
      let isAborted = false
      const work = defineTask({
        name: 'work',
        run: async (_input: undefined, { signal }) => {
          begun.resolve()
          await mayEnd.promise
          isAborted = signal.aborted
          return 'finished'
        },
      })
      const tasks = createTasks({ ...database.parts, definitions: [work] })
      const { taskId } = await tasks.submit(work, undefined)
      await begun.promise
      const closing = tasks.close({ drainMs: Infinity })
      await pause(HARM_MS)
      mayEnd.resolve()
      await closing
      const task = await database.parts.engine.read(taskId)
      assert.deepEqual([isAborted, task?.status, task?.result], [false, 'completed', '"finished"'])
    })

    test('in startAt or in progress causes no timer warning of Node', async (t) => {
      const warnings: Error[] = []
      const note = (warning: Error): void => { warnings.push(warning) }
      process.on('warning', note)
      t.after(() => { process.off('warning', note) })
      const database = openDatabase(await url(), { name: `later_${String(process.pid)}` })
      const work = defineTask({
        name: 'work',
        run: async (_input: string, { progress }) => {
          progress(1, 3)
          await pause(HARM_MS)
          progress(2, 3)
          await pause(HARM_MS)
        },
      })
      const tasks = createTasks({ ...database.parts, definitions: [work], progressIntervalMs: MONTH_MS })
      t.after(async () => {
        await tasks.close({ drainMs: 0 })
        await database.close()
      })
      await tasks.submit(work, 'later', { delayMs: MONTH_MS })
      const now = await tasks.submit(work, 'now')
      assert.equal((await now.wait({ timeoutMs: Infinity }))?.status, 'completed')
      assert.deepEqual(warnings, [])
    })
  })
}
