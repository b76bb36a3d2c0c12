// What a board shows of tasks: names and data that a person can read.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import type { AppControllerRoute, AppViewRoute, BullBoardQueues, IServerAdapter } from '@bull-board/api/typings/app'
import { Redis } from 'ioredis'
import { createTasks, defineTask } from 'longhaul'
import { redis } from 'longhaul/redis'
import { redisForFile } from '../servers/redis-server.js'
import { eventually } from '../kit/wait.js'

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

test('Bull Board shows the definition as the name and the task\'s id as the data, for each pool', async (t) => {
  const client = new Redis(url, { maxRetriesPerRequest: null })
  const { engine, store } = redis({ client })
  const report = defineTask({ name: 'monthly-report', attempts: 3, run: () => ({ message: 'done' }) })
  const film = defineTask({ name: 'film', pool: 'heavy', priority: 7, run: () => undefined })
  const tasks = createTasks({ engine, store, definitions: [report, film], pools: { heavy: {} }, worker: false })
  const board = new Routes()
  createBullBoard({ queues: [new BullMQAdapter(engine.bull()), new BullMQAdapter(engine.bull('heavy'))], serverAdapter: board })
  t.after(async () => {
    await tasks.close()
    await store.close()
    client.disconnect()
  })

  await tasks.submit(report, { month: '2026-10' }, { id: '12345', owner: 'ann' })
  await tasks.submit(film, { title: 'Metropolis' }, { id: 'film-1' })
  const shown = async (name: string) => {
    const { queues } = await board.ask('/api/queues', { activeQueue: name, status: 'latest', page: '1', jobsPerPage: '10' }) as { queues: { name: string, jobs: Record<string, ReturnType<typeof JSON.parse>>[], counts: Record<string, number> }[] }
    return queues.find((each) => each.name === name)
  }
  for (const [name, status, expected] of [
    ['tasks', 'waiting', ['monthly-report', { taskId: '12345' }, undefined]],
    ['tasks.heavy', 'prioritized', ['film', { taskId: 'film-1' }, 7]],
  ] as const) {
    await eventually(async () => (await shown(name))?.counts[status] === 1, 5000, `a job is in ${name}`)
    const [job] = (await shown(name))?.jobs ?? []
    assert.deepEqual([job?.['name'], job?.['data'], job?.['opts'].priority], expected)
    assert.equal(job?.['isFailed'], false)
  }
  await tasks.cancel('12345')
  assert.equal((await tasks.get('12345'))?.status, 'cancelled')
})
