// Imports of CSV files whose worker is killed at random points, by real processes with default options.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { taskEndpoints } from 'longhaul'
import type { UploadResult } from 'longhaul/ndjson'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { inject } from 'longhaul/testing'
import { completeKilled, spool } from './kills.js'
import { openWeb } from './site.js'
import { BATCH } from './work.js'

stopAfterwards()
const KILLS = Number(process.env['KILLS'] ?? 4)
const ROWS = Number(process.env['ROWS'] ?? 12_000)
/** Maximum time of the run after the last kill, in milliseconds. */
const LAST_RUN_MS = 120_000 + 50 * ROWS / BATCH

/** Each hundredth row has no second cell, or a quote within a cell; each 97th number is taken. */
function rowText(n: number): string {
  if (n % 100 === 50) return n % 200 === 50 ? `${n}` : `${n};12" lang`
  return `${n};"Zoë\r\n""${n}""; Müller"`
}

const isRejected = (n: number): boolean => n % 100 === 50
const numbers = Array.from({ length: ROWS }, (_, n) => n)
const body = Buffer.from(`\ufeffn;Note\r\n${numbers.map((n) => `${rowText(n)}\r\n`).join('')}`)
const expected = numbers.filter((n) => !isRejected(n) && n % 97 !== 3)
const failed = numbers.filter((n) => isRejected(n) || n % 97 === 3)

type Web = Awaited<ReturnType<typeof openWeb>>

/** Each import has its own database, because its workers run every task that they find there. */
const databases = { SQLite: sqliteUrl, PostgreSQL: postgresUrl }
const webs = await Promise.all(Object.entries(databases).map(async ([name, open]) => ({
  name, once: await openWeb(await open()), atLeastOnce: await openWeb(await open()),
})))

async function run(t: TestContext, web: Web, kind: 'csvOnce' | 'csvAtLeastOnce') {
  const spooled = await spool(web, 'ndjson-upload', body)
  const { taskId } = await web.tasks.submit(web.definitions[kind], spooled)
  const perKill = Math.max(Math.floor(ROWS / BATCH / (KILLS + 1)), 2)
  const result = await completeKilled(t, web, taskId, KILLS, { perKill, lastRunMs: LAST_RUN_MS }) as UploadResult
  return { written: await web.site.rows.of(taskId), result, rejected: await rejectedFile(web, taskId) }
}

/** Returns the file of rejected rows, without its byte order mark. */
async function rejectedFile({ tasks }: Web, taskId: string): Promise<string> {
  const { files } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const response = await inject(files, { path: `/tasks/${taskId}/files/rejected.csv` })
  assert.equal(response.status, 200)
  return response.text()
}

/** The header is row 1. */
function checkReport({ summary, items }: UploadResult): void {
  assert.deepEqual(summary, { total: ROWS, succeeded: expected.length, failed: failed.length })
  assert.deepEqual(items.map(({ line }) => line), failed.slice(0, 1000).map((n) => n + 2))
}

const CELLS = 'cells_missing: The row has 1 cell, and the header row has 2.'
const QUOTES = 'row_malformed: A cell has a quote, but does not begin with one.'
  + ' Put the cell in quotes, and write """" for a quote.'

function rejectedText(n: number): string {
  if (n % 200 === 50) return `${n};;"${CELLS}"`
  return isRejected(n) ? `"${n};12"" lang";;"${QUOTES}"` : `${rowText(n)};taken: The number ${n} is taken.`
}

function checkRejected(text: string): void {
  const whole = `n;Note;_error\r\n${failed.map((n) => `${rejectedText(n)}\r\n`).join('')}`
  const at = Array.from(whole).findIndex((letter, index) => letter !== text[index])
  // The first difference alone, because the whole text fills screens.
  if (at !== -1) assert.equal(text.slice(at, at + 80), whole.slice(at, at + 80))
  assert.equal(text.length, whole.length)
}

// At the same time, because each of them waits for leases most of the time.
describe(`an import of a CSV file whose worker is killed ${KILLS} times`, { concurrency: true }, () => {
  for (const { name, once, atLeastOnce } of webs) {
    test(`${name}, with a cursor: each row is written once, and the report and the rejected rows are those of an undisturbed import`, async (t) => {
      const { written, result, rejected } = await run(t, once, 'csvOnce')
      assert.deepEqual(written, expected)
      checkReport(result)
      checkRejected(rejected)
    })

    test(`${name}, without a cursor: no row is lost, each kill repeats at most one batch, and the rejected rows are complete`, async (t) => {
      const { written, result, rejected } = await run(t, atLeastOnce, 'csvAtLeastOnce')
      assert.deepEqual([...new Set(written)], expected)
      assert.ok(written.length - expected.length <= KILLS * BATCH, `${written.length - expected.length} rows twice`)
      checkReport(result)
      checkRejected(rejected)
    })
  }
})
