// Imports whose worker is killed at random points, by real processes with default options. The long form:
// KILLS=20 LINES=200000 LONGHAUL_TEST_FILE_TIMEOUT_MS=900000.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import type { UploadResult } from '../../../src/ndjson/index.js'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { completeKilled, spool } from './kills.js'
import { openWeb } from './site.js'
import { BATCH } from './work.js'

stopAfterwards()
const KILLS = Number(process.env['KILLS'] ?? 8)
const LINES = Number(process.env['LINES'] ?? 40_000)
/** Maximum time of the run after the last kill, in milliseconds. A batch takes some 10 ms. */
const LAST_RUN_MS = 120_000 + 50 * LINES / BATCH
/** Each hundredth line is not JSON, and each 97th number is taken. */
const lines = Array.from({ length: LINES }, (_, n) => (n % 100 === 50 ? 'not JSON' : `{"n":${n}}`))
const body = Buffer.from(lines.join('\n'))
const numbers = Array.from({ length: LINES }, (_, n) => n).filter((n) => n % 100 !== 50)
const expected = numbers.filter((n) => n % 97 !== 3)

const databases = {
  Redis: async () => (await redisForFile()).url,
  PostgreSQL: postgresUrl,
  SQLite: sqliteUrl,
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
describe(`an import whose worker is killed ${KILLS} times`, { concurrency: true }, () => {
  async function run(t: TestContext, web: Web, kind: 'once' | 'atLeastOnce') {
    const spooled = await spool(web, 'ndjson-upload', body)
    const { taskId } = await web.tasks.submit(web.definitions[kind], spooled)
    const perKill = Math.max(Math.floor(LINES / BATCH / (KILLS + 1)), 2)
    const result = await completeKilled(t, web, taskId, KILLS, { perKill, lastRunMs: LAST_RUN_MS })
    return { rows: await web.site.rows.of(taskId), result: result as UploadResult }
  }

  function checkReport({ summary, items }: UploadResult): void {
    assert.deepEqual(summary, { total: LINES, succeeded: expected.length, failed: LINES - expected.length })
    const failed = Array.from({ length: LINES }, (_, n) => n).filter((n) => n % 100 === 50 || n % 97 === 3)
    assert.deepEqual(items.map(({ line }) => line), failed.slice(0, 1000).map((n) => n + 1))
  }

  for (const { name, own: [one, other] } of webs) {
    test(`${name}, with a cursor: each line is written once, and the report equals that of an undisturbed import`, async (t) => {
      const { rows, result } = await run(t, one, 'once')
      assert.deepEqual(rows, expected)
      checkReport(result)
    })

    test(`${name}, without a cursor: each kill repeats at most one batch, and the report equals that of an undisturbed import`, async (t) => {
      const { rows, result } = await run(t, other, 'atLeastOnce')
      assert.deepEqual([...new Set(rows)], expected)
      assert.ok(
        rows.length - expected.length <= KILLS * BATCH,
        `${rows.length - expected.length} lines were written again`,
      )
      t.diagnostic(`${rows.length - expected.length} of ${LINES} lines were written again, after ${KILLS} kills`)
      checkReport(result)
    })
  }
})
