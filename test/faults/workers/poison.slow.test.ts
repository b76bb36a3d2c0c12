import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { createTasks } from 'longhaul'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { innocent, poison } from './poison.js'
import { program } from '../../servers/program.js'

stopAfterwards()
const databases = { Redis: (await redisForFile()).url, PostgreSQL: await postgresUrl() }

for (const [database, url] of Object.entries(databases)) {
  test(`a task on ${database} that kills its process fails after three runs, and other tasks run`, async (t) => {
    const { parts, close } = openDatabase(url)
    const tasks = createTasks({ ...parts, definitions: [poison, innocent], worker: false })
    let deaths = 0
    let over = false
    t.after(async () => {
      over = true
      await tasks.close({ drainMs: 0 })
      await close()
    })
    const supervise = (): void => {
      const worker = new ServerProcess(
        process.execPath,
        [...program(join(import.meta.dirname, 'poison-worker.ts')), url],
        {},
      )
      void worker.exited.then(() => {
        deaths++
        if (!over) supervise()
      })
    }
    const bad = await tasks.submit(poison, {})
    const good = await Promise.all(Array.from({ length: 5 }, () => tasks.submit(innocent, {})))
    supervise()
    const end = await tasks.wait(bad.taskId, { timeoutMs: 60_000 })
    assert.deepEqual([end?.status, end?.status === 'failed' && end.error.code], ['failed', 'task_lost'])
    assert.equal(deaths, 3, 'the default of maxCrashes')
    for (const { taskId: id } of good) assert.equal((await tasks.wait(id, { timeoutMs: 20_000 }))?.status, 'completed')
  })
}
