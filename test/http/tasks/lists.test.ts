// Lists over whole engines, with a web process and a worker process apart.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { createTasks, defineTask, type TasksOptions } from 'longhaul'
import { openDatabase } from '../../servers/open-database.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'
import { eventually } from '../../kit/wait.js'

const report = defineTask({
  name: 'report',
  run: ({ fails = false }: { fails?: boolean }) => {
    if (fails) throw new Error('it failed')
    return { message: 'done' }
  },
})
const definitions = [report] as const

type Engine = Pick<TasksOptions, 'engine' | 'store'>
const closings: (() => Promise<unknown>)[] = []
after(async () => {
  for (const close of closings.reverse()) await close()
})

const urls = { 'Redis': await redisUrl(), 'PostgreSQL': (await postgresForFile()).url }

for (const [title, url] of Object.entries(urls)) {
  const open = (): Engine => {
    const { parts, close } = openDatabase(url, { name: `lists_${String(process.pid)}` })
    closings.push(close)
    return parts
  }
  describe(`lists over ${title}`, () => {
    test('show a task to a client that got its 202, and the end of the task to another process', async () => {
      const web = createTasks({ ...open(), definitions, worker: false })
      const worker = createTasks({ ...open(), definitions, onError: () => undefined })
      closings.push(() => web.close({ drainMs: 0 }), () => worker.close({ drainMs: 0 }))
      const ids: string[] = []
      for (let n = 0; n < 12; n++) {
        const { taskId } = await web.ownedBy('ann').submit(report, { fails: n % 3 === 0 })
        ids.push(taskId)
        const { items: [newest] } = await web.ownedBy('ann').list({ limit: 1, from: new Date(0) })
        assert.ok(newest, 'a client that was answered finds no task')
        await web.ownedBy('bob').submit(report, {})
      }
      await Promise.all(ids.map((id) => web.wait(id, { timeoutMs: 10_000 })))
      await eventually(
        async () => (await web.ownedBy('ann').list({ status: ['completed', 'failed'] })).items.length === 12,
      )
      const failed = await web.ownedBy('ann').list({ status: 'failed', task: report })
      assert.deepEqual(failed.items.map(({ error }) => error.code), Array.from({ length: 4 }, () => 'task_failed'))
      const seen: string[] = []
      for (let cursor: string | undefined; ;) {
        const { items, next } = await web.ownedBy('ann').list({ limit: 5, order: 'oldest', cursor })
        seen.push(...items.map(({ taskId }) => taskId))
        if (next === undefined) break
        cursor = next
      }
      assert.deepEqual(seen, ids)
      assert.equal((await web.list({ limit: 200 })).items.length, 24)
      const [first = ''] = ids
      assert.equal(await web.delete(first), true)
      assert.equal((await worker.ownedBy('ann').list()).items.length, 11)
    })
  })
}
