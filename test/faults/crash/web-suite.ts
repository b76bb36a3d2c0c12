// What a web process that ends between any two writes leaves behind, and how it heals: rows of the table of ADR 0010.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually } from '../../../src/conformance/waiting.js'
import { receiver } from '../../http/callbacks/kit.js'
import { Client } from '../../http/kit/reference.js'
import type { CrashCluster } from './cluster.js'
import type { CrashDatabase } from './database.js'

/** Tests of web processes that end between any two writes. */
export function webSuite({ runs, taskIds }: CrashDatabase, { client, submit, start, died, end, idle }: CrashCluster): void {
  describe('a web process that ends', () => {
    const points = [
      ['created idempotency', 'once the key is claimed'], ['created task', 'once the task is on record'],
      ['enqueued work', 'once the job is in the queue'],
    ] as const
    for (const [where, title] of points) {
      test(`${title}: the client has no answer, and its retry with the key gets one task that runs once`, async () => {
        const crashing = await start('web', where)
        const key = where.replace(' ', '-')
        await assert.rejects(submit(new Client(await crashing.url()), {}, key))
        await died(crashing)
        const left = await taskIds()
        const { status, json } = await submit(client, {}, key)
        assert.equal(status, 202)
        if (where !== 'created idempotency') assert.ok(left.includes(json.taskId), 'the retry means the task that was there')
        else assert.ok(!left.includes(json.taskId), 'there was none')
        const again = await submit(client, {}, key)
        assert.equal(again.json.taskId, json.taskId)
        const worker = await start('worker')
        assert.equal((await client.ended(`/tasks/${String(json.taskId)}`)).json.status, 'completed')
        await idle()
        assert.equal(await runs(json.taskId), 1)
        await end(worker)
      })
    }

    test('once a cancel is written, with the job still there: a worker finds the final record and does nothing', async () => {
      const crashing = await start('web', 'wrote cancelled')
      const { json: { taskId } } = await submit(client, {})
      await assert.rejects(new Client(await crashing.url()).ask('DELETE', `/tasks/${String(taskId)}`))
      await died(crashing)
      const worker = await start('worker')
      await idle()
      assert.equal((await client.ask('GET', `/tasks/${String(taskId)}`)).json.status, 'cancelled')
      assert.equal(await runs(taskId), 0)
      await end(worker)
    })

    test('once a cancel is written, while the work runs elsewhere: that worker stops it, and tells the callback', async (t) => {
      const { url: callbackUrl, seen } = await receiver(t)
      const [crashing, worker] = await Promise.all([start('web', 'wrote cancelled'), start('worker')])
      const { json: { taskId } } = await submit(client, { endless: true, callbackUrl })
      await eventually(async () => await runs(taskId) === 1, 30_000, 'the work runs')
      await assert.rejects(new Client(await crashing.url()).ask('DELETE', `/tasks/${String(taskId)}`))
      await died(crashing)
      await eventually(() => seen.length === 1, 30_000, 'the receiver is told')
      assert.equal((JSON.parse(seen[0]?.body ?? '{}') as { type: string }).type, 'task.cancelled')
      await idle()
      assert.equal(await runs(taskId), 1)
      await end(worker)
    })
  })
}
