// What the store sends to the server: the replacements of one turn of the event loop share a statement.
import assert from 'node:assert/strict'
import { after, beforeEach, describe, test } from 'node:test'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { postgresForFile } from '../servers/postgres-server.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
const { store } = postgres({ pool, timeoutMs: 20_000 })
after(async () => {
  await store.close()
  await pool.end()
})

let sent: string[] = []
pool.on('connect', (client) => {
  const query = client.query.bind(client) as (...values: unknown[]) => unknown
  client.query = ((text: string, ...values: unknown[]) => {
    if (text.includes('UPDATE')) sent.push(text)
    return query(text, ...values)
  }) as typeof client.query
})

let names = 0

/** Creates so many entries. Returns their keys and revisions. */
function create(count: number): Promise<{ key: string, revision: string }[]> {
  return Promise.all(Array.from({ length: count }, async () => {
    const key = `key-${names++}`
    const created = await store.create(key, 'old', { ttlMs: 60_000 })
    assert.ok('revision' in created)
    return { key, revision: created.revision }
  }))
}

describe('replacements of one turn', () => {
  beforeEach(() => { sent = [] })

  test('share a statement, which sets value, lifetime and owner of each', async () => {
    const entries = await create(40)
    sent = []
    const outcomes = await Promise.all(entries.map(({ key, revision }, n) => (
      store.replace(key, `new "${n}"\n\\`, revision, n % 2 === 0 ? {} : { ttlMs: 30_000, evictable: true, caller: 'ann' })
    )))
    assert.equal(sent.length, 1)
    assert.ok(outcomes.every(({ replaced }) => replaced))
    const rows = await server.query(`SELECT key, value, owner, counted_at IS NOT NULL AS counted,
  extract(epoch FROM expires_at - clock_timestamp()) > 40 AS long FROM longhaul.entries ORDER BY key`)
    const byKey = new Map(rows.map(({ key, ...row }) => [key, row]))
    for (const [n, { key }] of entries.entries()) {
      const isEven = n % 2 === 0
      assert.deepEqual(byKey.get(key), {
        value: `new "${n}"\n\\`, owner: isEven ? null : 'ann', counted: !isEven, long: isEven,
      })
    }
  })

  test('get a conflict alone if the revision is another one', async () => {
    const [first, second] = await create(2)
    assert.ok(first && second)
    const outcomes = await Promise.all([
      store.replace(first.key, 'new', 'another', {}),
      store.replace(second.key, 'new', second.revision, {}),
    ])
    assert.deepEqual(outcomes.map(({ replaced }) => replaced), [false, true])
    assert.equal((await store.get(first.key))?.value, 'old')
  })

  test('replace an entry once, even if one turn has several replacements of it', async () => {
    const [entry] = await create(1)
    assert.ok(entry)
    const { key, revision } = entry
    const outcomes = await Promise.all(['a', 'b', 'c'].map((value) => store.replace(key, value, revision, {})))
    assert.equal(outcomes.filter(({ replaced }) => replaced).length, 1)
  })

  test('do not wait for an entry that another transaction has locked', async () => {
    const [locked, free] = await create(2)
    assert.ok(locked && free)
    const other = new pg.Client({ connectionString: server.url })
    await other.connect()
    try {
      await other.query('BEGIN')
      await other.query('SELECT FROM longhaul.entries WHERE key = $1 FOR UPDATE', [locked.key])
      const waiting = store.replace(locked.key, 'new', locked.revision, {})
      const { replaced } = await store.replace(free.key, 'new', free.revision, {})
      assert.ok(replaced)
      assert.equal((await store.get(locked.key))?.value, 'old')
      await other.query('COMMIT')
      assert.ok((await waiting).replaced)
    } finally {
      await other.end()
    }
  })

  test('have statements of at most a mebibyte', async () => {
    const entries = await create(5)
    sent = []
    const value = 'x'.repeat(400_000)
    await Promise.all(entries.map(({ key, revision }) => store.replace(key, value, revision, {})))
    assert.equal(sent.length, 3)
    assert.deepEqual(
      await Promise.all(entries.map(async ({ key }) => (await store.get(key))?.value.length)),
      entries.map(() => value.length),
    )
  })
})
