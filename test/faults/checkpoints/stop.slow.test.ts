// What a worker does with its checkpoint when it is stopped or suspended, by real processes.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { clusterForFile } from '../../servers/redis-cluster.js'
import { redisForFile } from '../../servers/redis-server.js'
import { openWeb, said } from './site.js'

stopAfterwards()
const databases = {
  Redis: (await redisForFile()).url,
  'Redis Cluster': (await clusterForFile()).map(({ url }) => url).join(','),
  PostgreSQL: await postgresUrl(),
}

const webs = await Promise.all(Object.entries(databases).map(async ([name, url]) => ({ name, ...await openWeb(url, { leaseMs: 2000 }) })))

for (const { name, tasks, definitions: { count }, worker } of webs) describe(`a worker on ${name}`, () => {
  test('SIGTERM: another worker continues from the checkpoint within a second, and no attempt is used', async (t) => {
    const first = await worker(t)
    const { taskId } = await tasks.submit(count, { to: 400 })
    await said(first, /step 20\n/)
    const second = await worker(t)
    first.child.kill('SIGTERM')
    const stopped = performance.now()
    const [, from = ''] = await said(second, /from (\d+)\n/)
    assert.ok(performance.now() - stopped < 1000, 'it does not wait for a lease to end')
    const end = await tasks.wait(taskId, { timeoutMs: 60_000 })
    assert.equal(end?.status, 'completed', 'the definition has one attempt, and it is not used up')
    await said(first, /closed\n/)
    // The value that the stopped run saved last, although that save rejected.
    const last = Number(/step (\d+)\n(?!step)/.exec(first.out)?.[1])
    assert.equal(Number(from), last + 1)
    assert.match(first.out, /refused WorkerClosingError aborted true/)
    assert.equal((end.result as unknown as { from: number }).from, last + 1)
  })

  test('SIGSTOP: the save of a worker that was suspended is rejected and ends its run, and the task is completed by the other', async (t) => {
    const first = await worker(t)
    const { taskId } = await tasks.submit(count, { to: 150 })
    await said(first, /step 20\n/)
    first.child.kill('SIGSTOP')
    const second = await worker(t)
    const [, from = ''] = await said(second, /from (\d+)\n/)
    assert.ok(Number(from) >= 20)
    await said(second, new RegExp(`step ${Number(from) + 5}\n`))
    first.child.kill('SIGCONT')
    await said(first, /refused attempt_replaced aborted true\n/)
    const end = await tasks.wait(taskId, { timeoutMs: 60_000 })
    assert.equal(end?.status, 'completed')
    assert.equal((end.result as unknown as { from: number }).from, Number(from))
  })

  test('SIGKILL: the next worker continues at the last saved value', async (t) => {
    const first = await worker(t)
    const { taskId } = await tasks.submit(count, { to: 60 })
    await said(first, /step 20\n/)
    first.child.kill('SIGKILL')
    const second = await worker(t)
    const [, from = ''] = await said(second, /from (\d+)\n/)
    assert.ok(Number(from) >= 20)
    assert.equal((await tasks.wait(taskId, { timeoutMs: 60_000 }))?.status, 'completed')
  })
})
