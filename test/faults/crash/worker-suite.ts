// What a worker leaves behind that ends before or after a call of the engine: rows of the table of ADR 0010.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { receiver, type Seen } from '../../http/kit/callbacks.js'
import type { CrashCluster } from '../kit/crash-cluster.js'
import type { CrashDatabase } from '../kit/database.js'
import { SECRET } from './work.js'
import { eventually } from '../../kit/wait.js'

/** An attempt at a callback whose process died is made again after a minute. */
const CALLBACK_MS = 90_000

/** The points of a run, with the number of runs of a task whose worker ends there. */
const RUN_POINTS = {
  'begun run': 1, 'before completed': 2, 'after completed': 1, 'ended run': 1,
}
/** The points of a callback, with the number of requests if the worker ends there. */
const CALLBACK_POINTS = {
  'begun callback': 1,
  'before the outcome of the callback': 2,
  'after the outcome of the callback': 1,
  'ended callback': 1,
}

/** Tests of workers that end before or after each call of the engine that writes. */
export function workerSuite({ runs }: CrashDatabase, cluster: CrashCluster): void {
  const { client, submit, start, died, end, idle, points } = cluster

  const delivered = (taskId: unknown): Promise<void> => eventually(async () => (
    (await client.ask('GET', `/tasks/${String(taskId)}`)).json.callback.state === 'delivered'
  ), CALLBACK_MS, 'the callback is delivered')

  function checkSame(seen: readonly Seen[]): void {
    for (const { headers, body } of seen) {
      assert.deepEqual([headers['webhook-id'], body], [seen[0]?.headers['webhook-id'], seen[0]?.body])
      assert.equal((new Webhook(SECRET).verify(body, headers) as { type: string }).type, 'task.completed')
    }
  }

  describe('a worker that ends', () => {
    test('a task with a callback has eight crash windows in its worker', async (t) => {
      const { url: callbackUrl } = await receiver(t)
      const worker = await start('worker')
      const { json: { taskId } } = await submit(client, { callbackUrl })
      await delivered(taskId)
      await eventually(() => points(worker).includes('ended callback'), 10_000, 'the callback has ended')
      // The callback may begin before the run has ended in this process.
      assert.deepEqual(points(worker).sort(), Object.keys({ ...RUN_POINTS, ...CALLBACK_POINTS }).sort())
      await end(worker)
    })

    for (const [where, expected] of Object.entries(RUN_POINTS)) {
      test(`${where}: the task is completed, its work has begun ${expected === 1 ? 'once' : 'twice'}, and its callback is sent once`, async (t) => {
        const { url: callbackUrl, seen } = await receiver(t)
        const {
          json: { taskId },
        } = await submit(client, { callbackUrl })
        await died(await start('worker', where))
        const before = await client.ask('GET', `/tasks/${String(taskId)}`)
        const isOver = where === 'after completed' || where === 'ended run'
        assert.equal(before.json.status, isOver ? 'completed' : 'processing')
        const worker = await start('worker')
        await delivered(taskId)
        await idle()
        const { json } = await client.ask('GET', `/tasks/${String(taskId)}`)
        assert.deepEqual(
          [json.status, json.attempt, await runs(taskId), seen.length],
          ['completed', isOver ? 1 : 2, expected, 1],
        )
        checkSame(seen)
        await end(worker)
      })
    }

    test('a task whose workers end three times in a row fails with task_lost, even if a fourth worker ends during that change', async () => {
      const {
        json: { taskId },
      } = await submit(client, {})
      for (let crash = 1; crash <= 3; crash++) await died(await start('worker', 'begun run'))
      await died(await start('worker', 'before failed'))
      assert.equal((await client.ask('GET', `/tasks/${String(taskId)}`)).json.status, 'processing')
      const worker = await start('worker')
      const { json } = await client.ended(`/tasks/${String(taskId)}`)
      assert.deepEqual([json.status, json.error.code, await runs(taskId)], ['failed', 'task_lost', 0])
      await idle()
      await end(worker)
    })

    test('a callback is sent again with the same id and bytes if the worker ends before it stores the outcome', async (t) => {
      const tasks: { where: string; taskId: unknown; seen: readonly Seen[]; expected: number }[] = []
      for (const [where, expected] of Object.entries(CALLBACK_POINTS)) {
        const { url: callbackUrl, seen } = await receiver(t)
        const {
          json: { taskId },
        } = await submit(client, { callbackUrl })
        await died(await start('worker', where))
        tasks.push({ where, taskId, seen, expected })
      }
      // This worker ends while the receiver has the callback.
      let first: (() => void) | undefined
      const { url: callbackUrl, seen } = await receiver(t, (res, nth) => {
        if (nth === 1) first?.()
        else res.end()
      })
      const arrived = new Promise<void>((resolve) => {
        first = resolve
      })
      const killed = await start('worker')
      const {
        json: { taskId },
      } = await submit(client, { callbackUrl })
      await arrived
      await end(killed)
      tasks.push({ where: 'while the receiver has it', taskId, seen, expected: 2 })

      const worker = await start('worker')
      for (const { where, taskId, seen, expected } of tasks) {
        await delivered(taskId)
        assert.deepEqual([where, seen.length, await runs(String(taskId))], [where, expected, 1])
        checkSame(seen)
      }
      await end(worker)
    })
  })
}
