// Arrays anywhere in the body of a bulk request: the option `items`.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { bulkCreate, type BulkCreateOptions } from '../../../src/bulk/create.js'
import { bulkUpdate } from '../../../src/bulk/update.js'
import { ask, draft, people, person, statuses, Users, type Draft, type User } from '../kit/bulk.js'

type Options = Partial<Omit<BulkCreateOptions<User, Draft>, 'background'>>
const handlerOf = (users: Users, options: Options) => (
  bulkCreate<User, Draft>({ repository: users, schema: draft, onError: () => undefined, ...options })
)
/** Reads the same body as a whole, and as a stream. */
const BOTH = [1_048_576, 0]

describe('the array of a bulk request', () => {
  test('may be at any place, and the pointers of its errors begin at the root of the body', async () => {
    for (const streamAboveBytes of BOTH) {
      const users = new Users()
      const handler = handlerOf(users, { items: '/data/users', streamAboveBytes })
      const answer = await ask(handler, { body: { data: { users: [person(0), { name: 'x' }, person(1)] } } })
      assert.deepEqual(statuses(answer), [201, 400, 201])
      assert.deepEqual(answer.json.items[1]?.error?.details, [
        { pointer: '/data/users/1/email', message: 'is required' },
      ])
      assert.equal(users.users.size, 2)
    }
  })

  test('may be in an element of an array, or below a property that is a number', async () => {
    for (const streamAboveBytes of BOTH) {
      for (const body of [{ batches: [{ users: people(2) }] }, { batches: { 0: { users: people(2) } } }]) {
        const answer = await ask(handlerOf(new Users(), { items: '/batches/0/users', streamAboveBytes }), { body })
        assert.equal(answer.status, 201)
      }
      const escaped = handlerOf(new Users(), { items: '/a~1b/m~0n', streamAboveBytes })
      assert.equal((await ask(escaped, { body: { 'a/b': { 'm~n': people(1) } } })).status, 201)
    }
  })

  test('may be elsewhere than at /updates in an update', async () => {
    const users = new Users(2)
    const update = bulkUpdate<{ id: number, role: string }, { role: string }, number>({
      repository: users, items: '/data/changes', id: ({ id }) => id, change: ({ role }) => ({ role }),
    })
    const answer = await ask(update, { method: 'PATCH', body: { data: { changes: [{ id: 1, role: 'admin' }] } } })
    assert.deepEqual([answer.status, users.users.get(1)?.role], [200, 'admin'])
    assert.equal((await ask(update, { method: 'PATCH', body: { updates: [] } })).json.code, 'invalid_input')
  })

  test('gets a 400 with a pointer to the wrong value if it is missing or not an array', async () => {
    for (const streamAboveBytes of BOTH) {
      const handler = handlerOf(new Users(), { items: '/data/users', streamAboveBytes })
      for (const [body, pointer] of [
        [{}, '/data'],
        [{ data: {} }, '/data/users'],
        [{ data: { users: {} } }, '/data/users'],
        [{ data: { users: null } }, '/data/users'],
      ] as const) {
        const { status, json } = await ask(handler, { body })
        const [detail] = json.details as { pointer: string }[]
        assert.deepEqual([status, json.code, detail?.pointer], [400, 'invalid_input', pointer], JSON.stringify(body))
      }
      for (const body of [[], 'text', 7, null, { data: [people(1)] }, { data: 'x' }]) {
        const { status, json } = await ask(handler, { body: JSON.stringify(body) })
        assert.deepEqual([status, json.code], [400, 'invalid_input'], JSON.stringify(body))
      }
      assert.equal((await ask(handler, { body: { data: { users: [] } } })).json.code, 'empty_batch')
    }
  })

  test('inherits nothing: names of Object.prototype are treated as other names', async () => {
    for (const streamAboveBytes of BOTH) {
      const handler = handlerOf(new Users(), { items: '/constructor/name', streamAboveBytes })
      assert.equal((await ask(handler, { body: {} })).status, 400)
      assert.equal((await ask(handler, { body: { constructor: { name: people(1) } } })).status, 201)
      const length = handlerOf(new Users(), { items: '/data/length', streamAboveBytes })
      assert.equal((await ask(length, { body: { data: people(1) } })).status, 400)
    }
  })

  test('is the whole body by default, or has other properties beside it that are ignored', async () => {
    const body = { meta: { sentBy: 'crm', at: [1, 2] }, data: { users: people(3), total: 3 } }
    for (const streamAboveBytes of BOTH) {
      const users = new Users()
      const refused = await ask(handlerOf(users, { items: '/data/users', streamAboveBytes }), { body })
      assert.deepEqual([refused.status, refused.json.code, users.users.size], [400, 'invalid_input', 0])
      assert.deepEqual((refused.json.details as { pointer: string }[]).map(({ pointer }) => pointer), ['/meta'])
      const open = handlerOf(users, { items: '/data/users', otherMembers: 'ignore', streamAboveBytes })
      assert.deepEqual(statuses(await ask(open, { body })), [201, 201, 201])
    }
  })

  test('writes nothing if malformed text follows it', async () => {
    const users = new Users()
    const handler = handlerOf(users, { items: '/data/users', otherMembers: 'ignore', streamAboveBytes: 0 })
    const body = `{"data":{"users":${JSON.stringify(people(3))},"total":}}`
    const answer = await ask(handler, { body })
    assert.deepEqual(
      [answer.status, answer.json.code, answer.json.items, users.users.size],
      [400, 'malformed_json', undefined, 0],
    )
  })
})

describe('the OpenAPI document of a bulk request', () => {
  const bodyOf = (options: Options): unknown => {
    const [operation] = handlerOf(new Users(), { maxItems: 5, ...options }).operations ?? []
    const { requestBody } = operation?.openapi as {
      requestBody: { content: Record<string, { schema: { required?: string[] } }> }
    }
    return requestBody.content['application/json']?.schema
  }

  test('nests the array as the pointer does', () => {
    const array = bodyOf({})
    assert.deepEqual(bodyOf({ items: '/data/users' }), {
      type: 'object',
      required: ['data'],
      additionalProperties: false,
      properties: {
        data: { type: 'object', required: ['users'], additionalProperties: false, properties: { users: array } },
      },
    })
    assert.deepEqual(bodyOf({ items: '/a~1b', otherMembers: 'ignore' }), {
      type: 'object', required: ['a/b'], properties: { 'a/b': array },
    })
    assert.deepEqual(bodyOf({ items: '/1', otherMembers: 'ignore' }), {
      type: ['object', 'array'], required: ['1'], properties: { 1: array }, minItems: 2, prefixItems: [{}, array],
    })
    assert.deepEqual(Object.keys(bodyOf({ items: '/2024' }) as object), [
      'type', 'required', 'properties', 'additionalProperties',
    ])
  })
})

const repository = new Users()
const make = bulkCreate as (options: object) => unknown
test('the option items is a JSON pointer, and properties beside the array are rejected or ignored', () => {
  for (const items of ['data', 'data/users', '/a~', '/a~2', 7, `/${'a'.repeat(256)}`, '/__proto__/users']) {
    assert.throws(
      () => make({ repository, items }),
      /^TypeError: bulkCreate: items must be a JSON pointer such as '\/data\/users', of at most 256 characters/,
    )
  }
  assert.throws(
    () => make({ repository, otherMembers: 'drop' }),
    /^TypeError: bulkCreate: otherMembers must be 'refuse' or 'ignore'/,
  )
})
