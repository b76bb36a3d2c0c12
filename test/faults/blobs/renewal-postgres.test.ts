// A renewal in PostgreSQL beside the sweep that deletes the blob. One of them wins, and the renewal
// says which.
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { after, test, type TestContext } from 'node:test'
import pg from 'pg'
import { Database } from '../../../adapters/postgres/database.js'
import { PostgresBlobs } from '../../../adapters/postgres/blobs/blobs.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { eventually } from '../../kit/wait.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
after(() => pool.end())
const LONG_MS = 3_600_000
let schemas = 0

async function* content(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

/** The blobs of two processes, and a way to lock rows as a third one does. */
async function site(t: TestContext) {
  const schema = `renewal_${String(++schemas)}`
  const database = new Database({ pool, schema, timeoutMs: 20_000 })
  await database.ready()
  const [blobs, other] = [new PostgresBlobs(database), new PostgresBlobs(database)]
  t.after(async () => {
    await blobs.close()
    await other.close()
  })
  /** Runs `during` while a transaction holds the locks of a statement. */
  const locked = async <T>(statement: string, during: () => Promise<T>): Promise<T> => {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query(statement)
      return await during()
    } finally {
      await client.query('COMMIT')
      client.release()
    }
  }
  /** Waits until a statement of this schema waits for a lock. */
  const waits = () => eventually(async () => (await server.query(
    `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%${schema}%'`,
  )).length > 0, 10_000, 'the renewal waits for the lock')
  const rows = async (): Promise<number[]> => Promise.all(['blobs', 'blob_versions', 'blob_chunks'].map(
    async (table) => (await server.query(`SELECT 1 FROM ${schema}.${table}`)).length,
  ))
  /** Lets a blob expire that a statement has found to be alive. */
  const expire = () => server.query(`SELECT pg_sleep_until(max(expires_at)) FROM ${schema}.blobs`)
  return { schema, blobs, other, locked, waits, rows, expire }
}

test('a blob whose renewal succeeds near its expiry stays, even beside sweeps', async (t) => {
  const { blobs, other, rows } = await site(t)
  const TTL_MS = 400
  let isOver = false
  const sweeps = (async () => {
    for (; !isOver; await pause(1)) await other.sweep()
  })()
  let [won, lost] = [0, 0]
  for (let round = 0; round < 30 && (round < 3 || won === 0 || lost === 0); round++) {
    await Promise.all(Array.from({ length: 40 }, async (_, at) => {
      const key = `${round}-${at}`
      const written = await blobs.put(key, content(key), { ttlMs: TTL_MS })
      await pause(TTL_MS - 60 + Math.random() * 70)
      const info = await blobs.renew(key, LONG_MS)
      if (info === undefined) {
        lost++
        assert.equal(await other.stat(key), undefined)
        return
      }
      won++
      assert.deepEqual(info, written)
      await other.sweep()
      const pieces: Uint8Array[] = []
      for await (const piece of await other.open(key) ?? []) pieces.push(piece)
      assert.equal(Buffer.concat(pieces).toString(), key)
      assert.equal(await blobs.delete(key), true)
    }))
  }
  isOver = true
  await sweeps
  while (await other.sweep());
  t.diagnostic(`${won} renewals won, ${lost} lost`)
  assert.ok(won > 0 && lost > 0, `${won} won, ${lost} lost`)
  assert.deepEqual(await rows(), [0, 0, 0])
})

test('a renewal fails if a sweep has marked the version', async (t) => {
  const { schema, blobs, locked, waits, rows, expire } = await site(t)
  await blobs.put('key', content('abc'), { ttlMs: 2000 })
  const mark = `UPDATE ${schema}.blob_versions SET is_removed = true`
  const renewed = await locked(mark, async () => {
    const renewed = blobs.renew('key', LONG_MS)
    await waits()
    await expire()
    return { outcome: renewed }
  })
  assert.equal(await renewed.outcome, undefined)
  await blobs.sweep()
  assert.deepEqual(await rows(), [0, 0, 0])
})

test('a renewal fails if a sweep begins while the renewal waits for the blob', async (t) => {
  const { schema, blobs, other, locked, waits, rows, expire } = await site(t)
  await blobs.put('key', content('abc'), { ttlMs: 2000 })
  const renewed = await locked(`SELECT 1 FROM ${schema}.blobs FOR UPDATE`, async () => {
    const renewed = blobs.renew('key', LONG_MS)
    await waits()
    await expire()
    await other.sweep()
    return { outcome: renewed }
  })
  assert.equal(await renewed.outcome, undefined)
  assert.equal(await blobs.stat('key'), undefined)
  await blobs.sweep()
  assert.deepEqual(await rows(), [0, 0, 0])
})

test('a sweep does not touch a version that a renewal has locked', async (t) => {
  const { schema, blobs, other, locked, rows } = await site(t)
  const info = await blobs.put('key', content('abc'), { ttlMs: 1 })
  const renew = `WITH version AS (
    UPDATE ${schema}.blob_versions SET expires_at = clock_timestamp() + interval '1 hour' RETURNING expires_at
  ) UPDATE ${schema}.blobs SET expires_at = version.expires_at FROM version`
  await locked(renew, async () => { await other.sweep() })
  await other.sweep()
  assert.deepEqual(await blobs.stat('key'), info)
  assert.deepEqual(await rows(), [1, 1, 1])
})

test('renewals, writes and deletions of one key at the same time do not deadlock', async (t) => {
  const { blobs, other } = await site(t)
  await Promise.all(Array.from({ length: 120 }, async (_, at) => {
    const one = at % 2 === 0 ? blobs : other
    if (at % 4 === 0) return one.put('key', content(`${at}`), { ttlMs: LONG_MS })
    if (at % 10 === 1) return one.delete('key')
    if (at % 10 === 3) return one.sweep()
    return one.renew('key', LONG_MS)
  }))
  await blobs.put('key', content('last'), { ttlMs: LONG_MS })
  assert.equal((await other.renew('key', LONG_MS))?.size, 4)
})
