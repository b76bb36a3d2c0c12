// What a board shows of tasks: names and data that a person can read.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import type { AppControllerRoute, AppViewRoute, BullBoardQueues, IServerAdapter } from '@bull-board/api/typings/app'
import { Redis } from 'ioredis'
import { createTasks, defineTask } from 'longhaul'
import { BullMQQueue } from 'longhaul/bullmq'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { RedisStore } from 'longhaul/redis'
import { eventually } from '../../src/conformance/waiting.js'
import { SECRET } from '../http/callbacks/kit.js'
import { redisForFile } from '../servers/redis-server.js'

const { url } = await redisForFile()

/** A server adapter that keeps what the board gives it, so that its own handlers can be asked. */
class Routes implements IServerAdapter {
  routes: AppControllerRoute[] = []
  queues: BullBoardQueues = new Map()
  setQueues(queues: BullBoardQueues) { this.queues = queues; return this }
  setViewsPath() { return this }
  setStaticPath() { return this }
  setEntryRoute(_route: AppViewRoute) { return this }
  setErrorHandler() { return this }
  setApiRoutes(routes: AppControllerRoute[]) { this.routes = routes; return this }
  setUIConfig() { return this }

  async ask(route: string, query: Record<string, string>) {
    const found = this.routes.find((each) => each.route === route || each.route.includes(route))
    assert.ok(found, `${route} is none of ${this.routes.map((each) => each.route.toString()).join()}`)
    return (await found.handler({ queues: this.queues, query, params: {}, headers: {}, body: {} } as never)).body as Record<string, ReturnType<typeof JSON.parse>>
  }
}

test('Bull Board shows the definition as the name, the task\'s id, its input and context; and callbacks by name', async () => {
  const connection = new Redis(url, { maxRetriesPerRequest: null })
  const client = new Redis(url)
  const store = new RedisStore({ client })
  const queue = new BullMQQueue({ connection })
  const callbackQueue = new BullMQQueue({ connection, name: 'callbacks' })
  const report = defineTask({ name: 'monthly-report', attempts: 3, run: () => ({ message: 'done' }) })
  const options = {
    store, definitions: [report],
    callbacks: callbacks({ sender: httpSender({ allow: ['127.0.0.1'], timeoutMs: 200 }), secrets: () => [SECRET], queue: callbackQueue }),
  }
  const tasks = createTasks({ ...options, queue, worker: false })
  const board = new Routes()
  createBullBoard({ queues: [new BullMQAdapter(queue.bull), new BullMQAdapter(callbackQueue.bull)], serverAdapter: board })
  after(async () => {
    await tasks.close()
    await store.close()
    for (const each of [connection, client]) each.disconnect()
  })

  const { taskId: id } = await tasks.submit(report, { month: '2026-10' }, { id: '12345', owner: 'ann', context: { requestId: 'r-1' }, callbackUrl: 'http://127.0.0.1:9/' })
  const shown = async (name: string) => {
    const { queues } = await board.ask('/api/queues', { activeQueue: name, status: 'latest', page: '1', jobsPerPage: '10' }) as { queues: { name: string, jobs: Record<string, ReturnType<typeof JSON.parse>>[], counts: Record<string, number> }[] }
    return queues.find((each) => each.name === name)
  }
  const tasksShown = await shown('tasks')
  assert.equal(tasksShown?.counts['waiting'], 1)
  const [job] = tasksShown.jobs
  // The id of the job is one of this incarnation of the task; the task's own id is in the data.
  const { record, store: identity, ...data } = job?.['data']
  assert.match(job?.['id'], /^12345~[\w-]{8}$/)
  assert.match(identity, /^[\w-]{22}$/, 'which store the task is in')
  assert.deepEqual([job?.['name'], data], ['monthly-report', { taskId: id, input: { month: '2026-10' }, context: { requestId: 'r-1' } }])
  assert.match(record, /"queued".*"ann"/, 'the record that the first run has no need to read')
  assert.equal(job?.['opts'].attempts, 3)
  assert.equal(job?.['isFailed'], false)

  await tasks.cancel(id)
  await eventually(async () => ((await shown('callbacks'))?.jobs.length ?? 0) === 1, 5000, 'the callback is in its queue')
  const [callback] = (await shown('callbacks'))?.jobs ?? []
  assert.deepEqual([callback?.['name'], callback?.['id'].startsWith(`callback~${id}~`), callback?.['data'].taskId, callback?.['data'].input.host], ['longhaul.callback', true, id, '127.0.0.1:9'])
})
