// What late statements and careless transactions of the application leave on the server and in the pool.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { Connections } from '../../../adapters/postgres/connections.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { eventually } from '../../kit/wait.js'

const server = await postgresForFile()
const later = { ttlMs: 60_000 }

/** Returns the number of connections of an application that the server has. */
async function countConnections(name: string): Promise<number> {
  const [row] = await server.query(
    'SELECT count(*)::integer AS count FROM pg_stat_activity WHERE application_name = $1', [name],
  )
  return row?.['count'] as number
}

describe('a pool of the application', () => {
  for (const end of ['fails', 'is left open']) {
    test(`works after the application returned a client whose transaction ${end}`, async (t) => {
      const pool = new pg.Pool({ connectionString: server.url, max: 1 })
      const { store } = postgres({ pool })
      t.after(async () => {
        await store.close()
        await pool.end()
      })
      await store.get('key')
      const client = await pool.connect()
      await client.query('BEGIN')
      if (end === 'fails') await client.query('SELECT 1 / 0').catch(() => undefined)
      client.release()
      await store.create(`after ${end}`, 'value', later)
      const rows = await server.query('SELECT 1 FROM longhaul.entries WHERE key = $1', [`after ${end}`])
      assert.equal(rows.length, 1, 'the entry is committed')
    })
  }

  test('completes a transaction whose COMMIT is still running when its client is returned', async (t) => {
    const pool = new pg.Pool({ connectionString: server.url, max: 1 })
    const { store } = postgres({ pool })
    t.after(async () => {
      await store.close()
      await pool.end()
    })
    await store.get('key')
    await server.query('CREATE TABLE own (id text)')
    const client = await pool.connect()
    await client.query('BEGIN')
    await client.query("INSERT INTO own VALUES ('row')")
    const committed = client.query('COMMIT')
    client.release()
    await store.create('after commit', 'value', later)
    await committed
    assert.deepEqual(await server.query('SELECT id FROM own'), [{ id: 'row' }])
  })

  test('has no more connections than its maximum while statements wait for a lock', async (t) => {
    const pool = new pg.Pool({ connectionString: server.url, max: 2, application_name: 'late' })
    const { store } = postgres({ pool, timeoutMs: 50 })
    await eventually(
      () => store.create('locked', 'value', later).then(() => true, () => false), 5000, 'it works',
    )
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    await client.query('BEGIN')
    await client.query('SELECT 1 FROM longhaul.entries WHERE key = $1 FOR UPDATE', ['locked'])
    t.after(async () => {
      await client.end()
      await store.close()
      await pool.end()
    })
    for (let count = 0; count < 20; count++) {
      const [locked] = await Promise.allSettled([store.delete('locked'), store.get('other')])
      assert.equal(locked.status, 'rejected')
    }
    // One more for the statement that cancels another.
    await eventually(async () => await countConnections('late') <= 3, 30_000, 'the late statements end')
  })

  test('has no more connections than its maximum while migrations wait for their turn', async (t) => {
    const pool = new pg.Pool({ connectionString: server.url, max: 2, application_name: 'turns' })
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    await client.query('SELECT pg_advisory_lock(17)')
    t.after(async () => {
      await client.end()
      await pool.end()
    })
    const connections = new Connections(pool)
    for (let count = 0; count < 5; count++) {
      const turn = connections.transaction((query) => query('SELECT pg_advisory_xact_lock(17)'), 100)
      await assert.rejects(turn, { message: /not done within 100 ms/ })
    }
    await eventually(async () => await countConnections('turns') <= 2, 30_000, 'the transactions end')
  })
})
