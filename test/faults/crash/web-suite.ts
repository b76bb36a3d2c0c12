// What a web process that ends before or after a write of a task leaves behind.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually } from '../../../src/conformance/waiting.js'
import { receiver } from '../../http/callbacks/kit.js'
import { Client } from '../../http/kit/reference.js'
import type { CrashCluster } from './cluster.js'
import type { CrashDatabase } from './database.js'

/** Tests of web processes that end before or after a write. */
export function webSuite({ engine, runs }: CrashDatabase, { client, submit, start, died, end, idle }: CrashCluster): void {
  describe('a web process that ends', () => {
    for (const [where, title] of [['before created', 'before the task is written'], ['created', 'once the task is written']] as const) {
      test(`${title}: the client has no answer, and its retry with the key gets one task that runs once`, async () => {
        const crashing = await start('web', where)
        const key = where.replace(' ', '-')
        await assert.rejects(submit(new Client(await crashing.url()), {}, key))
        await died(crashing)
        const left = (await engine.list({ of: 'all', order: 'newest', limit: 1000 })).map(({ id }) => id)
        const { status, json } = await submit(client, {}, key)
        assert.equal(status, 202)
        if (where === 'created') assert.ok(left.includes(json.taskId), 'the retry means the task that was there')
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

    test('once a cancel is written: no worker runs the task', async () => {
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
