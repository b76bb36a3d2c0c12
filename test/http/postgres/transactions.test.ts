// What the engine accepts as a transaction of the application, and what it says of anything else.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import type { NewTask } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import { postgres } from 'longhaul/postgres'
import type { Transaction } from 'longhaul'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
after(() => pool.end())

let births = 0
const task = (id: string, rest: Partial<NewTask> = {}): NewTask => ({
  id, birth: String(births++), key: undefined, owner: undefined, caller: undefined, name: 'work', pool: 'nobody',
  priority: 0, input: Json.of({ id }), details: {}, keepMs: 3_600_000, ...rest,
})

describe('a task in a transaction of the application', () => {
  const { engine } = postgres({ pool })
  after(() => engine.close({ drainMs: 0 }))
  const create = (id: string, transaction: Transaction) => engine.create(task(id), { transaction })

  const inTransaction = async <T>(
    end: 'COMMIT' | 'ROLLBACK',
    work: (client: pg.PoolClient) => Promise<T>,
    level = 'READ COMMITTED',
  ) => {
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

  it('is visible to its transaction at once, and to others after the commit', async () => {
    await inTransaction('COMMIT', async (client) => {
      const first = task('seen')
      assert.equal((await engine.create(first, { transaction: client })).outcome, 'created')
      assert.equal((await engine.create(first, { transaction: client })).outcome, 'created')
      assert.equal((await create('seen', client)).outcome, 'exists')
      assert.equal(await engine.read('seen'), undefined)
    })
    assert.equal((await engine.read('seen'))?.status, 'queued')
  })

  it('disappears with a savepoint that is rolled back', async () => {
    await inTransaction('COMMIT', async (client) => {
      await client.query('SAVEPOINT s')
      await create('savepoint', client)
      await client.query('ROLLBACK TO s')
      await create('kept', client)
    })
    assert.equal(await engine.read('savepoint'), undefined)
    assert.equal((await engine.read('kept'))?.status, 'queued')
  })

  it('waits for another open transaction with its key, but not for other keys and schemas', async () => {
    const elsewhere = postgres({ pool, schema: 'elsewhere' }).engine
    await elsewhere.now()
    await inTransaction('ROLLBACK', async (one) => {
      await engine.create(task('one', { key: 'key' }), { transaction: one })
      await inTransaction('ROLLBACK', async (two) => {
        assert.equal((await engine.create(task('two', { key: 'other' }), { transaction: two })).outcome, 'created')
        assert.equal((await elsewhere.create(task('one', { key: 'key' }), { transaction: two })).outcome, 'created')
        await two.query("SET LOCAL statement_timeout = '7s'")
        await assert.rejects(engine.create(task('three', { key: 'key' }), { transaction: two }), {
          name: 'StoreUnavailableError',
        })
        assert.equal((await two.query<{ statement_timeout: string }>('SHOW statement_timeout')).rows[0]?.statement_timeout, '7s')
        const waiting = engine.create(task('four', { key: 'key' }), { transaction: two })
        await one.query('ROLLBACK')
        assert.equal((await waiting).outcome, 'created')
        assert.equal(
          (await two.query<{ statement_timeout: string }>('SHOW statement_timeout')).rows[0]?.statement_timeout,
          '7s',
        )
      })
    })
    await elsewhere.close({ drainMs: 0 })
  })

  it('rejects a client without a transaction, and the pool', async () => {
    const client = await pool.connect()
    await assert.rejects(create('x', client), { name: 'TypeError', message: /not open/ })
    client.release()
    await assert.rejects(create('x', pool), { name: 'TypeError', message: /not open/ })
    const single = new pg.Pool({ connectionString: server.url, max: 1 })
    await assert.rejects(create('x', single), { name: 'TypeError', message: /not open/ })
    await single.end()
  })

  it('rejects a transaction of another database, and leaves it usable', async () => {
    await pool.query('CREATE DATABASE other')
    const url = new URL(server.url)
    url.pathname = '/other'
    const other = new pg.Pool({ connectionString: url.href })
    const client = await other.connect()
    const refused = async () => {
      await client.query('BEGIN')
      await assert.rejects(create('x', client), { name: 'TypeError', message: /another database/ })
      await client.query('CREATE TABLE usable (id int)')
      await client.query('ROLLBACK')
    }
    await refused()
    const own = postgres({ pool: other }).engine
    await own.now()
    await own.close({ drainMs: 0 })
    await refused()
    client.release()
    await other.end()
  })

  it('rejects a transaction of a copy of the database on the same server', async () => {
    const url = new URL(server.url)
    const original = url.pathname.slice(1)
    url.pathname = '/postgres'
    await engine.now()
    // A template must have no connections.
    const copied = new pg.Pool({ connectionString: url.href })
    await copied.query('CREATE DATABASE empty_one')
    const from = new URL(server.url)
    from.pathname = '/empty_one'
    const first = new pg.Pool({ connectionString: from.href })
    await postgres({ pool: first }).store.get('x')
    await first.end()
    await copied.query('CREATE DATABASE the_copy TEMPLATE empty_one')
    assert.notEqual(original, 'the_copy')
    const second = new pg.Pool({ connectionString: from.href })
    const secondEngine = postgres({ pool: second }).engine
    await secondEngine.now()
    from.pathname = '/the_copy'
    const copy = new pg.Pool({ connectionString: from.href })
    const client = await copy.connect()
    await client.query('BEGIN')
    await assert.rejects(secondEngine.create(task('x'), { transaction: client }), { message: /another database/ })
    client.release(true)
    await secondEngine.close({ drainMs: 0 })
    await Promise.all([copied.end(), second.end(), copy.end()])
  })

  it('has an error that says what query must resolve to', async () => {
    const client = await pool.connect()
    await client.query('BEGIN')
    const wrong = { query: async (text: string, values: unknown[]) => (await client.query(text, values)).rows as never }
    await assert.rejects(create('x', wrong), { name: 'TypeError', message: /\{ rows \}/ })
    client.release(true)
    for (const none of [null, {}, 'x', { query: 1 }]) {
      await assert.rejects(create('x', none as unknown as Transaction), {
        name: 'TypeError',
        message: /query\(text, values\)/,
      })
    }
  })

  it('rejects with the error of the client, such as a serialization failure', async () => {
    await inTransaction('ROLLBACK', async (client) => {
      await client.query('SELECT 1')
      await engine.create(task('concurrent'))
      await assert.rejects(create('concurrent', client), { code: '40001' })
    }, 'REPEATABLE READ')
    await inTransaction('ROLLBACK', async (client) => {
      await assert.rejects(client.query('SELECT 1/0'))
      await assert.rejects(create('x', client), { code: '25P02' })
    })
  })
})
