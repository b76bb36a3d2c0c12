// What a worker that ends before or after a write of a task leaves behind.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { eventually } from '../../../src/conformance/waiting.js'
import { receiver } from '../../http/callbacks/kit.js'
import type { CrashCluster } from './cluster.js'
import type { CrashDatabase } from './database.js'
import { SECRET } from './work.js'

/** Tests of workers that end before or after a write. */
export function workerSuite({ runs }: CrashDatabase, { client, submit, start, died, end, idle }: CrashCluster): void {
  describe('a worker that ends', () => {
    test('once its run has begun: another one runs the task again', async () => {
      const { json: { taskId } } = await submit(client, {})
      await died(await start('worker', 'begun'))
      const worker = await start('worker')
      const { json } = await client.ended(`/tasks/${String(taskId)}`)
      assert.equal(json.status, 'completed')
      assert.equal(await runs(taskId), 1, 'the first got no further than that')
      await end(worker)
    })

    test('once the end is written: no work is done twice', async () => {
      const { json: { taskId } } = await submit(client, {})
      await died(await start('worker', 'wrote completed'))
      const before = await client.ask('GET', `/tasks/${String(taskId)}`)
      assert.equal(before.json.status, 'completed')
      const worker = await start('worker')
      await idle()
      assert.equal((await client.ask('GET', `/tasks/${String(taskId)}`)).text, before.text)
      assert.equal(await runs(taskId), 1)
      await end(worker)
    })

    test('before it has written that the crashes are too many: the next one writes it', async () => {
      const { json: { taskId } } = await submit(client, {})
      await died(await start('worker', 'begun', 1))
      await died(await start('worker', 'before failed', 1))
      assert.equal((await client.ask('GET', `/tasks/${String(taskId)}`)).json.status, 'processing')
      const worker = await start('worker', '-', 1)
      const { json } = await client.ended(`/tasks/${String(taskId)}`)
      assert.deepEqual([json.status, json.error.code], ['failed', 'task_lost'])
      await idle()
      assert.equal(await runs(taskId), 0)
      await end(worker)
    })

    test('once the end is written, before its callback is sent: the callback is sent once', async (t) => {
      const { url: callbackUrl, seen } = await receiver(t)
      const { json: { taskId } } = await submit(client, { callbackUrl })
      await died(await start('worker', 'wrote completed'))
      const worker = await start('worker')
      await eventually(async () => (await client.ask('GET', `/tasks/${String(taskId)}`)).json.callback.state === 'delivered', 30_000, 'it is delivered')
      await idle()
      assert.deepEqual([seen.length, await runs(taskId)], [1, 1])
      await end(worker)
    })

    test('while a receiver has its callback: it is sent again, with the same id and bytes', async (t) => {
      let first: (() => void) | undefined
      const { url: callbackUrl, seen } = await receiver(t, (res, nth) => {
        if (nth === 1) first?.()
        else res.end()
      })
      const arrived = new Promise<void>((resolve) => { first = resolve })
      const killed = await start('worker')
      const { json: { taskId } } = await submit(client, { callbackUrl })
      await arrived
      await end(killed)
      const worker = await start('worker')
      // An attempt whose process has died is made again after a minute.
      await eventually(async () => (await client.ask('GET', `/tasks/${String(taskId)}`)).json.callback.state === 'delivered', 90_000, 'it is delivered')
      const [one, two] = seen
      assert.ok(one && two && seen.length === 2)
      assert.deepEqual([two.headers['webhook-id'], two.body], [one.headers['webhook-id'], one.body])
      assert.equal((new Webhook(SECRET).verify(two.body, two.headers) as { type: string }).type, 'task.completed')
      assert.equal(await runs(taskId), 1)
      await end(worker)
    })
  })
}
