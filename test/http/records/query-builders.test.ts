// What Knex, Kysely, Drizzle and pg return for a record of a real PostgreSQL, beside the contract of repositories.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { eq } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import createKnex from 'knex'
import { Kysely, PostgresDialect } from 'kysely'
import { bulkCreate, bulkUpdate } from 'longhaul/bulk'
import { collection } from 'longhaul/resources'
import { jsonSchema } from 'longhaul'
import { inject } from 'longhaul/testing'
import pg from 'pg'
import { postgresUrl } from '../../servers/postgres-url.js'

interface Book { readonly id: number, readonly title: string }

const connectionString = await postgresUrl()
const pool = new pg.Pool({ connectionString })
await pool.query(
  "CREATE TABLE books (id int PRIMARY KEY, title text NOT NULL); INSERT INTO books VALUES (1, 'One'), (2, 'Two')",
)
const knex = createKnex({ client: 'pg', connection: connectionString })
const kysely = new Kysely<{ books: Book }>({ dialect: new PostgresDialect({ pool }) })
const orm = drizzle(pool)
const books = pgTable('books', { id: integer().primaryKey(), title: text().notNull() })

type Change = { readonly title: string }
type Code = string | number | undefined

/** Codes of the items of an update of book 1, and of book 9, which does not exist. */
async function update(run: (id: number, change: Change) => unknown): Promise<Code[]> {
  const handler = bulkUpdate<Book, Change, number>({
    repository: { update: async (id, change) => await run(id, change) as Book },
    id: ({ id }) => id, change: ({ title }) => ({ title }), onError: () => undefined,
  })
  const response = await inject(handler, {
    method: 'PATCH',
    path: '/',
    body: {
      updates: [
        { id: 1, title: 'A' },
        { id: 9, title: 'B' },
      ],
    },
  })
  const { items } = await response.json<{ items: { status: number, error?: { code: string } }[] }>()
  return items.map(({ status, error }) => error?.code ?? status)
}

describe('query builders', () => {
  // Before the database is dropped.
  after(() => Promise.all([pool.end(), knex.destroy()]))

  describe('an update', () => {
    const UNKNOWN = ['write_outcome_unknown', 'write_outcome_unknown']
    const KNOWN = [200, 'not_found']
    test('with Knex that returns a number of rows is not a success', async () => {
      assert.deepEqual(await update((id, change) => knex('books').where({ id }).update(change)), UNKNOWN)
    })
    test('with Knex and returning has the record as the first element of its list', async () => {
      const run = (id: number, change: Change) => knex('books').where({ id }).update(change).returning('*')
      assert.deepEqual(await update(run), UNKNOWN)
      assert.deepEqual(await update(async (id, change) => ((await run(id, change)) as unknown[])[0]), KNOWN)
    })
    test('with Kysely has its record from executeTakeFirst and returning, but not from the result of the statement', async () => {
      const run = (id: number, change: Change) => kysely.updateTable('books').set(change).where('id', '=', id)
      assert.deepEqual(await update((id, change) => run(id, change).executeTakeFirst()), UNKNOWN)
      assert.deepEqual(await update((id, change) => run(id, change).execute()), UNKNOWN)
      assert.deepEqual(await update((id, change) => run(id, change).returningAll().executeTakeFirst()), KNOWN)
    })
    test('with Drizzle has its record only as the first element of returning', async () => {
      const run = (id: number, change: Change) => orm.update(books).set(change).where(eq(books.id, id))
      assert.deepEqual(await update((id, change) => run(id, change)), UNKNOWN)
      assert.deepEqual(await update((id, change) => run(id, change).returning()), UNKNOWN)
      assert.deepEqual(await update(async (id, change) => (await run(id, change).returning()).at(0) ?? null), KNOWN)
    })
    test('with pg has no record, because the result contains its rows', async () => {
      const run = (id: number, { title }: Change) =>
        pool.query<Book>('UPDATE books SET title = $2 WHERE id = $1 RETURNING *', [id, title])
      assert.deepEqual(await update(run), UNKNOWN)
      assert.deepEqual(await update(async (id, change) => (await run(id, change)).rows[0] ?? null), KNOWN)
    })
  })

  test('createMany may return the settled inserts, where a duplicate is a failure of its own item', async () => {
    const errors: unknown[] = []
    const handler = bulkCreate<Book, Book>({
      repository: {
        createMany: (drafts) => Promise.allSettled(drafts.map((draft) => (
          kysely.insertInto('books').values(draft).returningAll().executeTakeFirstOrThrow()
        ))),
      },
      onError: (error) => errors.push(error),
    })
    const response = await inject(handler, {
      method: 'POST',
      path: '/',
      body: [
        { id: 3, title: 'Three' },
        { id: 1, title: 'One' },
      ],
    })
    const { items } = await response.json<{ items: { status: number, id?: number, error?: { code: string } }[] }>()
    assert.deepEqual(
      items.map(({ status, id, error }) => [status, id ?? error?.code]),
      [
        [201, 3],
        [500, 'internal_error'],
      ],
    )
    assert.match(String(errors[0]), /duplicate key/)
  })

  describe('a collection', () => {
    const repository = {
      get: async (id: number) => (await pool.query<Book>('SELECT * FROM books WHERE id = $1', [id])).rows[0] ?? null,
      delete: async (id: number) => (await orm.delete(books).where(eq(books.id, id)).returning()).at(0) ?? null,
    }
    const id = { parse: Number, of: (book: Book) => book.id }
    const schema = jsonSchema<Book>({ type: 'object' })
    const statusOf = async (method: string, path: string, repository: object): Promise<number> => (
      (await inject(collection<Book, Book, Partial<Book>, number>({ repository, schema, id }), { method, path })).status
    )
    test('responds with 404 for a record that is null', async () => {
      assert.deepEqual([await statusOf('GET', '/2', repository), await statusOf('GET', '/9', repository)], [200, 404])
    })
    test('takes a deleted record or null from delete, and rejects a number of rows', async () => {
      assert.deepEqual(
        [await statusOf('DELETE', '/2', repository), await statusOf('DELETE', '/2', repository)],
        [204, 404],
      )
      const counting = { ...repository, delete: (id: number) => knex('books').where({ id }).delete() }
      assert.equal(await statusOf('DELETE', '/9', counting), 500)
    })
  })
})
