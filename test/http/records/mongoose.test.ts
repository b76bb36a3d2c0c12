// What Mongoose returns for a record, beside the contract of repositories. See
// test/servers/mongo-server.ts for its server.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import mongoose from 'mongoose'
import { jsonSchema } from 'longhaul'
import { bulkCreate, bulkUpdate } from 'longhaul/bulk'
import { ndjsonUpload, type WriteOutcome } from 'longhaul/ndjson'
import { collection } from 'longhaul/resources'
import { inject } from 'longhaul/testing'
import { startMongo } from '../../servers/mongo-server.js'

interface User { readonly _id: number, readonly name: string }

const server = await startMongo()
const connection = await mongoose
  .createConnection(server.url, { serverApi: '1', autoIndex: false, autoCreate: false })
  .asPromise()
const Users = connection.model<User>(
  'User',
  new mongoose.Schema({ _id: Number, name: { type: String, required: true } }),
)
after(async () => {
  await connection.close()
  await server.close()
})

interface Item { readonly status: number, readonly id?: number, readonly error?: { readonly code: string } }
const shown = (items: readonly Item[]): unknown[] => items.map(({ status, id, error }) => [status, error?.code ?? id])

interface Results { readonly results: (User | Error)[] }

/** Inserts all that is valid. Returns a document or an error for each record, in order. */
async function insertMany(drafts: readonly User[]): Promise<(User | Error)[]> {
  try {
    const result = await Users.insertMany([...drafts], { ordered: false, rawResult: true })
    return (result.mongoose as unknown as Results).results
  } catch (error) {
    // Mongoose adds them to the error if the database has rejected a document.
    return (error as Results).results
  }
}

describe('insertMany of Mongoose with ordered: false', () => {
  test('shows failures of the schema and of the database in the items of a bulk create', async () => {
    await Users.create({ _id: 1, name: 'Ann' })
    const errors: unknown[] = []
    const handler = bulkCreate<User, User>({
      repository: { createMany: insertMany },
      id: ({ _id }) => _id,
      onError: (error) => errors.push(error),
    })
    const response = await inject(handler, {
      method: 'POST',
      path: '/',
      body: [{ _id: 2, name: 'Bea' }, { _id: 3 }, { _id: 1, name: 'Again' }, { _id: 4, name: 'Cy' }],
    })
    const { items } = await response.json<{ items: Item[] }>()
    assert.deepEqual(shown(items), [[201, 2], [500, 'internal_error'], [500, 'internal_error'], [201, 4]])
    assert.equal(errors.length, 2)
    assert.ok(errors.some((error) => error instanceof mongoose.Error.ValidationError))
  })
  test('shows failures of the schema and of the database in the lines of an upload', async () => {
    let errors = 0
    const upload = ndjsonUpload<User>({
      write: async (users) => (await insertMany(users)) as WriteOutcome[],
      onError: () => errors++,
    })
    const body = [{ _id: 5, name: 'Dan' }, { _id: 6 }, { _id: 1, name: 'Again' }]
      .map((user) => `${JSON.stringify(user)}\n`)
      .join('')
    const response = await inject(upload, {
      method: 'POST',
      path: '/',
      body,
      headers: { 'content-type': 'application/x-ndjson' },
    })
    const { summary, items } = await response.json<{ summary: object, items: Item[] }>()
    assert.deepEqual(
      [summary, shown(items), errors],
      [
        { total: 3, succeeded: 1, failed: 2 },
        [
          [500, 'internal_error'],
          [500, 'internal_error'],
        ],
        2,
      ],
    )
  })
  test('returns only the inserted documents without rawResult, and their number is not a list of outcomes', async () => {
    const handler = bulkCreate<User, User>({
      repository: { createMany: (drafts) => Users.insertMany([...drafts], { ordered: false }) },
      onError: () => undefined,
    })
    const response = await inject(handler, { method: 'POST', path: '/', body: [{ _id: 7, name: 'Eve' }, { _id: 8 }] })
    const { items } = await response.json<{ items: Item[] }>()
    assert.deepEqual(
      shown(items).map((each) => (each as unknown[])[1]),
      ['write_outcome_unknown', 'write_outcome_unknown'],
    )
  })
})

test('Promise.allSettled over documents shows failures in the items', async () => {
  const handler = bulkCreate<User, User>({
    repository: { createMany: (drafts) => Promise.allSettled(drafts.map((draft) => new Users(draft).save())) },
    id: ({ _id }) => _id, onError: () => undefined,
  })
  const response = await inject(handler, {
    method: 'POST',
    path: '/',
    body: [{ _id: 9, name: 'Fay' }, { _id: 10 }, { _id: 1, name: 'Again' }],
  })
  assert.deepEqual(shown((await response.json<{ items: Item[] }>()).items), [
    [201, 9],
    [500, 'internal_error'],
    [500, 'internal_error'],
  ])
})

test('a null of findByIdAndUpdate means that the record does not exist, and the result of updateOne is not a record', async () => {
  const updateWith = async (update: (id: number, name: string) => Promise<object | null>): Promise<unknown[]> => {
    const handler = bulkUpdate<User, string, number>({
      repository: { update },
      id: ({ _id }) => _id,
      change: ({ name }) => name,
      onError: () => undefined,
    })
    const response = await inject(handler, {
      method: 'PATCH',
      path: '/',
      body: {
        updates: [
          { _id: 1, name: 'Anna' },
          { _id: 99, name: 'Nobody' },
        ],
      },
    })
    return shown((await response.json<{ items: Item[] }>()).items)
  }
  assert.deepEqual(
    await updateWith((id, name) => Users.findByIdAndUpdate(id, { name }, { returnDocument: 'after' }).exec()),
    [
      [200, 1],
      [404, 'not_found'],
    ],
  )
  assert.deepEqual(await updateWith((id, name) => Users.updateOne({ _id: id }, { name }).exec()), [
    [500, 'write_outcome_unknown'],
    [500, 'write_outcome_unknown'],
  ])
})

test('a collection responds with 404 where findById, findByIdAndUpdate and findByIdAndDelete return null', async () => {
  const users = collection<User, Omit<User, '_id'>, Partial<User>, number>({
    repository: {
      get: (id) => Users.findById(id).lean().exec(),
      update: (id, change) => Users.findByIdAndUpdate(id, change, { returnDocument: 'after' }).lean().exec(),
      delete: (id) => Users.findByIdAndDelete(id).lean().exec(),
    },
    id: { parse: Number, of: ({ _id }) => _id },
    schema: jsonSchema({ type: 'object' }), changeSchema: jsonSchema({ type: 'object' }),
  })
  const statusOf = async (method: string, path: string): Promise<number> => (
    (await inject(users, { method, path, ...method === 'PATCH' && { body: { name: 'X' } } })).status
  )
  for (const method of ['GET', 'PATCH', 'DELETE']) assert.equal(await statusOf(method, '/99'), 404, method)
  assert.deepEqual(
    [
      await statusOf('GET', '/1'),
      await statusOf('PATCH', '/1'),
      await statusOf('DELETE', '/1'),
      await statusOf('GET', '/1'),
    ],
    [200, 200, 204, 404],
  )
})
