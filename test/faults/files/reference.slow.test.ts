// An export of the reference server whose worker is killed, by real processes.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import pg from 'pg'
import { Client } from '../../http/kit/reference.js'
import { startProcess, stopAfterwards, type ServerProcess } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { eventually } from '../../kit/wait.js'

stopAfterwards()
const USERS = 25_000
/** The id at which an export stops until the gate is opened: in its second file. */
const GATE = 15_000
const LOCK = 77

const databases = { PostgreSQL: await postgresUrl(), Redis: await postgresUrl() }
const folder = mkdtempSync(join(tmpdir(), 'longhaul-bulk-data-'))
after(() => { rmSync(folder, { recursive: true, force: true }) })

interface Setup {
  readonly env: Readonly<Record<string, string>>
  /** Names the stored files, each with its version. */
  readonly stored: (users: pg.Client) => Promise<readonly string[]>
}

const setups: Readonly<Record<keyof typeof databases, Setup>> = {
  PostgreSQL: {
    env: { DATABASE: databases.PostgreSQL },
    stored: async (client) => (
      (await client.query<{ file: string }>(`SELECT key || ' ' || version AS file FROM longhaul.blobs
        WHERE key LIKE 'task-files/%' ORDER BY key`)).rows.map(({ file }) => file)
    ),
  },
  Redis: {
    env: { DATABASE: databases.Redis, REDIS_URL: await redisUrl(), BLOBS_DIR: folder },
    stored: async () => readdirSync(folder).filter((name) => name.endsWith('.blob')).sort()
      .map((name) => `${name} ${readFileSync(join(folder, name)).subarray(32, 48).toString('hex')}`),
  },
}

/** Starts a process that runs tasks. */
async function startWorker(env: Readonly<Record<string, string>>): Promise<ServerProcess> {
  const worker = startProcess({ ...env, WORKER: 'only' })
  await eventually(() => worker.out.includes('The worker is ready'), 60_000, `the worker is ready: ${worker.err}`)
  return worker
}

/** Makes a query of users after `GATE` wait for the lock, which `users` holds. */
async function closeGate(users: pg.Client): Promise<void> {
  await users.query(`
    INSERT INTO longhaul_users (name, email, email_key, role)
      SELECT 'User ' || n, n || '@bulk.example', n || '@bulk.example', 'viewer'
      FROM generate_series((SELECT count(*) + 1 FROM longhaul_users), ${USERS}) AS n;
    ALTER TABLE longhaul_users RENAME TO all_users;
    ANALYZE all_users;
    CREATE FUNCTION gate(id bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      IF id > ${GATE} THEN PERFORM pg_advisory_xact_lock_shared(${LOCK}); END IF;
      RETURN true;
    END $$;
    CREATE VIEW longhaul_users AS SELECT * FROM all_users WHERE gate(id);
    SELECT pg_advisory_lock(${LOCK})`)
}

for (const [kind, { env, stored }] of Object.entries(setups)) {
  test(`an export of the reference server on ${kind} whose worker is killed keeps its finished files`, async (t) => {
    const web = startProcess({ ...env, WORKER: 'off', AUTH_TOKENS: 'writer-1=will:writer', RATE_LIMIT: '1000000' })
    const client = new Client(await web.url())
    assert.equal((await client.ask('GET', '/api/users/1')).status, 200, 'the users are there')
    const users = new pg.Client({ connectionString: env['DATABASE'] as string })
    await users.connect()
    t.after(() => users.end())
    await closeGate(users)

    const worker = await startWorker(env)
    const accepted = await client.ask('GET', '/bulk-data', { headers: { prefer: 'respond-async' } })
    assert.equal(accepted.status, 202)
    const path = accepted.headers.get('location') ?? ''
    await eventually(async () => (
      (await users.query('SELECT 1 FROM pg_locks WHERE locktype = \'advisory\' AND NOT granted')).rows.length > 0
    ), 60_000, 'the export waits within its second file')
    worker.child.kill('SIGKILL')
    await worker.exited
    const before = await stored(users)
    assert.equal(before.length, 1)
    assert.equal((await client.ask('GET', path)).json.status, 'processing')

    await users.query(`SELECT pg_advisory_unlock(${LOCK})`)
    await startWorker(env)
    let { json } = await client.ended(path)
    while (json.status === 'processing') ({ json } = await client.ended(path))
    assert.deepEqual([json.status, json.attempt, json.result.records, json.result.parts], ['completed', 2, USERS, 3])
    const files = json.files as { name: string, url: string }[]
    assert.deepEqual(files.map(({ name }) => name), ['users.ndjson', 'users-2.ndjson', 'users-3.ndjson'])
    const now = await stored(users)
    assert.ok(now.includes(before[0] as string), 'the first file was not written again')
    const texts = await Promise.all(files.map(async ({ url }) => (await client.ask('GET', url)).text))
    assert.ok(texts.join('') === (await client.ask('GET', '/bulk-data')).text, 'the content is that of a download')
  })
}
