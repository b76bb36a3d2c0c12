// Bulk tasks whose worker is killed at random points, by real processes with default options. The long form:
// KILLS=20 LINES=200000 LONGHAUL_TEST_FILE_TIMEOUT_MS=900000.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { taskEndpoints } from 'longhaul'
import { bulkItems, type BulkItem, type BulkTaskResult } from 'longhaul/bulk'
import { inject } from 'longhaul/testing'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { completeKilled, spool } from './kills.js'
import { openWeb } from './site.js'
import { BATCH } from './work.js'

stopAfterwards()
const KILLS = Number(process.env['KILLS'] ?? 8)
const ITEMS = Number(process.env['LINES'] ?? 40_000)
/** Maximum time of the run after the last kill, in milliseconds. A batch takes some 10 ms. */
const LAST_RUN_MS = 120_000 + 50 * ITEMS / BATCH
/** Each hundredth item is not valid, and each 97th number is taken. */
const items = Array.from({ length: ITEMS }, (_, n) => (n % 100 === 50 ? '{"n":"x"}' : `{"n":${n}}`))
const body = Buffer.from(`{"data":{"rows":[${items.join(',')}]}}`)
const statusOf = (n: number): number => (n % 100 === 50 ? 400 : n % 97 === 3 ? 409 : 201)
const numbers = Array.from({ length: ITEMS }, (_, n) => n)
const expected = numbers.filter((n) => statusOf(n) === 201)

const databases = {
  Redis: async () => (await redisForFile()).url,
  PostgreSQL: postgresUrl,
}
/** Each test has its own database, because its workers run every task that they find there. */
const openWebs = (open: () => Promise<string>) => (
  Promise.all([open().then((url) => openWeb(url)), open().then((url) => openWeb(url))])
)

const webs = await Promise.all(
  Object.entries(databases).map(async ([name, open]) => ({ name, own: await openWebs(open) })),
)
type Web = Awaited<ReturnType<typeof openWeb>>

// At the same time, because each of them waits for leases most of the time.
describe(`a bulk task whose worker is killed ${KILLS} times`, { concurrency: true }, () => {
  async function run(t: TestContext, web: Web, kind: 'bulkOnce' | 'bulkAtLeastOnce') {
    const spooled = await spool(web, 'bulk-create', body)
    const { taskId } = await web.tasks.submit(web.definitions[kind], { ...spooled, items: ITEMS, list: 'all' })
    const perKill = Math.max(Math.floor(ITEMS / BATCH / (KILLS + 1)), 2)
    const result = await completeKilled(t, web, taskId, KILLS, { perKill, lastRunMs: LAST_RUN_MS })
    await checkReport(web, taskId, result as BulkTaskResult)
    return web.site.rows.of(taskId)
  }

  /** Reads the report as a client does. */
  async function report(web: Web, taskId: string, query = ''): Promise<BulkItem[]> {
    const endpoints = taskEndpoints(web.tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const items = bulkItems({ endpoints, blobs: web.site.blobs })
    const response = await inject(items, { path: `/tasks/${taskId}/items${query}` })
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return text.split('\n').slice(0, -1).map((line) => JSON.parse(line) as BulkItem)
  }

  async function checkReport(web: Web, taskId: string, { summary }: BulkTaskResult): Promise<void> {
    assert.deepEqual(summary, { total: ITEMS, succeeded: expected.length, failed: ITEMS - expected.length })
    let next = 0
    for (const { index, status, id, error } of await report(web, taskId)) {
      assert.deepEqual([index, status, id], [next, statusOf(next), status === 201 ? next : undefined])
      if (status === 400) assert.equal(error?.details?.[0]?.pointer, `/data/rows/${next}/n`)
      next++
    }
    assert.equal(next, ITEMS)
    const failed = (await report(web, taskId, '?only=failed')).map(({ index }) => index)
    assert.deepEqual(failed, numbers.filter((n) => statusOf(n) !== 201))
  }

  for (const { name, own: [one, other] } of webs) {
    test(`${name}, with a cursor: each item is written once, and the report equals that of an undisturbed run`, async (t) => {
      assert.deepEqual(await run(t, one, 'bulkOnce'), expected)
    })

    test(`${name}, without a cursor: each kill repeats at most one batch, and the report equals that of an undisturbed run`, async (t) => {
      const rows = await run(t, other, 'bulkAtLeastOnce')
      assert.deepEqual([...new Set(rows)], expected)
      t.diagnostic(`${rows.length - expected.length} of ${ITEMS} items were written again, after ${KILLS} kills`)
      assert.ok(rows.length - expected.length <= KILLS * BATCH, 'at most one batch for each kill')
    })
  }
})
