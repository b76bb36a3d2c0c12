// Operators change tasks of other owners, on each engine. Retries of many tasks survive their workers.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { inject } from 'longhaul/testing'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { eventually } from '../../kit/wait.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { program } from '../../servers/program.js'
import { redisUrl } from '../../servers/redis-server.js'
import { openRetrying } from './retry-work.js'

stopAfterwards()
const urls = { memory: undefined, Redis: await redisUrl(), PostgreSQL: await postgresUrl() }

const admin = { context: { user: { role: 'admin' } } }

interface Body {
  taskId: string
  status: string
  owner?: string
  progress?: { done: number, unit: string }
  result?: { retried: number, failed: number, failures: { taskId: string, code: string }[] }
}

for (const [database, url] of Object.entries(urls)) {
  describe(`operators on ${database}`, () => {
    test('read, cancel, retry and delete a task of another owner', async (t) => {
      const { tasks, report, slow, site, close } = openRetrying(url, `ops_${process.pid}`, ['default'])
      t.after(async () => {
        await tasks.close({ drainMs: 0 })
        await close()
      })
      const ask = async (method: string, path: string, headers: Record<string, string> = {}) =>
        inject(site, { method, path, headers, ...admin })
      const running = await tasks.ownedBy('ann').submit(slow, {})
      await eventually(async () => (await running.get())?.status === 'processing')
      const cancelled = await ask('DELETE', `/admin/tasks/${running.taskId}`)
      const body = await cancelled.json<Body>()
      assert.deepEqual([cancelled.status, body.status, body.owner], [200, 'cancelled', 'ann'])

      const failed = await tasks.ownedBy('ann').submit(report, {})
      assert.equal((await failed.wait({ timeoutMs: 10_000 }))?.status, 'failed')
      const retried = await ask('POST', `/admin/tasks/${failed.taskId}/retry`)
      assert.deepEqual([retried.status, retried.headers['location']], [202, `/admin/tasks/${failed.taskId}`])
      await eventually(async () => {
        const task = await failed.get()
        return task?.status === 'failed' && task.attempt === 2
      })
      const shown = await ask('GET', `/admin/tasks/${failed.taskId}`)
      const gone = await ask('DELETE', `/admin/tasks/${failed.taskId}`, { 'if-match': String(shown.headers['etag']) })
      assert.deepEqual([gone.status, await failed.get()], [204, undefined])
    })
  })
}

for (const [database, url] of Object.entries(urls)) {
  if (url === undefined) continue
  test(`500 failed tasks on ${database} are retried once each, although workers are killed and drained`, async (t) => {
    const name = `retry_${process.pid}`
    const runs = new Map<string, number>()
    let [seconds, kills] = [0, 0]
    const start = (): ServerProcess =>
      new ServerProcess(process.execPath, [...program(join(import.meta.dirname, 'retry-worker.ts')), url, name], {})
    let worker: ServerProcess | undefined
    const { tasks, report, site, close } = openRetrying(url, name, ['default'], (id) => {
      const count = (runs.get(id) ?? 0) + 1
      runs.set(id, count)
      if (count === 1) return
      seconds++
      if (seconds !== 30 && seconds !== 200 && seconds !== 400) return
      worker?.child.kill(seconds === 200 ? 'SIGTERM' : 'SIGKILL')
      kills++
      worker = start()
    })
    t.after(async () => {
      await tasks.close({ drainMs: 0 })
      await close()
    })
    const ids: string[] = []
    for (let n = 0; n < 500; n++) ids.push((await tasks.ownedBy(n % 2 === 0 ? 'ann' : 'bob').submit(report, {})).taskId)
    await eventually(
      async () =>
        runs.size === 500 && (await tasks.list({ status: ['queued', 'processing'], limit: 1 })).items.length === 0,
      60_000,
    )

    const headers = { 'idempotency-key': 'again' }
    const accepted = await inject(site, {
      method: 'POST',
      path: '/admin/tasks/retry?status=failed&task=report',
      headers,
      ...admin,
    })
    const replayed = await inject(site, {
      method: 'POST',
      path: '/admin/tasks/retry?status=failed&task=report',
      headers,
      ...admin,
    })
    const location = String(accepted.headers['location'])
    assert.deepEqual([accepted.status, replayed.status, replayed.headers['location']], [202, 202, location])
    worker = start()
    let last: Body | undefined
    await eventually(async () => {
      last = await (await inject(site, { path: location, ...admin })).json<Body>()
      return last.status === 'completed'
    }, 60_000)
    assert.deepEqual(last?.result, { retried: 500, failed: 0, failures: [] })
    assert.deepEqual(last?.progress, { done: 500, unit: 'tasks' })
    await eventually(() => seconds >= 500)
    assert.ok(kills >= 2)
    assert.deepEqual(ids.filter((id) => runs.get(id) !== 2), [])
    const later = await (
      await inject(site, { method: 'POST', path: '/admin/tasks/retry?task=report&owner=nobody', ...admin })
    ).json<Body>()
    assert.deepEqual(((await tasks.wait(later.taskId, { timeoutMs: 20_000 })) as { result?: unknown }).result, {
      retried: 0,
      failed: 0,
      failures: [],
    })
  })
}
