import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod'
import { describe as describeHandler } from '../../../src/http/exchange.js'
import { operation, parameter, response } from '../../../src/openapi/operation.js'
import { collection } from '../../../src/resources/collection.js'
import { list } from '../../../src/resources/list.js'
import { router } from '../../../src/resources/router.js'
import { strictQuery } from '../../../src/resources/strict-query.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { ask } from './ask.js'

interface Note { readonly id: string, readonly title: string }

const repository = () => {
  const log: unknown[] = []
  return {
    log,
    list: () => ({ items: [{ id: 'a', title: 'A' }], total: 1 }),
    get: (id: string): Note => ({ id, title: 'A' }),
    create: (draft: { title: string }): Note => ({ id: 'a', ...draft }),
    replace: (id: string, draft: { title: string }) => {
      log.push(draft)
      return { item: { ...draft, id }, created: false }
    },
    update: (id: string, change: Partial<{ title: string }>): Note => {
      log.push(change)
      return { title: 'A', ...change, id }
    },
  }
}

describe('strictQuery', () => {
  test('rejects unknown and repeated parameters, and lists the known parameters', async () => {
    const handler = strictQuery(list({ repository: repository() }))
    for (const method of ['GET', 'HEAD']) {
      assert.equal((await ask(handler, method, '/notes')).status, 200)
      assert.equal((await ask(handler, method, '/notes?batch_size=2&start=0')).status, 200)
      for (const query of [
        'batchsize=2', 'batch_size=2&x', '=', 'Start=1', 'cursor=x', 'batch_size=2&batch_size=2',
        'start=-1', 'batch_size=', 'batch_size=1.5',
      ]) {
        const { status, json } = await ask(handler, method, `/notes?${query}`)
        assert.deepEqual([query, status, json?.code], [query, 400, 'invalid_query'])
      }
    }
    const { json } = await ask(handler, 'GET', '/notes?batchsize=2')
    assert.equal(json.error, 'There is no query parameter "batchsize" here; there are "batch_size", "start".')
    assert.ok((await ask(handler, 'GET', `/notes?${'x'.repeat(5000)}=2`)).text.length < 300)
  })

  test('accepts parameters that others read, and repeated parameters if the description allows a list', async () => {
    const described = describeHandler(
      () => ({ status: 200, headers: {} }),
      [
        operation('GET', {
          summary: 'x',
          parameters: [parameter('query', 'tag', { schema: { type: 'array', items: { type: 'string' } } })],
          responses: { 200: response('x') },
        }),
      ],
    )
    const handler = strictQuery(described, { also: ['version'] })
    assert.equal((await ask(handler, 'GET', '/?tag=a&tag=b&version=1&version=1')).status, 200)
    assert.equal((await ask(handler, 'HEAD', '/?tags=a')).status, 400)
    // Of a method that is not described nobody knows.
    assert.equal((await ask(handler, 'POST', '/?tags=a')).status, 200)
  })

  test('adds the 400 to the description, and keeps the rest of it', async () => {
    const handler = router({ 'GET /notes': strictQuery(list({ repository: repository() })) })
    assert.ok(handler.operations?.every(({ openapi }) => Object.hasOwn(openapi['responses'] as object, '400')))
    assert.throws(() => strictQuery(() => undefined), /no description/)
    assert.throws(() => strictQuery(list({ repository: repository() }), { alsoo: ['x'] } as never), /also/)
  })

  test('applies to all operations of a collection', async () => {
    const { item, list: many } = collection({
      repository: repository(),
      schema: jsonSchema<{ title: string }>({ type: 'object' }),
    })
    assert.equal((await ask(strictQuery(item), 'GET', '/a?fields=title', { params: { id: 'a' } })).status, 400)
    assert.equal((await ask(strictQuery(many), 'POST', '/?batch_size=2', { body: { title: 'x' } })).status, 400)
    assert.equal(
      (await ask(strictQuery(item), 'PATCH', '/a', { params: { id: 'a' }, body: { title: 'x' } })).status,
      200,
    )
  })
})

describe('properties that a schema does not know', () => {
  const closed = jsonSchema<{ title: string }>({
    type: 'object',
    properties: { title: { type: 'string' } },
    additionalProperties: false,
  })
  const change = jsonSchema<Partial<{ title: string }>>({
    type: 'object',
    properties: { title: { type: 'string' } },
    additionalProperties: false,
  })
  const params = { id: 'a' }

  test('are rejected by a closed schema, which does not get the id of the path', async () => {
    const notes = repository()
    const { item, list: many } = collection({ repository: notes, schema: closed, changeSchema: change })
    for (const method of ['PUT', 'PATCH']) {
      assert.equal((await ask(item, method, '/a', { params, body: { id: 'a', title: 'x' } })).status, 200)
      const { status, json } = await ask(item, method, '/a', { params, body: { title: 'x', titel: 'y' } })
      assert.deepEqual([status, json.code, json.details[0].pointer], [400, 'invalid_input', '/titel'])
      assert.equal(
        (await ask(item, method, '/a', { params, body: { id: 'b', title: 'x' } })).json.details[0].pointer,
        '/id',
      )
    }
    assert.deepEqual(notes.log, [{ title: 'x' }, { title: 'x' }])
    // A record that is made has no id in its path: one in the body would be dropped.
    assert.equal((await ask(many, 'POST', '/', { body: { id: 'a', title: 'x' } })).status, 400)
  })

  test('are rejected in a merge patch, even if the schema drops them without an error', async () => {
    const notes = repository()
    const { item } = collection({
      repository: notes,
      schema: z.object({ title: z.string(), text: z.string().optional() }),
    })
    const { status, json } = await ask(item, 'PATCH', '/a', { params, body: { title: 'x', titel: 'y' } })
    assert.deepEqual(
      [status, json.code, json.details],
      [400, 'invalid_input', [{ pointer: '/titel', message: 'is not a known property' }]],
    )
    assert.deepEqual(notes.log, [])
    assert.equal((await ask(item, 'PATCH', '/a', { params, body: { title: 'x', text: null } })).status, 200)
    assert.deepEqual(notes.log, [{ title: 'x', text: null }])
  })
})
