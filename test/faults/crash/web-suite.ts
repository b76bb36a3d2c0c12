// What a web process leaves behind that ends before or after a call of the engine: rows of the table of ADR 0010.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { receiver } from '../../http/kit/callbacks.js'
import { Client } from '../../http/kit/reference.js'
import type { CrashCluster } from '../kit/crash-cluster.js'
import type { CrashDatabase } from '../kit/database.js'
import { eventually } from '../../kit/wait.js'

/** Tests of web processes that end before or after each call of the engine that writes. */
export function webSuite({ runs }: CrashDatabase, cluster: CrashCluster): void {
  const { client, submit, cancel, remove, start, died, end, idle, points, taskIds } = cluster

  describe('a web process that ends', () => {
    test('a task has two crash windows, before and after the call, for each of accept, cancel and delete', async () => {
      const web = await start('web')
      const own = new Client(await web.url())
      const { json: { taskId } } = await submit(own, {}, 'counted')
      await cancel(own, taskId)
      await remove(own, taskId)
      assert.deepEqual(points(web), [
        'before create', 'after create', 'before cancelled', 'after cancelled', 'before delete', 'after delete',
      ])
      await end(web)
    })

    for (const where of ['before create', 'after create']) {
      test(`${where}: the client has no response, and its retry with the key gets one task, which runs once`, async () => {
        const crashing = await start('web', where)
        const key = where.replace(' ', '-')
        await assert.rejects(submit(new Client(await crashing.url()), {}, key))
        await died(crashing)
        const left = await taskIds()
        const { status, json } = await submit(client, {}, key)
        assert.equal(status, 202)
        assert.equal(left.includes(json.taskId), where === 'after create', 'the retry gets the task that is there')
        const again = await submit(client, {}, key)
        assert.equal(again.json.taskId, json.taskId)
        const worker = await start('worker')
        assert.equal((await client.ended(`/tasks/${String(json.taskId)}`)).json.status, 'completed')
        await idle()
        assert.equal(await runs(json.taskId), 1)
        await end(worker)
      })
    }

    test('a task runs once if the process ends after create and the client sends nothing more', async () => {
      const crashing = await start('web', 'after create')
      const before = new Set(await taskIds())
      await assert.rejects(submit(new Client(await crashing.url()), {}))
      await died(crashing)
      const created = (await taskIds()).filter((id) => !before.has(id))
      assert.equal(created.length, 1)
      const worker = await start('worker')
      assert.equal((await client.ended(`/tasks/${String(created[0])}`)).json.status, 'completed')
      assert.equal(await runs(String(created[0])), 1)
      await end(worker)
    })

    test('a worker does nothing if the process ends after the cancel of a waiting task', async () => {
      const crashing = await start('web', 'after cancelled')
      const { json: { taskId } } = await submit(client, {})
      await assert.rejects(cancel(new Client(await crashing.url()), taskId))
      await died(crashing)
      const worker = await start('worker')
      await idle()
      // Another task, so that the worker has looked.
      const { json: { taskId: next } } = await submit(client, {})
      assert.equal((await client.ended(`/tasks/${String(next)}`)).json.status, 'completed')
      assert.equal((await client.ask('GET', `/tasks/${String(taskId)}`)).json.status, 'cancelled')
      assert.equal(await runs(taskId), 0)
      await end(worker)
    })

    test('a task continues if the process ends before the cancel, and a retry of the cancel stops it', async () => {
      const [crashing, worker] = await Promise.all([start('web', 'before cancelled'), start('worker')])
      const { json: { taskId } } = await submit(client, { endless: true })
      await eventually(async () => await runs(taskId) === 1, 30_000, 'the work runs')
      await assert.rejects(cancel(new Client(await crashing.url()), taskId))
      await died(crashing)
      assert.equal((await client.ask('GET', `/tasks/${String(taskId)}`)).json.status, 'processing')
      assert.equal((await cancel(client, taskId)).json.status, 'cancelled')
      await idle()
      assert.equal(await runs(taskId), 1)
      await end(worker)
    })

    test('another worker stops its run and sends the callback if the process ends after the cancel', async (t) => {
      const { url: callbackUrl, seen } = await receiver(t)
      const [crashing, worker] = await Promise.all([start('web', 'after cancelled'), start('worker')])
      const { json: { taskId } } = await submit(client, { endless: true, callbackUrl })
      await eventually(async () => await runs(taskId) === 1, 30_000, 'the work runs')
      await assert.rejects(cancel(new Client(await crashing.url()), taskId))
      await died(crashing)
      await eventually(() => seen.length === 1, 30_000, 'the receiver gets it')
      assert.equal((JSON.parse(seen[0]?.body ?? '{}') as { type: string }).type, 'task.cancelled')
      await eventually(() => points(worker).includes('ended run'), 30_000, 'the run has ended')
      await idle()
      assert.equal(await runs(taskId), 1)
      await end(worker)
    })

    for (const [where, status] of [['before delete', 200], ['after delete', 404]] as const) {
      test(`${where}: the task exists completely, or not at all`, async () => {
        const crashing = await start('web', where)
        const { json: { taskId } } = await submit(client, {}, where.replace(' ', '-'))
        await cancel(client, taskId)
        await assert.rejects(remove(new Client(await crashing.url()), taskId))
        await died(crashing)
        assert.equal((await client.ask('GET', `/tasks/${String(taskId)}`)).status, status)
        const again = await submit(client, {}, where.replace(' ', '-'))
        assert.equal(again.json.taskId === taskId, status === 200, 'the key lives as long as the task')
        await cancel(client, again.json.taskId)
      })
    }
  })
}
