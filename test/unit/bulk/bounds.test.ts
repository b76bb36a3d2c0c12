import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as z from 'zod'
import { memory } from '../../../adapters/memory/index.js'
import { bulkCreate } from '../../../src/bulk/create.js'
import { bulkUpdate } from '../../../src/bulk/update.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import {
  ask, codes, draft, people, person, roleChange, statuses, Users, type Draft, type RoleChange,
  type User,
} from '../kit/bulk.js'

describe('the validation of items', () => {
  test('checks that items are objects if there is no schema', async () => {
    const users = new Users()
    const answer = await ask(bulkCreate<User, Draft>({ repository: users }), {
      body: [person(0), 7, [], null, 'x', person(1)],
    })
    assert.deepEqual(statuses(answer), [201, 400, 400, 400, 400, 201])
    assert.deepEqual(answer.json.items[1]?.error?.details, [{ pointer: '/1', message: 'must be object' }])
    assert.deepEqual(users.emails, [person(0).email, person(1).email])
  })

  test('may be asynchronous, for valid and invalid items', async () => {
    const schema = z
      .object({ name: z.string(), email: z.string() })
      .refine(async ({ name }) => Promise.resolve(name !== 'bad'))
    for (const bad of [[], [0], [3], [1, 4, 5]]) {
      const users = new Users()
      const items = people(6).map((its, at) => (bad.includes(at) ? { ...its, name: 'bad' } : its))
      const answer = await ask(bulkCreate<User, Draft>({ repository: users, schema, concurrency: 2 }), { body: items })
      assert.deepEqual(statuses(answer), items.map((_, at) => (bad.includes(at) ? 400 : 201)), String(bad))
      assert.deepEqual(users.emails, items.filter((_, at) => !bad.includes(at)).map(({ email }) => email))
    }
  })

  test("finds values that the framework's parser has rounded", async () => {
    const answer = await ask(bulkCreate<User, Draft>({ repository: new Users() }), {
      parsed: { value: [{ ...person(0), wide: 2 ** 53 }, person(1)] },
    })
    assert.deepEqual([statuses(answer), codes(answer)], [[400, 201], ['inexact_value', undefined]])
  })

  test('names the first of several items about the same record', async () => {
    const answer = await ask(
      bulkCreate<User, Draft>({ repository: new Users(), schema: draft, key: ({ email }) => email }),
      { body: [person(0), person(1), person(2), person(1)] },
    )
    assert.equal(
      answer.json.items[3]?.error?.message,
      'Item 1 of this batch has the same key, so this item was not written.',
    )
  })
})

test('a report shows ids unchanged, with any characters', async () => {
  const ids = [
    'a',
    'a'.repeat(17),
    '"',
    '\\',
    '\u0001',
    'é',
    '~',
    ' ',
    '',
    '"'.repeat(20),
    '\u2028',
    7,
    'z',
    undefined,
    'y',
    -1.5,
  ]
  const repository = { createMany: () => ids.map((id) => ({ id })) }
  const answer = await ask(bulkCreate<object, Draft>({ repository, schema: draft }), { body: people(ids.length) })
  assert.deepEqual(answer.json.items, ids.map((id, index) => ({ index, status: 201, ...id !== undefined && { id } })))
})

describe('the bounds of a body', () => {
  const handler = (users: Users, more: object = {}) =>
    bulkCreate<User, Draft>({ repository: users, schema: draft, ...more })

  test('are maxItems items and maxBodyBytes bytes', async () => {
    const body = JSON.stringify(people(3))
    for (const [more, status] of [
      [{ maxItems: 3 }, 201],
      [{ maxItems: 2 }, 413],
      [{ maxBodyBytes: body.length }, 201],
      [{ maxBodyBytes: body.length - 1 }, 413],
    ] as const)
      assert.equal((await ask(handler(new Users(), more), { body })).status, status, JSON.stringify(more))
  })

  test('apply to a body that the framework has parsed and decoded', async () => {
    const answer = await ask(handler(new Users()), {
      parsed: { value: people(1) },
      headers: { 'content-encoding': 'x-own' },
    })
    assert.equal(answer.status, 201)
    assert.equal(
      (await ask(handler(new Users()), { body: people(1), headers: { 'content-encoding': 'x-own' } })).status,
      415,
    )
  })

  test('include that the body is an array or has the property with the array, and an error points to the missing part', async () => {
    const created = await ask(handler(new Users()), { body: { a: 1 } })
    assert.deepEqual([created.status, created.json.details], [400, [{ pointer: '', message: 'must be array' }]])
    const update = bulkUpdate<RoleChange, { role: string }, number>({
      repository: new Users(1),
      schema: roleChange,
      id: ({ userId }) => userId,
      change: ({ role }) => ({ role }),
    })
    for (const [body, details] of [
      [{ updates: 7 }, [{ pointer: '/updates', message: 'must be array' }]],
      [{}, [{ pointer: '/updates', message: 'is required' }]],
      [[], [{ pointer: '/updates', message: 'is required' }]],
    ] as const) {
      const answer = await ask(update, { method: 'PATCH', body })
      assert.deepEqual([answer.status, answer.json.details], [400, details], JSON.stringify(body))
    }
  })
})

describe('an endpoint with a background task', () => {
  function setUp() {
    const { store, engine, blobs } = memory()
    const options = { repository: new Users(), schema: draft, streamAboveBytes: 100 }
    const bulk = bulkCreate<User, Draft>({ ...options, background: { name: 'create', blobs } })
    const tasks = createTasks({ store, engine, definitions: [bulk.task] })
    const handler = bulk.handler(taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' }))
    return { handler, close: async () => { await tasks.close({ drainMs: 0 }); await blobs.close() } }
  }

  test('responds synchronously to a preference other than respond-async', async (t) => {
    const { handler, close } = setUp()
    t.after(close)
    assert.equal((await ask(handler, { body: people(1), headers: { prefer: 'wait=5' } })).status, 201)
    assert.equal((await ask(handler, { body: people(1), headers: { prefer: 'respond-async' } })).status, 202)
  })
})
