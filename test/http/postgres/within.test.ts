import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { PGlite } from '@electric-sql/pglite'
import { MemoryStore } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import type { Transaction } from 'longhaul/stores'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
after(() => pool.end())

describe('PostgresStore inside a transaction', () => {
  const { store } = postgres({ pool })

  const inTransaction = async <T>(end: 'COMMIT' | 'ROLLBACK', work: (client: pg.PoolClient) => Promise<T>, level = 'READ COMMITTED') => {
    const client = await pool.connect()
    try {
      await client.query(`BEGIN ISOLATION LEVEL ${level}`)
      const result = await work(client)
      await client.query(end)
      client.release()
      return result
    } catch (error) {
      client.release(true)
      throw error
    }
  }

  it('its writes are seen inside at once, and outside after the commit', async () => {
    const revision = await inTransaction('COMMIT', async (client) => {
      const inside = await store.within(client)
      const created = await inside.create('seen', 'one', { ttlMs: 60_000 })
      assert.equal((await inside.get('seen'))?.value, 'one')
      assert.equal(await store.get('seen'), undefined)
      assert.ok(created.created)
      const replaced = await inside.replace('seen', 'two', created.revision, { ttlMs: 60_000 })
      assert.ok(replaced.replaced)
      assert.deepEqual(await inside.create('seen', 'three', { ttlMs: 1 }), { created: false, entry: { value: 'two', revision: replaced.revision } })
      assert.equal((await inside.increment('hits', 2, { ttlMs: 60_000 })).value, 2)
      return replaced.revision
    })
    assert.deepEqual(await store.get('seen'), { value: 'two', revision })
    assert.equal((await store.increment('hits', 1, { ttlMs: 60_000 })).value, 3)
  })

  it('a rollback leaves nothing', async () => {
    await inTransaction('ROLLBACK', async (client) => {
      const inside = await store.within(client)
      await inside.create('gone', 'x', { ttlMs: 60_000 })
      await inside.increment('gone', 1, { ttlMs: 60_000 })
      assert.equal(await inside.delete('seen'), true)
    })
    assert.equal(await store.get('gone'), undefined)
    assert.equal((await store.increment('gone', 1, { ttlMs: 60_000 })).value, 1)
    assert.equal((await store.get('seen'))?.value, 'two')
  })

  it('a savepoint that is rolled back takes its writes with it', async () => {
    await inTransaction('COMMIT', async (client) => {
      await client.query('SAVEPOINT s')
      await (await store.within(client)).create('savepoint', 'x', { ttlMs: 60_000 })
      await client.query('ROLLBACK TO s')
      await (await store.within(client)).create('kept', 'x', { ttlMs: 60_000 })
    })
    assert.equal(await store.get('savepoint'), undefined)
    assert.equal((await store.get('kept'))?.value, 'x')
  })

  it('acquire tells of another open transaction, and does not wait for it', async () => {
    await inTransaction('ROLLBACK', async (one) => {
      assert.equal(await (await store.within(one)).acquire('k'), true)
      await inTransaction('ROLLBACK', async (two) => {
        const inside = await store.within(two)
        assert.equal(await inside.acquire('k'), false)
        assert.equal(await inside.acquire('other'), true)
      })
      const elsewhere = postgres({ pool, schema: 'elsewhere' }).store
      await elsewhere.get('x')
      await inTransaction('ROLLBACK', async (two) => {
        assert.equal(await (await elsewhere.within(two)).acquire('k'), true)
      })
    })
    await inTransaction('ROLLBACK', async (two) => {
      assert.equal(await (await store.within(two)).acquire('k'), true)
    })
  })

  it('refuses a client without a transaction, and the pool', async () => {
    const client = await pool.connect()
    await assert.rejects(store.within(client), { name: 'TypeError', message: /not open/ })
    client.release()
    await assert.rejects(store.within(pool), { name: 'TypeError', message: /not open/ })
    const single = new pg.Pool({ connectionString: server.url, max: 1 })
    await assert.rejects(store.within(single), { name: 'TypeError', message: /not open/ })
    await single.end()
  })

  it('refuses a transaction of another database, and leaves it usable', async () => {
    await pool.query('CREATE DATABASE other')
    const url = new URL(server.url)
    url.pathname = '/other'
    const other = new pg.Pool({ connectionString: url.href })
    const client = await other.connect()
    const refused = async () => {
      await client.query('BEGIN')
      await assert.rejects(store.within(client), { name: 'TypeError', message: /another database/ })
      await client.query('CREATE TABLE usable (id int)')
      await client.query('ROLLBACK')
    }
    await refused()
    await postgres({ pool: other }).store.get('has tables of its own now')
    await refused()
    client.release()
    await other.end()
  })

  it('refuses a transaction of a copy of the database on the same server', async () => {
    const url = new URL(server.url)
    const original = url.pathname.slice(1)
    url.pathname = '/postgres'
    await store.get('tables exist')
    // A template must have no connections.
    const copied = new pg.Pool({ connectionString: url.href })
    await copied.query('CREATE DATABASE empty_one')
    const from = new URL(server.url)
    from.pathname = '/empty_one'
    const first = new pg.Pool({ connectionString: from.href })
    const firstStore = postgres({ pool: first }).store
    await firstStore.get('x')
    await firstStore.close()
    await first.end()
    await copied.query('CREATE DATABASE the_copy TEMPLATE empty_one')
    assert.notEqual(original, 'the_copy')
    const second = new pg.Pool({ connectionString: from.href })
    const secondStore = postgres({ pool: second }).store
    await secondStore.get('x')
    from.pathname = '/the_copy'
    const copy = new pg.Pool({ connectionString: from.href })
    const client = await copy.connect()
    await client.query('BEGIN')
    await assert.rejects(secondStore.within(client), { message: /another database/ })
    client.release(true)
    await Promise.all([copied.end(), second.end(), copy.end()])
  })

  it('says what query must resolve to', async () => {
    const client = await pool.connect()
    await client.query('BEGIN')
    const wrong = { query: async (text: string, values: unknown[]) => (await client.query(text, values)).rows as never }
    await assert.rejects(store.within(wrong), { name: 'TypeError', message: /\{ rows \}/ })
    client.release(true)
    for (const none of [undefined, null, {}, 'x', { query: 1 }]) {
      await assert.rejects(store.within(none as unknown as Transaction), { name: 'TypeError', message: /query\(text, values\)/ })
    }
  })

  it('rejects with the error of the client, such as a serialization failure', async () => {
    await inTransaction('ROLLBACK', async (client) => {
      await client.query('SELECT 1')
      await store.create('concurrent', 'outside', { ttlMs: 60_000 })
      const inside = await store.within(client)
      await assert.rejects(async () => inside.create('concurrent', 'inside', { ttlMs: 60_000 }), { code: '40001' })
    }, 'REPEATABLE READ')
    await inTransaction('ROLLBACK', async (client) => {
      await assert.rejects(client.query('SELECT 1/0'))
      await assert.rejects(store.within(client), { code: '25P02' })
    })
  })

  it('works on PGlite', async () => {
    const pglite = await PGlite.create()
    const local = postgres({ pool: pglite }).store
    await local.get('prepared')
    await pglite.transaction(async (transaction) => {
      await (await local.within(transaction)).create('k', 'v', { ttlMs: 60_000 })
    })
    assert.equal((await local.get('k'))?.value, 'v')
    await assert.rejects(local.within(pglite), { message: /not open/ })
    await local.close()
    await pglite.close()
  })

  it('a store in memory has no transactions', () => {
    assert.equal('within' in new MemoryStore(), false)
  })
})
