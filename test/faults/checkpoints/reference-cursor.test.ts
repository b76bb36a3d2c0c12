// An import of new users whose process is killed after it has written a batch, and before it has saved its position.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { startProcess, stopAfterwards } from '../../http/kit/process.js'
import { Client } from '../../http/kit/reference.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { databaseOf } from '../kit/reference-cluster.js'
import { eventually } from '../../kit/wait.js'

stopAfterwards()
const LINES = 5000
const url = await postgresUrl()

test('the report of an import of the reference server lists every line as written, although its process was killed after a batch', async (t) => {
  const db = new pg.Client({ connectionString: url })
  await db.connect()
  t.after(() => db.end())
  const env = { ...databaseOf(url), AUTH_TOKENS: 'writer-1=will:writer', RATE_LIMIT: '1000000' }
  let server = startProcess(env)
  const client = new Client(await server.url())
  const count = async (): Promise<number> =>
    Number(
      (await db.query<{ n: string }>("SELECT count(*) AS n FROM longhaul_users WHERE email LIKE 'new-%'")).rows[0]?.n,
    )
  const body = Array.from(
    { length: LINES },
    (_, n) => `${JSON.stringify({ name: `Name ${String(n)}`, email: `new-${String(n)}@example.com` })}\n`,
  ).join('')
  await client.ask('GET', '/api/users')

  // The import waits for this lock, so that it has begun when its position can no longer be saved.
  await db.query('BEGIN')
  await db.query('LOCK TABLE longhaul_users IN SHARE MODE')
  const accepted = await client.ask('POST', '/upload-ndjson', {
    body,
    headers: { 'content-type': 'application/x-ndjson', 'prefer': 'respond-async' },
  })
  assert.equal(accepted.status, 202)
  const path = accepted.headers.get('location') ?? ''
  await eventually(
    async () => {
      const { rows } = await db.query(
        "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'longhaul_users'::regclass",
      )
      return rows.length > 0
    },
    60_000,
    'the import writes its first batch',
  )
  const other = new pg.Client({ connectionString: url })
  await other.connect()
  t.after(() => other.end())
  await other.query('BEGIN')
  await other.query('SELECT FROM longhaul.task_rows FOR UPDATE')
  await db.query('COMMIT')
  await eventually(async () => (await count()) > 0, 60_000, 'the first batch is written')
  server.child.kill('SIGKILL')
  await server.exited
  assert.ok((await count()) < LINES, 'the import was not completed')
  // Otherwise the statement that saves the position would be carried out after its process.
  const left =
    "FROM pg_stat_activity WHERE application_name = 'longhaul reference server' AND datname = current_database()"
  await db.query(`SELECT pg_terminate_backend(pid) ${left}`)
  await eventually(
    async () => (await db.query(`SELECT 1 ${left}`)).rows.length === 0,
    60_000,
    'its statements have ended',
  )
  await other.query('ROLLBACK')

  server = startProcess(env)
  client.url = await server.url()
  await eventually(
    async () => (await client.ask('GET', path)).json['status'] === 'completed',
    120_000,
    'the import is completed',
  )
  const { json } = await client.ask('GET', path)
  const { result, attempt } = json as { result: { summary: object; items: readonly object[] }; attempt: number }
  assert.ok(attempt >= 2, 'it was killed midway')
  assert.deepEqual([result.summary, result.items], [{ total: LINES, succeeded: LINES, failed: 0 }, []])
  assert.equal(await count(), LINES)
})
