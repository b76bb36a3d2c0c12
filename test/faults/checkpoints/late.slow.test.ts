// A worker that was suspended while another one continued its task, by real processes. The
// application stores the cursor.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { spool } from './kills.js'
import { openWeb } from './site.js'
import { BATCH } from './work.js'

stopAfterwards()
const databases = { Redis: (await redisForFile()).url, PostgreSQL: await postgresUrl() }
const webs = await Promise.all(
  Object.entries(databases).map(async ([name, url]) => ({ name, ...(await openWeb(url, { leaseMs: 2000 })) })),
)
const COUNT = 60_000
const numbers = Array.from({ length: COUNT }, (_, n) => n)
const expected = numbers.filter((n) => n % 97 !== 3)
const items = numbers.map((n) => `{"n":${n}}`)

for (const web of webs) describe(`a worker on ${web.name} that was suspended`, () => {
  const { tasks, definitions: { bulkOnce, once }, worker } = web

  async function suspend(t: TestContext, submit: () => Promise<{ readonly taskId: string }>): Promise<void> {
    const first = await worker(t)
    const { taskId } = await submit()
    await first.said(/(wrote\n){20}/)
    first.child.kill('SIGSTOP')
    const second = await worker(t)
    await second.said(/(wrote\n){20}/)
    first.child.kill('SIGCONT')
    const end = await tasks.wait(taskId, { timeoutMs: 120_000 })
    assert.equal(end?.status, 'completed')
    const rows = await web.site.rows.of(taskId)
    assert.deepEqual([...new Set(rows)].sort((a, b) => a - b), expected)
    assert.ok(rows.length - expected.length <= BATCH, `${rows.length - expected.length} records were written again`)
  }

  test('writes at most the batch that it had begun, in a bulk task', async (t) => {
    const spooled = await spool(web, 'bulk-create', Buffer.from(`{"data":{"rows":[${items.join(',')}]}}`))
    await suspend(t, () => tasks.submit(bulkOnce, { ...spooled, items: COUNT, list: 'none' }))
  })

  test('writes at most the batch that it had begun, in an import', async (t) => {
    const spooled = await spool(web, 'ndjson-upload', Buffer.from(`${items.join('\n')}\n`))
    await suspend(t, () => tasks.submit(once, spooled))
  })
})
