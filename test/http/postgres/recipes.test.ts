// The recipes of docs/guide/transactions.md and query-builders.md: the pages take the regions from here.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import createKnex from 'knex'
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely'
import {
  defineTask, guard, httpError, jsonSchema, taskEndpoints, type TaskHandle, type Transaction,
} from 'longhaul'
import { inject } from 'longhaul/testing'
import pg from 'pg'
import { freePort } from '../../servers/redis-server.js'
import { databaseForFile } from '../kit/postgres.js'

const { pool, server, tasksOver } = await databaseForFile()

interface Invoice { readonly id: string, readonly amount: number }

const invoice = defineTask({
  name: 'invoice',
  maxPerOwner: 100,
  input: jsonSchema<Invoice>({ type: 'object', required: ['id', 'amount'] }),
  run: async ({ id }) => ({ message: `sent ${id}` }),
})
const tasks = tasksOver({ definitions: [invoice] })
await pool.query('ALTER TABLE invoices ADD COLUMN owner text')
const owner = 'ann'

// #region drizzle
interface DrizzleTransaction {
  execute(query: ReturnType<typeof sql>): Promise<{ readonly rows: unknown[] }>
}

/** Lets longhaul write in a transaction of Drizzle. */
function fromDrizzle(tx: DrizzleTransaction): Transaction {
  return {
    query: (text, values) => {
      // Drizzle numbers the parameters itself: $1, $2, … become parts of its own.
      const parts = text.split(/\$(\d+)/).map((part, at) => (
        at % 2 === 0 ? sql.raw(part) : sql`${sql.param(values[Number(part) - 1])}`
      ))
      return tx.execute(sql.join(parts))
    },
  }
}
// #endregion

// #region kysely
interface KyselyTransaction {
  executeQuery(query: CompiledQuery): Promise<{ readonly rows: unknown[] }>
}

/** Lets longhaul write in a transaction of Kysely. */
function fromKysely(trx: KyselyTransaction): Transaction {
  return { query: (text, values) => trx.executeQuery(CompiledQuery.raw(text, values)) }
}
// #endregion

// #region knex
interface KnexTransaction {
  raw(text: string, values: never[]): PromiseLike<{ readonly rows: unknown[] }>
}

/** Lets longhaul write in a transaction of Knex, on the client `pg`. */
function fromKnex(trx: KnexTransaction): Transaction {
  return {
    query: async (text, values) => {
      // Knex writes `?` for a parameter, and takes the values in their order in the text.
      const ordered: unknown[] = []
      const raw = text.replaceAll('?', '\\?').replaceAll(/\$(\d+)/g, (_, number) => {
        ordered.push(values[Number(number) - 1])
        return '?'
      })
      return trx.raw(raw, ordered as never[])
    },
  }
}
// #endregion

// #region prisma
interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: unknown[]): PromiseLike<unknown>
}

/** Lets longhaul write in a transaction of Prisma. */
function fromPrisma(tx: PrismaTransaction): Transaction {
  return {
    query: async (text, values) => (
      { rows: await tx.$queryRawUnsafe(text, ...values) as unknown[] }
    ),
  }
}
// #endregion

const invoices = pgTable('invoices', { id: text('id').primaryKey(), amount: integer('amount'), task: text('task') })
const db = drizzle({ client: pool })
const kysely = new Kysely<{ invoices: { id: string; amount: number; task: string } }>({
  dialect: new PostgresDialect({ pool }),
})
const knex = createKnex({ client: 'pg', connection: server.url, pool: { min: 0, max: 2 } })
after(() => knex.destroy())

/** Creates an invoice and submits its task. Rolls back if there is an invoice of this id. */
type Create = (input: Invoice) => Promise<TaskHandle>

const recipes: Readonly<Record<string, Create>> = {
  'pg': async (input) => {
    // #region pg
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      const task = await tasks.submit(invoice, input, { owner, transaction: client })
      await client.query(
        'INSERT INTO invoices (id, amount, task) VALUES ($1, $2, $3)',
        [input.id, input.amount, task.taskId],
      )
      await client.query('COMMIT')
      return task
    } catch (error) {
      // If the connection is lost, ROLLBACK fails, too, and must not hide the first error.
      await client.query('ROLLBACK').catch(() => undefined)
      throw error
    } finally {
      client.release()
    }
    // #endregion
  },
  'Drizzle': (input) => {
    // #region drizzle-use
    return db.transaction(async (tx) => {
      const transaction = fromDrizzle(tx)
      const task = await tasks.submit(invoice, input, { owner, transaction })
      await tx.insert(invoices).values({ ...input, task: task.taskId })
      return task
    })
    // #endregion
  },
  'Kysely': (input) => {
    return kysely.transaction().execute(async (trx) => {
      const transaction = fromKysely(trx)
      const task = await tasks.submit(invoice, input, { owner, transaction })
      await trx.insertInto('invoices').values({ ...input, task: task.taskId }).execute()
      return task
    })
  },
  'Knex': (input) => {
    return knex.transaction(async (trx) => {
      const transaction = fromKnex(trx)
      const task = await tasks.submit(invoice, input, { owner, transaction })
      await trx('invoices').insert({ ...input, task: task.taskId })
      return task
    })
  },
  // Prisma itself is not installed: 300 MB, and its generator downloads a program.
  'what Prisma calls $queryRawUnsafe': async (input) => {
    const client = await pool.connect()
    const tx: PrismaTransaction = {
      $queryRawUnsafe: async (text, ...values) => (await client.query(text, values)).rows,
    }
    try {
      await client.query('BEGIN')
      const task = await tasks.submit(invoice, input, { owner, transaction: fromPrisma(tx) })
      await tx.$queryRawUnsafe('INSERT INTO invoices VALUES ($1, $2, $3)', input.id, input.amount, task.taskId)
      await client.query('COMMIT')
      return task
    } catch (error) {
      await client.query('ROLLBACK')
      throw error
    } finally {
      client.release()
    }
  },
}

const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const createInvoice = endpoints.submit(invoice, {
  transaction: (request, input, submit) => db.transaction(async (tx) => {
    const { taskId } = await submit(fromDrizzle(tx))
    await tx.insert(invoices).values({ ...input, task: taskId })
  }),
})

/** @param pool - not that of the engine, which would take the connections of a test */
const createWithPg = (pool: { readonly connect: () => Promise<pg.PoolClient> }) =>
  taskEndpoints<{ user: { id: string } }>(tasks, {
    statusPath: '/tasks/{id}',
    owner: ({ context }) => context.user.id,
  }).submit(invoice, {
    // #region endpoint-pg
    transaction: async (request, input, submit) => {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        const { taskId } = await submit(client)
        await client.query(
          'INSERT INTO invoices (id, amount, task, owner) VALUES ($1, $2, $3, $4)',
          [input.id, input.amount, taskId, request.context.user.id],
        )
        await client.query('COMMIT')
      } catch (error) {
        await client.query('ROLLBACK').catch(() => undefined)
        throw error
      } finally {
        client.release()
      }
    },
    // #endregion
  })

describe('an endpoint whose transaction loses its connection', () => {
  const send = async (connect: () => Promise<pg.PoolClient>) => {
    const errors: unknown[] = []
    const response = await inject(guard(createWithPg({ connect }), { onError: (error) => { errors.push(error) } }), {
      method: 'POST', path: '/', body: { id: 'lost', amount: 5 }, headers: { prefer: 'respond-async' },
      context: { user: { id: 'ann' } },
    })
    return {
      status: response.status,
      retryAfter: response.headers['retry-after'],
      errors: errors as { cause?: { code?: string } }[],
    }
  }

  for (const statement of ['BEGIN', 'set_config', 'INSERT INTO invoices', 'COMMIT']) {
    for (const isIdle of [true, false]) {
      it(`responds with 503 if the connection is lost ${isIdle ? 'before' : 'during'} ${statement}`, async (t) => {
        const client = await pool.connect()
        client.on('error', () => undefined)
        const { rows: [{ pid } = { pid: 0 }] } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
        const query = client.query.bind(client) as (text: string, values?: unknown[]) => Promise<unknown>
        t.mock.method(client, 'query', async (text: string, values?: unknown[]) => {
          if (!text.includes(statement)) return query(text, values)
          if (!isIdle) return query(`SELECT pg_terminate_backend(${String(pid)}), pg_sleep(5)`)
          const ended = new Promise((resolve) => { client.once('end', resolve) })
          await server.query('SELECT pg_terminate_backend($1)', [pid])
          await ended
          return query(text, values)
        })
        const { status, retryAfter, errors } = await send(async () => client)
        assert.deepEqual([status, retryAfter], [503, '5'])
        assert.equal(errors.length, 1)
        assert.equal((errors[0] as Error).name, 'StoreUnavailableError')
        if (!isIdle) assert.equal(errors[0]?.cause?.code, '57P01')
        assert.deepEqual((await pool.query("SELECT FROM invoices WHERE id = 'lost'")).rows, [])
      })
    }
  }

  it('responds with 503 if a connection cannot be made', async () => {
    const away = new pg.Pool({ host: '127.0.0.1', port: await freePort() })
    const { status, retryAfter, errors } = await send(() => away.connect())
    assert.deepEqual([status, retryAfter, errors[0]?.cause?.code], [503, '5', 'ECONNREFUSED'])
    await away.end()
  })

  it('responds with 503 if a pool or a pooler has no free connection', async () => {
    for (const error of [
      new Error(
        'Knex: Timeout acquiring a connection. The pool is probably full. Are you missing a .transacting(trx) call?',
      ),
      new Error('timeout exceeded when trying to connect'),
      Object.assign(new Error('Timed out fetching a new connection from the connection pool.'), { code: 'P2024' }),
      Object.assign(new Error('query_wait_timeout'), { code: '08P01', severity: 'FATAL' }),
      Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }),
      Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' }),
    ]) {
      const { status, errors } = await send(async () => {
        throw error
      })
      assert.equal(status, 503, String(error))
      assert.match((errors[0] as Error).message, /^The transaction has lost a connection, or has not got one: ./)
    }
  })

  for (const [code, text, values] of [
    ['08P01', 'SELECT $1::text', ['one', 'too many']],
    ['57014', 'SET LOCAL statement_timeout = 10; SELECT pg_sleep(60)', undefined],
    ['23505', "INSERT INTO invoices (id) VALUES ('twice'), ('twice')", undefined],
    ['42703', 'SELECT missing', undefined],
    ['40001', "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$", undefined],
    ['40P01', "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$", undefined],
  ] as const) {
    it(`responds with 500 to ${code}, which is not a lost connection`, async (t) => {
      const client = await pool.connect()
      const query = client.query.bind(client) as (text: string, values?: readonly unknown[]) => Promise<unknown>
      t.mock.method(client, 'query', (sql: string, given?: unknown[]) =>
        sql.startsWith('INSERT INTO invoices') ? query(text, values) : query(sql, given),
      )
      const { status, errors } = await send(async () => client)
      assert.deepEqual([status, (errors as { code?: string }[]).map((error) => error.code)], [500, [code]])
    })
  }

  it('keeps one task for a key if the connection is lost after COMMIT, and the retry gets it', async (t) => {
    const client = await pool.connect()
    const connect = async () => client
    const query = client.query.bind(client) as (...given: unknown[]) => Promise<unknown>
    t.mock.method(client, 'query', (text: string, ...rest: unknown[]) => {
      const result = query(text, ...rest)
      if (text !== 'COMMIT') return result
      return result.then(() => { throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }) })
    })
    let calls = 0
    const post = () =>
      inject(
        guard(
          createWithPg({
            connect: async () => {
              calls++
              return connect()
            },
          }),
          { onError: () => undefined },
        ),
        {
          method: 'POST',
          path: '/',
          body: { id: 'unknown', amount: 5 },
          context: { user: { id: 'ann' } },
          headers: { 'prefer': 'respond-async', 'idempotency-key': 'unknown' },
        },
      )
    const [first, second] = [await post(), await post()]
    assert.deepEqual([first.status, second.status, calls], [503, 202, 1])
    const { rows } = await pool.query<{ task: string }>("SELECT task FROM invoices WHERE id = 'unknown'")
    assert.deepEqual([second.headers['location']], rows.map(({ task }) => `/tasks/${task}`))
  })

  it('keeps an error of the application and its status', async () => {
    for (const [error, expected] of [
      [new Error('A fault'), 500], [Object.assign(new Error('taken'), { code: '23505' }), 500],
      [httpError('conflict', { message: 'Taken.' }), 409],
      [Object.assign(new Error('wrapped'), { cause: Object.assign(new Error('down'), { code: '57P03' }) }), 503],
    ] as const) {
      assert.equal((await send(async () => { throw error })).status, expected, String(error))
    }
  })
})

it('an endpoint writes the row and submits the task in one transaction, and does so once for a key', async () => {
  const send = () =>
    inject(createInvoice, {
      method: 'POST',
      path: '/',
      body: { id: 'posted', amount: 5 },
      headers: { 'prefer': 'respond-async', 'idempotency-key': 'k1' },
    })
  const [first, second] = [await send(), await send()]
  assert.deepEqual([first.status, second.status], [202, 202])
  const { rows } = await pool.query<{ task: string }>("SELECT task FROM invoices WHERE id = 'posted'")
  assert.deepEqual(
    [first.headers['location'], second.headers['location']],
    Array(2).fill(`/tasks/${rows[0]?.task ?? ''}`),
  )
})

for (const [title, create] of Object.entries(recipes)) {
  describe(`a task in a transaction: ${title}`, () => {
    const id = title.toLowerCase()

    it('commits with the row', async () => {
      const task = await create({ id, amount: 5 })
      const { rows } = await pool.query('SELECT amount, task FROM invoices WHERE id = $1', [id])
      assert.deepEqual(rows, [{ amount: 5, task: task.taskId }])
      const end = await task.wait({ timeoutMs: 5000 })
      assert.deepEqual(end?.status === 'completed' && end.result, { message: `sent ${id}` })
    })

    it('rolls back with the row', async () => {
      const taken = `${id}-taken`
      await pool.query('INSERT INTO invoices (id) VALUES ($1)', [taken])
      await assert.rejects(create({ id: taken, amount: 5 }))
      const { rows } = await pool.query<{ n: string }>(
        'SELECT count(*) AS n FROM longhaul.task_rows WHERE input LIKE $1',
        [`%${taken}%`],
      )
      assert.equal(rows[0]?.n, '0')
    })

    it('keeps a value with $1, ? and quotes', async () => {
      const odd = `${id} $1 ? \\? :name 'quoted' "double"`
      const task = await create({ id: odd, amount: 5 })
      const end = await task.wait({ timeoutMs: 5000 })
      assert.deepEqual(end?.status === 'completed' && end.result, { message: `sent ${odd}` })
    })
  })
}

it('a transaction object of Drizzle, Kysely or Knex is rejected by the types, and at run time', async () => {
  await db.transaction(async (tx) => {
    // @ts-expect-error `query` of Drizzle is no function
    await assert.rejects(tasks.submit(invoice, { id: 'x', amount: 1 }, { transaction: tx }), { name: 'TypeError' })
  })
  await kysely.transaction().execute(async (trx) => {
    // @ts-expect-error Kysely has no `query`
    await assert.rejects(tasks.submit(invoice, { id: 'x', amount: 1 }, { transaction: trx }), { name: 'TypeError' })
  })
  await knex.transaction(async (trx) => {
    await assert.rejects(tasks.submit(invoice, { id: 'x', amount: 1 }, { transaction: trx as never }), {
      name: 'TypeError',
    })
  })
  await assert.rejects(tasks.submit(invoice, { id: 'x', amount: 1 }, { transaction: fromKysely(kysely) }), {
    name: 'TypeError',
    message: /not open/,
  })
})
