// The store and the pool of the application while connections hang, are lost or are all in use.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { postgres, type PostgresOptions } from 'longhaul/postgres'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { eventually } from '../../kit/wait.js'

const server = await postgresForFile()
const later = { ttlMs: 60_000 }
const unavailable = { name: 'StoreUnavailableError', reason: 'unavailable' }
/** Short, so that the tests are. */
const TIMEOUT_MS = 400
/** Maximum time until all works again. */
const HEALED_MS = 30_000

interface Options extends Partial<Omit<PostgresOptions, 'pool'>> {
  readonly url?: string
  readonly max?: number
}

async function open(t: TestContext, { url = server.url, max = 4, ...options }: Options = {}) {
  const pool = new pg.Pool({ connectionString: url, max })
  const { store } = postgres({ pool, timeoutMs: TIMEOUT_MS, ...options })
  t.after(async () => {
    await store.close()
    await pool.end()
  })
  await eventually(async () => store.get('key').then(() => true, () => false), HEALED_MS, 'the store works')
  return { pool, store }
}

async function openThroughProxy(t: TestContext) {
  const proxy = await TcpProxy.to(server.port)
  t.after(() => { proxy.close() })
  return { proxy, ...await open(t, { url: server.urlAt(proxy.port) }) }
}

test('a check of the tables that takes longer than the time limit of a call serves a later call', async (t) => {
  await open(t)
  const proxy = await TcpProxy.to(server.port)
  const pool = new pg.Pool({ connectionString: server.urlAt(proxy.port), max: 4 })
  const { store } = postgres({ pool, timeoutMs: 200 })
  t.after(async () => {
    await store.close()
    await pool.end()
    proxy.close()
  })
  // One statement takes less than 200 ms, and the five of a check take more.
  proxy.latencyMs = 60
  await eventually(async () => store.get('key').then(() => true, () => false), HEALED_MS, 'the store works')
})

/** Opens a transaction that has locked an entry. */
async function lock(t: TestContext, key: string) {
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  t.after(() => client.end())
  await client.query('BEGIN')
  await client.query('SELECT 1 FROM longhaul.entries WHERE key = $1 FOR UPDATE', [key])
  return client
}

describe('the store on PostgreSQL', () => {
  test('fails in time while nothing arrives, then fails at once, and recovers', async (t) => {
    const { proxy, store } = await openThroughProxy(t)
    await store.create('black-holed', 'a', later)
    proxy.swallow()
    const calls = Array.from({ length: 50 }, async () => store.get('black-holed'))
    for (const call of await Promise.allSettled(calls)) assert.equal(call.status, 'rejected')
    const probe = store.get('black-holed')
    // Reads of one turn are one statement.
    await new Promise(setImmediate)
    await assert.rejects(async () => store.get('black-holed'), {
      ...unavailable, message: 'PostgreSQL does not respond',
    })
    await assert.rejects(async () => probe, {
      ...unavailable, message: /has not responded within 400 ms/,
    })
    proxy.heal()
    await eventually(async () => {
      const entry = await store.get('black-holed').catch(() => undefined)
      return entry?.value === 'a'
    }, HEALED_MS, 'it answers')
  })

  test('replaces connections that are half-open, at the next call', async (t) => {
    const { proxy, pool, store } = await openThroughProxy(t)
    await store.create('half-open', 'a', later)
    await Promise.all(Array.from({ length: 4 }, async () => store.get('half-open')))
    assert.ok(pool.idleCount > 1)
    proxy.forget()
    await assert.rejects(async () => store.get('half-open'), unavailable)
    assert.equal((await store.get('half-open'))?.value, 'a')
  })

  test('closes only the connection of a statement that exceeded its time limit', async (t) => {
    const { pool, store } = await open(t)
    const created = await store.create('locked', 'a', later)
    assert.ok(created.created)
    const locking = await lock(t, 'locked')
    await assert.rejects(async () => store.replace('locked', 'b', created.revision, later), unavailable)
    assert.equal(pool.waitingCount, 0)
    await locking.query('COMMIT')
    await store.get('locked')
    const entry = await store.get('locked')
    assert.ok(entry?.value === 'a' || entry?.value === 'b')
    assert.ok((await store.replace('locked', 'c', entry.revision, later)).replaced)
    assert.ok(pool.totalCount <= 4)
  })

  test('serves other calls while one call waits for a lock', async (t) => {
    const { pool, store } = await open(t)
    const created = await store.create('waiting', 'a', later)
    assert.ok(created.created)
    const connected = new Set<unknown>()
    pool.on('connect', (client) => { connected.add(client) })
    await lock(t, 'waiting')
    let isLate = false
    const late = assert.rejects(async () => store.replace('waiting', 'b', created.revision, later), unavailable)
      .finally(() => { isLate = true })
    while (!isLate) assert.deepEqual(await Promise.all([store.get('key'), store.get('key')]), [undefined, undefined])
    await late
    await Promise.all([store.get('key'), store.get('key')])
    assert.ok(connected.size <= 3, `${String(connected.size)} new connections`)
  })

  test('fails within its time limit while the application has taken all connections, and returns connections that arrive later', async (t) => {
    const { pool, store } = await open(t, { max: 2 })
    const taken = await Promise.all([pool.connect(), pool.connect()])
    await assert.rejects(async () => store.get('key'), unavailable)
    for (const client of taken) client.release()
    await eventually(() => pool.waitingCount === 0 && pool.idleCount === 2, HEALED_MS, 'both are idle')
    assert.equal(await store.get('key'), undefined)
  })

  test('sends a write again after it lost its connection, and recognises that it was applied', async (t) => {
    const { store } = await open(t, { timeoutMs: 20_000 })
    const created = await store.create('lost', 'a', later)
    assert.ok(created.created)
    const locking = await lock(t, 'lost')
    const replaced = store.replace('lost', 'b', created.revision, later)
    const waiting = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE "longhaul".entries%'`
    await eventually(async () => (await server.query(waiting)).length > 0, HEALED_MS, 'the write waits')
    await locking.query('COMMIT')
    assert.equal((await replaced).replaced, true)
    assert.equal((await store.get('lost'))?.value, 'b')
  })

  test('rejects an increment whose connection was lost as unavailable, and does not count twice', async (t) => {
    const { store } = await open(t, { timeoutMs: 20_000 })
    await store.increment('lost', 1, later)
    const locking = await lock(t, 'none')
    await locking.query("SELECT 1 FROM longhaul.counters WHERE key = 'lost' FOR UPDATE")
    const counted = store.increment('lost', 1, later)
    const waiting = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO "longhaul".counters%'`
    await Promise.all([
      assert.rejects(async () => counted, unavailable),
      eventually(async () => (await server.query(waiting)).length > 0, HEALED_MS, 'the counter waits'),
    ])
    await locking.query('COMMIT')
    assert.equal((await store.increment('lost', 0, later)).value, 1)
  })

  test('continues after the server has closed idle connections', async (t) => {
    const { pool, store } = await open(t)
    await Promise.all(Array.from({ length: 4 }, async () => store.get('key')))
    const lost = new Promise((resolve) => { pool.on('error', resolve) })
    await server.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
    await lost
    assert.equal(await store.get('key'), undefined)
  })

  test('reports a missing database, and rejects text that PostgreSQL cannot store', async (t) => {
    const pool = new pg.Pool({ connectionString: server.url.replace(/\/postgres$/, '/nowhere') })
    const { store } = postgres({ pool })
    t.after(async () => {
      await store.close()
      await pool.end()
    })
    await assert.rejects(async () => store.get('key'), {
      ...unavailable, message: /database "nowhere" does not exist/,
    })
    for (const text of ['a\0b', '\ud800']) {
      await assert.rejects(async () => store.get(text), TypeError)
      await assert.rejects(async () => store.create('key', text, later), TypeError)
    }
  })
})
