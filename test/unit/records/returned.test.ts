// One contract for what a repository or a write returns for a record, in all places that read it.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { runInNewContext } from 'node:vm'
import { DeleteResult, UpdateResult } from 'kysely'
import { bulkCreate } from '../../../src/bulk/create.js'
import { bulkUpdate } from '../../../src/bulk/update.js'
import { httpError } from '../../../src/http/errors.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { collection } from '../../../src/resources/collection.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { ask as askBulk } from '../kit/bulk.js'
import { ask } from '../resources/ask.js'

type Outcome = 'written' | 'failed' | 'none' | 'rejected' | 'unknown'

class Taken extends Error {
  readonly status = 409
}

class Entity {
  constructor(readonly id: number) {}
}

const record = { id: 7, status: 'fulfilled', value: 1 }

/** Values that a repository may return for a record, and their meaning. */
const VALUES: readonly (readonly [name: string, value: unknown, outcome: Outcome])[] = [
  ['a record', { id: 7 }, 'written'],
  ['a record with the properties status and value', record, 'written'],
  ['a record whose status is a number', { id: 7, name: 'Ann', status: 1 }, 'written'],
  ['an id with a status that is none of HTTP', { id: 7, status: 0 }, 'written'],
  ['a record with an error', { id: 7, status: 'failed', error: 'timeout', reason: 'late' }, 'written'],
  ['a frozen record with a count', Object.freeze({ id: 7, count: 1, success: false }), 'written'],
  ['a record with an error message of a database', { id: 7, errmsg: 'E11000', code: 11000 }, 'written'],
  ['a record without prototype', Object.assign(Object.create(null) as object, { id: 7 }), 'written'],
  ['an instance of a class', new Entity(7), 'written'],
  ['a proxy of a record', new Proxy({ id: 7 }, {}), 'written'],
  ['a record of another realm', runInNewContext('({ id: 7 })'), 'written'],
  ['a fulfilled result', { status: 'fulfilled', value: { id: 7 } }, 'written'],
  ['undefined', undefined, 'none'],
  ['null', null, 'none'],
  ['a fulfilled result without a record', { status: 'fulfilled', value: null }, 'none'],
  ['an Error', new Error('E11000 duplicate key'), 'failed'],
  ['an Error with a status', new Taken('taken'), 'failed'],
  ['an Error of another realm', runInNewContext('new TypeError("other realm")'), 'failed'],
  ['a DOMException', new DOMException('quota'), 'failed'],
  ['an AggregateError', new AggregateError([], 'many'), 'failed'],
  ['a proxy of an Error', new Proxy(new Error('proxied'), {}), 'failed'],
  ['a rejected result', { status: 'rejected', reason: new Error('reason') }, 'failed'],
  ['a rejected result whose reason is text', { status: 'rejected', reason: 'text' }, 'failed'],
  ['a rejected result without a reason', { status: 'rejected', reason: undefined }, 'failed'],
  ['a fulfilled result of an Error', { status: 'fulfilled', value: new Error('value') }, 'failed'],
  ['a WriteError of MongoDB', { code: 11000, index: 0, errmsg: 'E11000 duplicate key error', op: {} }, 'failed'],
  [
    'a WriteError as Mongoose 8 copies it',
    { err: { code: 11000, index: 1, errmsg: 'E11000 duplicate key error' }, index: 1 },
    'failed',
  ],
  [
    'a rejected result of p-settle',
    { status: 'rejected', reason: new Error('reason'), isFulfilled: false, isRejected: true },
    'failed',
  ],
  ['an HttpError', httpError('conflict'), 'rejected'],
  ['a rejected result of an HttpError', { status: 'rejected', reason: httpError('conflict') }, 'rejected'],
  ['a number of rows', 1, 'unknown'],
  ['no rows', 0, 'unknown'],
  ['true', true, 'unknown'],
  ['text', 'ok', 'unknown'],
  ['a symbol', Symbol('ok'), 'unknown'],
  ['a bigint', 1n, 'unknown'],
  ['a function', () => undefined, 'unknown'],
  ['an array', [{ id: 7 }], 'unknown'],
  ['an empty array', [], 'unknown'],
  ['a Map', new Map([['id', 7]]), 'unknown'],
  ['bytes', Buffer.from('x'), 'unknown'],
  ['a date', new Date(0), 'unknown'],
  ['a boxed number', Object(1), 'unknown'],
  [
    'the result of a MongoDB update',
    { acknowledged: true, matchedCount: 0, modifiedCount: 0, upsertedId: null, upsertedCount: 0 },
    'unknown',
  ],
  ['the result of a Prisma updateMany', { count: 0 }, 'unknown'],
  [
    'the result of mysql2',
    { fieldCount: 0, affectedRows: 0, insertId: 0, info: '', serverStatus: 2, warningStatus: 0 },
    'unknown',
  ],
  ['the result of better-sqlite3', { changes: 0, lastInsertRowid: 0 }, 'unknown'],
  ['the result of a TypeORM update', { generatedMaps: [], raw: [], affected: 0 }, 'unknown'],
  [
    'the result of Supabase',
    { data: null, error: { code: '23505' }, count: null, status: 409, statusText: 'Conflict' },
    'unknown',
  ],
  ['the result of mssql', { recordsets: [], recordset: undefined, output: {}, rowsAffected: [0] }, 'unknown'],
  ['the result of oracledb', { lastRowid: 'AAA', rowsAffected: 1 }, 'unknown'],
  [
    'the result of PlanetScale',
    {
      headers: [],
      types: {},
      fields: [],
      rows: [],
      rowsAffected: 0,
      insertId: '0',
      size: 0,
      statement: 'UPDATE',
      time: 1,
    },
    'unknown',
  ],
  [
    'the result of pg-promise',
    { command: 'UPDATE', rowCount: 0, oid: null, rows: [], fields: [], rowAsArray: false, duration: 3 },
    'unknown',
  ],
  ['the result of MikroORM', { affectedRows: 0, insertId: 0, row: undefined, rows: [], insertedIds: [] }, 'unknown'],
  ['the result of a Kysely delete', new DeleteResult(0n), 'unknown'],
  ['the result of a Kysely update', new UpdateResult(0n, undefined), 'unknown'],
  ['the result of a MongoDB delete', { acknowledged: true, deletedCount: 0 }, 'unknown'],
  ['an output of the AWS SDK', { $metadata: { httpStatusCode: 200 }, Attributes: undefined }, 'unknown'],
  [
    'the result of Azure Cosmos DB',
    { statusCode: 409, requestCharge: 1.2, eTag: undefined, resourceBody: undefined },
    'unknown',
  ],
  [
    'an item of a bulk request of Elasticsearch',
    { create: { _index: 'users', _id: '1', status: 409, error: { type: 'version_conflict' } } },
    'unknown',
  ],
  ['a response of GraphQL', { data: null, errors: [{ message: 'denied' }] }, 'unknown'],
  ['a Left of fp-ts', { _tag: 'Left', left: new Error('x') }, 'unknown'],
  ['an object with an error alone', { error: 'duplicate' }, 'unknown'],
]

const each = (body: (name: string, value: () => unknown, outcome: Outcome) => void): void => {
  for (const [name, value, outcome] of VALUES) body(name, () => value, outcome)
}
const withPromise = (body: (name: string, value: () => unknown, outcome: Outcome) => void): void => {
  each(body)
  body('a promise that is not awaited', () => Promise.reject(new Error('later')), 'unknown')
  body('a thenable', () => ({ then: () => undefined }), 'unknown')
}

describe('createMany returns', () => {
  withPromise((name, value, outcome) => {
    test(`${name}, which means ${outcome === 'none' ? 'unknown' : outcome}`, async () => {
      const errors: unknown[] = []
      const handler = bulkCreate({
        repository: { createMany: () => [{ id: 1 }, value()] as object[] }, onError: (error) => errors.push(error),
      })
      const { status, json } = await askBulk(handler, { body: [{}, {}] })
      const items = json.items.map(({ status, error }) => error?.code ?? status)
      assert.deepEqual([status, items, errors.length], {
        written: [201, [201, 201], 0],
        failed: [207, [201, 'internal_error'], 1],
        rejected: [207, [201, 'conflict'], 0],
        none: [500, ['write_outcome_unknown', 'write_outcome_unknown'], 1],
        unknown: [500, ['write_outcome_unknown', 'write_outcome_unknown'], 1],
      }[outcome])
    })
  })
  test('an array with a hole, which means unknown', async () => {
    const outcomes: object[] = [{ id: 1 }]
    outcomes.length = 2
    const handler = bulkCreate({ repository: { createMany: () => outcomes }, onError: () => undefined })
    const { json } = await askBulk(handler, { body: [{}, {}] })
    assert.equal(json.summary.succeeded, 0)
  })
  for (const returned of [
    undefined,
    null,
    2,
    { acknowledged: true, insertedCount: 2, insertedIds: {} },
    'ok!',
    new Set([1, 2]),
  ]) {
    test(`${typeof returned} instead of an array, which means unknown`, async () => {
      const handler = bulkCreate({
        repository: { createMany: () => returned as unknown as object[] },
        onError: () => undefined,
      })
      const { json } = await askBulk(handler, { body: [{}, {}] })
      assert.equal(json.items[0]?.error?.code, 'write_outcome_unknown')
    })
  }
})

for (const atomic of [false, true]) {
  for (const method of ['update', 'updateMany'] as const) {
    describe(`${method} of ${atomic ? 'an atomic' : 'a'} bulk update returns`, () => {
      each((name, value, outcome) => {
        test(`${name}, which means ${outcome}`, async () => {
          const inside = { [method]: () => (method === 'update' ? value() : [value()]) } as object
          let end = 'none'
          const transaction = async <R>(work: (inside: object) => Promise<R>): Promise<R> => {
            try {
              const result = await work(inside)
              end = 'commit'
              return result
            } catch (error) {
              end = 'rollback'
              throw error
            }
          }
          const handler = bulkUpdate<{ id: number }, object, number>({
            repository: { ...inside, ...atomic && { transaction } },
            id: ({ id }) => id, change: () => ({}), onError: () => undefined,
          })
          const { json } = await askBulk(handler, { method: 'PATCH', body: { updates: [{ id: 7 }] } })
          const [item] = json.items
          const masked = atomic ? 'not_applied' : 'write_outcome_unknown'
          assert.equal(item?.error?.code ?? item?.status, {
            written: 200, failed: 'internal_error', rejected: 'conflict', none: 'not_found',
            unknown: atomic && method === 'update' ? 'internal_error' : masked,
          }[outcome])
          if (atomic) assert.equal(end, outcome === 'written' ? 'commit' : 'rollback')
        })
      })
    })
  }
}

describe('write of an upload returns', () => {
  const upload = async (returned: unknown): Promise<[summary: object, code: string | undefined, errors: number]> => {
    let errors = 0
    const handler = ndjsonUpload({ write: () => returned as undefined, onError: () => errors++ })
    const { json } = await askBulk(handler, { headers: { 'content-type': 'application/x-ndjson' }, body: '{}\n' })
    return [json.summary, json.code ?? json.items[0]?.error?.code, errors]
  }
  withPromise((name, value, outcome) => {
    test(`${name} in a list, which means ${outcome === 'none' ? 'written' : outcome}`, async () => {
      const [summary, code, errors] = await upload([value()])
      assert.deepEqual([summary, code, errors], {
        written: [{ total: 1, succeeded: 1, failed: 0 }, undefined, 0],
        none: [{ total: 1, succeeded: 1, failed: 0 }, undefined, 0],
        failed: [{ total: 1, succeeded: 0, failed: 1 }, 'internal_error', 1],
        rejected: [{ total: 1, succeeded: 0, failed: 1 }, 'conflict', 0],
        unknown: [undefined, 'internal_error', 0],
      }[outcome])
    })
  })
  for (const returned of [undefined, null]) {
    test(`${String(returned)}, which means that all are written`, async () => {
      assert.deepEqual(await upload(returned), [{ total: 1, succeeded: 1, failed: 0 }, undefined, 0])
    })
  }
  const UNKNOWN = [
    1,
    true,
    {},
    [],
    [1, 2],
    [{ status: 409 }],
    [{ id: 1, status: 409, message: 'duplicate' }],
    [{ id: 1, status: 409, error: 'duplicate', at: 1 }],
    [{ id: 1, error: { text: 'x' }, at: 1 }],
    [{ status: 200, id: {} }],
    [{ id: 1, error: 'text' }],
    [{ error: { code: 1 } }],
    [{ status: 200, error: { code: 'x', message: 'y' } }],
  ]
  for (const returned of UNKNOWN) {
    test(`${JSON.stringify(returned)}, which means unknown`, async () => {
      const [summary, code] = await upload(returned)
      assert.deepEqual([summary, code], [undefined, 'internal_error'])
    })
  }
  test('an outcome whose error is an Error, which means failed', async () => {
    assert.deepEqual(await upload([{ id: 1, error: new Error('x') }]), [
      { total: 1, succeeded: 0, failed: 1 },
      'internal_error',
      1,
    ])
  })
})

describe('a method of a collection returns', () => {
  const METHODS = {
    create: ['POST', '/', 201],
    get: ['GET', '/7', 200],
    update: ['PATCH', '/7', 200],
    delete: ['DELETE', '/7', 204],
    replace: ['PUT', '/7', 200],
  } as const
  const schema = jsonSchema<object>({ type: 'object' })
  for (const [method, [verb, target, status]] of Object.entries(METHODS)) {
    each((name, value, outcome) => {
      const isFlag = method === 'delete' && name === 'true'
      const isNone = outcome === 'none' && method !== 'create' && method !== 'replace'
      const expected = isFlag
        ? 204
        : { written: status, failed: 500, rejected: 409, unknown: 500, none: isNone ? 404 : 500 }[outcome]
      test(`${name} from ${method}, which gets ${expected}`, async () => {
        const returned = method === 'replace' ? { item: value(), created: false } : value()
        const repository = { get: () => ({ id: 7 }), [method]: () => returned } as object
        const handler = collection({ repository, schema, changeSchema: schema })
        const answer = await ask(handler, verb, target, verb === 'GET' || verb === 'DELETE' ? {} : { body: {} })
        assert.equal(answer.status, expected)
      })
    })
  }
  test('a record without its id from delete, which gets a 204', async () => {
    const handler = collection({
      repository: { get: () => undefined, delete: () => Object.assign(new Entity(7), { id: undefined }) },
      schema,
    })
    assert.equal((await ask(handler, 'DELETE', '/7')).status, 204)
  })
  test('a record without id, which gets a 500', async () => {
    const handler = collection({ repository: { get: () => ({ _id: 7 }) }, schema })
    assert.equal((await ask(handler, 'GET', '/7')).status, 500)
  })
  for (const returned of [undefined, null, 1, { item: { id: 7 } }, { id: 7 }]) {
    test(`${JSON.stringify(returned)} from replace, which gets a 500`, async () => {
      const handler = collection({ repository: { get: () => ({ id: 7 }), replace: () => returned as never }, schema })
      assert.equal((await ask(handler, 'PUT', '/7', { body: {} })).status, 500)
    })
  }
  test('null from get in a transaction, which gets a 404 for a conditional change', async () => {
    const inside = { get: () => null, update: () => ({ id: 7 }) }
    const handler = collection({
      repository: { ...inside, transaction: (work: (inside: never) => Promise<never>) => work(inside as never) },
      schema,
      changeSchema: schema,
    })
    assert.equal((await ask(handler, 'PATCH', '/7', { body: {}, headers: { 'if-match': '*' } })).status, 404)
  })
  test('an Error from update in a transaction, which is rolled back', async () => {
    let isRolledBack = false
    const inside = { get: () => ({ id: 7 }), update: () => new Error('stale') as never }
    const transaction = async (work: (inside: never) => Promise<never>) => {
      try {
        return await work(inside as never)
      } catch (error) {
        isRolledBack = true
        throw error
      }
    }
    const handler = collection({ repository: { ...inside, transaction }, schema, changeSchema: schema })
    assert.deepEqual(
      [(await ask(handler, 'PATCH', '/7', { body: {}, headers: { 'if-match': '*' } })).status, isRolledBack],
      [500, true],
    )
  })
  test('another value than the work of its transaction, and the response still has the record', async () => {
    const inside = { get: () => ({ id: 7 }), update: () => ({ id: 7 }) }
    const transaction = async (work: (inside: never) => Promise<never>) => {
      await work(inside as never)
    }
    const handler = collection({
      repository: { ...inside, transaction: transaction as never },
      schema,
      changeSchema: schema,
    })
    assert.equal((await ask(handler, 'PATCH', '/7', { body: {}, headers: { 'if-match': '*' } })).status, 200)
  })
  test('from a transaction that does not run its work, which gets a 500', async () => {
    const repository = { get: () => ({ id: 7 }), delete: () => true, transaction: async () => undefined as never }
    const handler = collection({ repository, schema })
    assert.equal((await ask(handler, 'DELETE', '/7', { headers: { 'if-match': '*' } })).status, 500)
  })
})

describe('list of a collection returns', () => {
  const page = async (returned: unknown): Promise<number> =>
    (
      await ask(
        collection({ repository: { list: () => returned as never }, schema: jsonSchema<object>({}) }),
        'GET',
        '/',
      )
    ).status
  test('null instead of a total and a cursor, which makes a page', async () => {
    assert.equal(await page({ items: [{ id: 1 }], total: null, next: null }), 200)
  })
  test('rows of a GROUP BY, which make a page', async () => {
    const items = [{ value: 'red', count: 5 }, { status: 'open', count: 2 }, { message: 'late', count: 1 }]
    assert.equal(await page({ items }), 200)
  })
  test('records of a log of failures, which make a page although they look like failed outcomes', async () => {
    assert.equal(
      await page({
        items: [
          { errmsg: 'E11000', code: 11000, at: 1 },
          { status: 'rejected', reason: 'late', at: 1 },
        ],
      }),
      200,
    )
  })
  for (const [name, returned] of Object.entries({
    'null': null,
    'an array': [{ id: 1 }],
    'a missing record': { items: [null] },
    'an Error as a record': { items: [new Error('row')] },
    'a promise as a record': { items: [Promise.resolve({})] },
    'a total as text': { items: [], total: '12' },
    'a negative total': { items: [], total: -1 },
    'a cursor that is a number': { items: [], next: 7 },
  })) {
    test(`${name}, which gets a 500`, async () => {
      assert.equal(await page(returned), 500)
    })
  }
})
