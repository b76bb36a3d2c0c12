// Web processes that are killed or closed while jobs of the application's queue run, and a Redis that is away.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks } from 'longhaul'
import { bullmqTask } from 'longhaul/bullmq'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { eventually, keepAlive } from '../../kit/wait.js'
import { openDatabase } from '../../servers/open-database.js'
import { program } from '../../servers/program.js'
import { redisForFile } from '../../servers/redis-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { MAJORS, queueForFile, startWorkers } from './queues.js'

stopAfterwards()
keepAlive({ after })
const server = await redisForFile(['--appendonly', 'yes', '--appendfsync', 'always'])
const redis = new Redis(server.url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
redis.on('error', () => undefined)
after(() => { redis.disconnect() })

for (const major of MAJORS) {
  describe(`BullMQ ${major}`, async () => {
    const { queue, events } = queueForFile(major, server.url)
    const database = await sqliteUrl()
    const opened = openDatabase(database, { name: 'web', leaseMs: 1500 })
    const work = bullmqTask({ name: 'work', queue, events })
    const tasks = createTasks({ ...opened.parts, definitions: [work], worker: false })
    after(async () => {
      await tasks.close()
      await opened.close()
    })
    await startWorkers(major, server.url, queue.name)

    async function startWeb(): Promise<ServerProcess> {
      const web = new ServerProcess(
        process.execPath,
        [...program('test/faults/bullmq/web.ts'), major, server.url, queue.name, database],
        {},
      )
      await web.said(/ready/)
      return web
    }
    async function kill(web: ServerProcess): Promise<void> {
      web.child.kill('SIGKILL')
      await web.exited
    }
    const jobsOf = async (id: string) => (await queue.getJobs()).filter((job) => job?.id?.startsWith(`${id}.`))
    const isState = async (id: string, state: string) => await (await jobsOf(id))[0]?.getState() === state
    async function begin(data: object) {
      const task = await tasks.submit(work, data)
      await eventually(() => isState(task.taskId, 'active'), 30_000, 'a worker has the job')
      return task
    }
    const ended = async (task: { wait(options: object): Promise<unknown> }) =>
      (await task.wait({ timeoutMs: 60_000 })) as { status: string; result?: unknown }

    test('a web process that starts after a kill finds the job and waits for it', async () => {
      const web = await startWeb()
      const gate = randomUUID()
      const task = await begin({ gate, say: 'late', progress: [{ done: 1, total: 2 }] })
      await kill(web)
      const next = await startWeb()
      await eventually(async () => (await tasks.get(task.taskId))?.attempt === 2, 30_000)
      await redis.set(gate, 1)
      const { status, result } = await ended(task)
      assert.deepEqual({ status, result }, { status: 'completed', result: 'late' })
      assert.equal((await jobsOf(task.taskId)).length, 1)
      await kill(next)
    })

    test('the result of a job that completed while no web process ran is not lost', async () => {
      const web = await startWeb()
      const gate = randomUUID()
      const task = await begin({ gate, say: [1, 2] })
      await kill(web)
      await redis.set(gate, 1)
      await eventually(() => isState(task.taskId, 'completed'), 30_000)
      const next = await startWeb()
      const { status, result } = await ended(task)
      assert.deepEqual({ status, result }, { status: 'completed', result: [1, 2] })
      await kill(next)
    })

    test('a job that failed while no web process ran fails the task, without another job', async () => {
      const web = await startWeb()
      const gate = randomUUID()
      const task = await begin({ gate, fail: 'no paper' })
      await kill(web)
      await redis.set(gate, 1)
      await eventually(() => isState(task.taskId, 'failed'), 30_000)
      const next = await startWeb()
      assert.equal((await ended(task)).status, 'failed')
      await next.said(/error .*has failed: no paper/)
      assert.equal((await jobsOf(task.taskId)).length, 1)
      await kill(next)
    })

    test('a job that was removed while no web process ran fails the task, without another job', async () => {
      const web = await startWeb()
      const gate = randomUUID()
      const task = await begin({ gate, progress: [{ done: 1 }] })
      await web.said(/waiting/)
      await kill(web)
      await redis.set(gate, 1)
      await eventually(() => isState(task.taskId, 'completed'), 30_000)
      await (await jobsOf(task.taskId))[0]?.remove()
      const next = await startWeb()
      assert.equal((await ended(task)).status, 'failed')
      await next.said(/error .*was removed/)
      assert.equal((await jobsOf(task.taskId)).length, 0)
      await kill(next)
    })

    test('a task that only waits is not lost, even if its process dies more often than maxCrashes', async () => {
      const gate = randomUUID()
      let web = await startWeb()
      const task = await begin({ gate, say: 'still there', progress: [{ done: 1 }] })
      for (let deaths = 0; deaths < 4; deaths++) {
        await web.said(/waiting/)
        await kill(web)
        web = await startWeb()
      }
      await redis.set(gate, 1)
      const { status, result } = await ended(task)
      assert.deepEqual({ status, result }, { status: 'completed', result: 'still there' })
      await kill(web)
    })

    test('a web process that closes gives the task back at once and leaves its job', async () => {
      const web = await startWeb()
      const gate = randomUUID()
      const task = await begin({ gate, say: 'after the deploy' })
      web.child.kill('SIGTERM')
      assert.deepEqual(await web.exited, { code: 0, signal: null }, web.out + web.err)
      assert.equal((await tasks.get(task.taskId))?.status, 'queued')
      assert.ok(await isState(task.taskId, 'active'))
      const next = await startWeb()
      await redis.set(gate, 1)
      const { status, result } = await ended(task)
      assert.deepEqual({ status, result }, { status: 'completed', result: 'after the deploy' })
      assert.equal((await jobsOf(task.taskId)).length, 1)
      await kill(next)
    })

    test('a cancel while no web process waits removes the job', async () => {
      const web = await startWeb()
      await queue.pause()
      const task = await tasks.submit(work, {})
      await eventually(async () => (await jobsOf(task.taskId)).length === 1, 30_000)
      await kill(web)
      await tasks.cancel(task.taskId)
      await eventually(async () => (await jobsOf(task.taskId)).length === 0, 30_000)
      await queue.resume()
    })

    test('a cancel in another process removes the job, and does not count as an error', async () => {
      const web = await startWeb()
      await queue.pause()
      const task = await tasks.submit(work, {})
      await eventually(async () => (await jobsOf(task.taskId)).length === 1, 30_000)
      await tasks.cancel(task.taskId)
      await eventually(async () => (await jobsOf(task.taskId)).length === 0, 30_000)
      await queue.resume()
      const next = await tasks.submit(work, { say: 1 })
      assert.equal((await ended(next)).status, 'completed')
      assert.doesNotMatch(web.out, /error/)
      await kill(web)
    })

    test('a task whose run began while Redis was away gets its result once Redis is back', async () => {
      const web = await startWeb()
      await server.kill()
      const task = await tasks.submit(work, { say: 'patience' })
      await eventually(async () => (await tasks.get(task.taskId))?.status === 'processing', 30_000)
      await server.run()
      const { status, result } = await ended(task)
      assert.deepEqual({ status, result }, { status: 'completed', result: 'patience' }, web.out)
      await kill(web)
    })

    test('a task waits through an outage of Redis', async () => {
      const web = await startWeb()
      const gate = randomUUID()
      const task = await begin({ gate, say: 'patience' })
      await server.kill()
      await server.run()
      await redis.set(gate, 1)
      const { status, result } = await ended(task)
      assert.deepEqual({ status, result }, { status: 'completed', result: 'patience' }, web.out)
      await kill(web)
    })
  })
}
