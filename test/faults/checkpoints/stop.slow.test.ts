// What a worker does with its checkpoint when it is stopped or suspended, by real processes.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { clusterForFile } from '../../servers/redis-cluster.js'
import { redisForFile } from '../../servers/redis-server.js'
import { openWeb } from './site.js'

stopAfterwards()
const databases = {
  Redis: (await redisForFile()).url,
  'Redis Cluster': (await clusterForFile()).map(({ url }) => url).join(','),
  PostgreSQL: await postgresUrl(),
}

const webs = await Promise.all(
  Object.entries(databases).map(async ([name, url]) => ({
    name,
    short: await openWeb(url, { leaseMs: 2000 }),
    long: await openWeb(url, { name: 'long_lease', leaseMs: 600_000 }),
  })),
)

for (const { name, short, long } of webs) describe(`a worker on ${name}`, () => {
  /** Submits a task that counts. Cancels it after the test, because a worker of the next test would continue it. */
  async function submit(t: TestContext, { tasks, definitions: { count } }: typeof short, to: number): Promise<string> {
    const { taskId } = await tasks.submit(count, { to })
    t.after(() => tasks.cancel(taskId))
    return taskId
  }

  test('gives its task up on SIGTERM: another worker continues at once from the checkpoint, and no attempt is used', async (t) => {
    const { tasks, worker } = long
    const first = await worker(t)
    const taskId = await submit(t, long, 400)
    await first.said(/step 20\n/)
    const second = await worker(t)
    first.child.kill('SIGTERM')
    // The lease of the first worker would end only after the time limit of this file.
    const [, from = ''] = await second.said(/from (\d+)\n/)
    const end = await tasks.wait(taskId, { timeoutMs: 60_000 })
    assert.equal(end?.status, 'completed', 'the definition has one attempt, and it is not used up')
    await first.said(/closed\n/)
    // The value that the stopped run saved last, although that save rejected.
    const last = Number(/step (\d+)\n(?!step)/.exec(first.out)?.[1])
    assert.equal(Number(from), last + 1)
    assert.match(first.out, /refused WorkerClosingError aborted true/)
    assert.equal((end.result as unknown as { from: number }).from, last + 1)
  })

  test('cannot save a checkpoint after a suspension by SIGSTOP: its run ends, and another worker completes the task', async (t) => {
    const { tasks, worker } = short
    const first = await worker(t)
    const taskId = await submit(t, short, 150)
    await first.said(/step 20\n/)
    first.child.kill('SIGSTOP')
    const second = await worker(t)
    const [, from = ''] = await second.said(/from (\d+)\n/)
    assert.ok(Number(from) >= 20)
    await second.said(new RegExp(`step ${Number(from) + 5}\n`))
    first.child.kill('SIGCONT')
    await first.said(/refused attempt_replaced aborted true\n/)
    const end = await tasks.wait(taskId, { timeoutMs: 60_000 })
    assert.equal(end?.status, 'completed')
    assert.equal((end.result as unknown as { from: number }).from, Number(from))
  })

  test('loses nothing that was saved before a SIGKILL: the next worker continues at the last checkpoint', async (t) => {
    const { tasks, worker } = short
    const first = await worker(t)
    const taskId = await submit(t, short, 60)
    await first.said(/step 20\n/)
    first.child.kill('SIGKILL')
    const second = await worker(t)
    const [, from = ''] = await second.said(/from (\d+)\n/)
    assert.ok(Number(from) >= 20)
    assert.equal((await tasks.wait(taskId, { timeoutMs: 60_000 }))?.status, 'completed')
  })
})
