// The task that `onFailed` makes, on each engine. Workers are killed at each step between failure and follow-up.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { eventually, keepAlive } from '../../kit/wait.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { program } from '../../servers/program.js'
import { redisUrl } from '../../servers/redis-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { openFailing, type Death, type Input } from './on-failed-work.js'

stopAfterwards()
const urls = { memory: undefined, SQLite: await sqliteUrl(), Redis: await redisUrl(), PostgreSQL: await postgresUrl() }
let names = 0

function setUp(t: TestContext, url: string | undefined, options: Parameters<typeof openFailing>[2] = {}) {
  keepAlive(t)
  const name = `on_failed_${String(process.pid)}_${String(++names)}`
  const site = openFailing(url, name, options)
  t.after(async () => {
    await site.tasks.close({ drainMs: 0 })
    await site.close()
  })
  const start = async (death: Death = 'never', maxCrashes = 3): Promise<ServerProcess> => {
    const args = [...program(join(import.meta.dirname, 'on-failed-worker.ts')), url ?? '', name, death, String(maxCrashes)]
    const worker = new ServerProcess(process.execPath, args, {})
    await worker.said(/ready/)
    return worker
  }
  const submit = async (input: Input) => (await site.tasks.ownedBy('ann').submit(site.order, input)).taskId
  const listed = async (status?: 'completed') => (await site.tasks.list({ task: site.alert, ...status && { status } })).items
  const reaches = (id: string, status: string) => eventually(async () => (await site.tasks.get(id))?.status === status, 30_000, `${id} is ${status}`)
  const alerted = async (count = 1) => {
    await eventually(async () => (await listed('completed')).length === count, 30_000, 'the alert has run')
    return (await listed()).map(({ result }) => result as { taskId: string, attempt: number, error: { code: string } })
  }
  const hasFollowUp = async (id: string) => (await site.engine.read(id))?.details['followUp'] !== undefined
  return { ...site, submit, start, listed, reaches, alerted, hasFollowUp }
}

for (const [database, url] of Object.entries(urls)) {
  describe(`onFailed on ${database}`, () => {
    test('makes one task after the last attempt, with the error, the input and the owner', async (t) => {
      const { submit, alerted, alerts, hasFollowUp } = setUp(t, url)
      const taskId = await submit({ order: 7 })
      await alerted()
      const [failed] = alerts
      assert.deepEqual([failed?.taskId, failed?.task, failed?.owner, failed?.attempt, failed?.error.code], [taskId, 'order', 'ann', 2, 'task_failed'])
      assert.deepEqual([failed?.input, failed?.cause?.message, failed?.cause?.cause?.message], [{ order: 7 }, 'Out of stock', 'rows: 0'])
      await eventually(async () => !await hasFollowUp(taskId))
    })

    test('makes one task after a permanent failure, and after the time limit', async (t) => {
      const { submit, alerted } = setUp(t, url)
      const ids = [await submit({ order: 1, ends: 'permanent' }), await submit({ order: 2, ends: 'late' })]
      const found = (await alerted(2)).map(({ taskId, attempt, error }) => [ids.indexOf(taskId), attempt, error.code])
      assert.deepEqual(found.sort(), [[0, 1, 'task_failed'], [1, 2, 'task_timeout']])
    })

    test('makes no task after a cancel, and none after a completed run', async (t) => {
      const { tasks, submit, reaches, listed, hasFollowUp } = setUp(t, url)
      const well = await submit({ order: 1, ends: 'well' })
      const cancelled = await submit({ order: 2, ends: 'cancelled' })
      await reaches(cancelled, 'processing')
      await tasks.cancel(cancelled)
      await reaches(well, 'completed')
      assert.deepEqual([await hasFollowUp(well), await hasFollowUp(cancelled), await listed()], [false, false, []])
    })

    test('makes a task that only operators can see', async (t) => {
      const { tasks, submit, alerted, listed } = setUp(t, url)
      await submit({ order: 7 })
      await alerted()
      const id = (await listed())[0]?.taskId ?? ''
      assert.deepEqual([await tasks.ownedBy('ann').get(id), await tasks.ownedBy(undefined).get(id)], [undefined, undefined])
    })

    for (const change of ['retry', 'delete'] as const) {
      test(`makes the task before a ${change} of the failed one`, async (t) => {
        const { tasks, submit, reaches, hasFollowUp, alerted } = setUp(t, url, { death: 'idle' })
        const id = await submit({ order: 7, ends: 'permanent' })
        await reaches(id, 'failed')
        assert.equal(await hasFollowUp(id), true)
        if (change === 'delete') assert.equal(await tasks.delete(id), true)
        else await tasks.retry(id)
        const [failed] = await alerted()
        assert.equal(failed?.taskId, id)
      })
    }

    test('makes a second task when the retried task fails again', async (t) => {
      const { tasks, submit, alerted } = setUp(t, url)
      const id = await submit({ order: 7, ends: 'permanent' })
      await alerted()
      await tasks.retry(id)
      assert.deepEqual((await alerted(2)).map(({ taskId, attempt }) => [taskId, attempt]).sort(), [[id, 1], [id, 2]])
    })
  })

  if (url === undefined) continue
  describe(`onFailed on ${database}, while workers die,`, () => {
    test('makes the task although the worker dies between the failure and the task', async (t) => {
      const { submit, start, reaches, listed, alerted, hasFollowUp } = setUp(t, url, { worker: false })
      const first = await start('failed')
      const id = await submit({ order: 7 })
      await first.exited
      await reaches(id, 'failed')
      assert.deepEqual([await hasFollowUp(id), await listed()], [true, []])
      await start()
      const [failed] = await alerted()
      assert.equal(failed?.taskId, id)
    })

    test('makes the task once although the worker dies when the task is created', async (t) => {
      const { tasks, submit, start, listed, alerted, hasFollowUp } = setUp(t, url, { worker: false })
      const first = await start('created')
      const id = await submit({ order: 7 })
      await first.exited
      assert.deepEqual([await hasFollowUp(id), (await listed()).length], [true, 1])
      await start()
      await alerted()
      // The failed task still has its follow-up, and a deletion creates it if it does not exist.
      await tasks.delete(id)
      assert.equal((await listed()).length, 1)
    })

    test('makes the task if the task failed because its last worker crashed', async (t) => {
      const { submit, start, alerted } = setUp(t, url, { worker: false })
      const first = await start('run', 1)
      const id = await submit({ order: 7 })
      await first.exited
      await start('never', 1)
      const [failed] = await alerted()
      assert.deepEqual([failed?.taskId, failed?.error.code], [id, 'task_lost'])
    })
  })
}
