// The same for bulk endpoints, for what is done in the background, and for callbacks: answers,
// status resources and reports.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { callbacks, type CallbackSender } from '../../../src/callbacks/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { bulkCreate } from '../../../src/bulk/create.js'
import { bulkItems } from '../../../src/bulk/items.js'
import { bulkUpdate } from '../../../src/bulk/update.js'
import { blobSource } from '../../../src/content/source.js'
import { content } from '../../../src/content/content.js'
import type { Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { openapi } from '../../../src/openapi/document.js'
import { router } from '../../../src/resources/router.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import type { Schema } from '../../../src/schema/schema.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import type { Store } from '../../../src/stores/store.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { failing, post, tellsNothing, THROWN } from '../kit/leaks.js'
import { ask, type Ask } from '../kit/request.js'

const item = jsonSchema<{ id: number }>({ type: 'object', properties: { id: { type: 'integer' } } })
const USERS = '[{"id":1},{"id":2}]'
const UPDATES = '{"updates":[{"userId":1,"role":"a"},{"userId":2,"role":"b"}]}'
const heard: unknown[] = []
const quiet = (error: unknown): void => { heard.push(error) }
const change = { id: ({ userId }: { userId: number }) => userId, change: ({ role }: { role: string }) => ({ role }) }

/** A schema that fails itself, in the place of judging. */
function broken(fail: () => unknown): Schema<{ id: number }> {
  const schema = Object.create(item) as { '~standard': Schema<{ id: number }>['~standard'] }
  return Object.assign(schema, { '~standard': { ...item['~standard'], validate: async () => { throw fail() } } })
}

function repositories(fail: () => unknown): Record<string, object> {
  const late = async (): Promise<never> => { throw fail() }
  const written = async (drafts: readonly object[]): Promise<unknown[]> => drafts.map((each) => ({ id: 1, ...each }))
  return {
    'one by one': { create: late, update: late },
    'at once': {
      createMany: () => {
        throw fail()
      },
      updateMany: late,
    },
    'each refused by something foreign': {
      createMany: async (drafts: readonly object[]) => drafts.map(() => fail()),
      updateMany: async (drafts: readonly object[]) => drafts.map(() => fail()),
    },
    'in a transaction': {
      create: late,
      update: late,
      transaction: async (work: (inside: object) => Promise<unknown>) => await work({ create: late, update: late }),
    },
    'at the end of one': {
      createMany: written,
      updateMany: written,
      transaction: async (work: (inside: object) => Promise<unknown>) => {
        await work({ createMany: written, updateMany: written })
        throw fail()
      },
    },
  }
}

/** Every way in, each on parts that fail: `calls` says how many calls of the store and the blobs go well before. */
function handlers(fail: () => unknown, calls: number): Record<string, [Handler, Ask][]> {
  const parts = memory()
  const store = failing<Store>(parts.store, fail, ['close'], calls)
  const blobs = failing<Blobs>(parts.blobs, fail, ['close'], calls)
  const async = { prefer: 'respond-async' }
  const found: Record<string, [Handler, Ask][]> = {}
  for (const [name, repository] of Object.entries(repositories(fail))) {
    for (const [kind, schema] of [['', item], [' with a broken schema', broken(fail)]] as const) {
      const created = { repository, schema, onError: quiet } as never
      const streamed = { repository, schema, onError: quiet, streamAboveBytes: 1 } as never
      const changes = {
        repository,
        schema: schema === item ? jsonSchema({ type: 'object' }) : schema,
        onError: quiet,
        ...change,
      } as never
      found[`${name}${kind}`] = [
        [bulkCreate(created), post(USERS)], [bulkCreate(streamed), post(USERS)],
        [bulkUpdate(changes), { ...post(UPDATES), method: 'PATCH' }],
      ]
    }
  }
  const repository = { createMany: async () => [], updateMany: async () => [] }
  const create = bulkCreate({ repository, schema: item, onError: quiet, background: { name: 'c', blobs, attempts: 1 } })
  const update = bulkUpdate<{ userId: number; role: string }, object, number>({
    repository,
    onError: quiet,
    ...change,
    background: { name: 'u', blobs, attempts: 1 },
  })
  const upload = ndjsonUpload({ write: async () => { throw fail() }, background: { name: 'n', blobs, attempts: 1 } })
  const work = defineTask({ name: 'w', input: jsonSchema({ type: 'object' }), run: async () => ({}) })
  const sender: CallbackSender = { check: () => { throw fail() }, send: async () => { throw fail() } }
  const tasks = createTasks({
    store,
    engine: parts.engine,
    definitions: [create.task, update.task, upload.task, work],
    callbacks: callbacks({
      sender,
      secrets: () => {
        throw fail()
      },
    }),
    onError: quiet,
  })
  const endpoints = taskEndpoints(tasks, { statusPath: '/s/{id}', owner: 'anyone' })
  const id = 'AAAAAAAAAAAAAAAAAAAAAA'
  const ndjson = { ...post('{"id":1}\n'), headers: { 'content-type': 'application/x-ndjson', ...async } }
  const called = post('{"callbackUrl":"http://203.0.113.9/"}', async)
  return {
    ...found,
    'bulk in the background': [
      [create.handler(endpoints), post(USERS, async)],
      [update.handler(endpoints), { ...post(UPDATES, async), method: 'PATCH' }],
    ],
    'its items': [[router({ '/s/{id}/items': bulkItems({ endpoints, blobs }) }), { path: `/s/${id}/items` }]],
    'an upload in the background': [[upload.handler(endpoints), ndjson]],
    'a blob': [[content(async () => await blobSource(blobs, 'x', { type: 'text/plain' })), {}]],
    'a callback': [
      [endpoints.submit(work, { callback: () => 'http://203.0.113.9/' }), called],
      [
        endpoints.submit(work, {
          callback: () => {
            throw fail()
          },
        }),
        called,
      ],
      [
        endpoints.submit(() => {
          throw fail()
        }),
        called,
      ],
      [
        endpoints.submit(async () => {
          throw fail()
        }),
        post('{}'),
      ],
    ],
    'a document': [
      [() => json(200, openapi([], { info: { title: 't', version: '1' } })), {}],
      [
        () => {
          throw fail()
        },
        {},
      ],
    ],
  }
}

describe('SPEC 7.3, 7.4, 7.6: bulk, background and callbacks leak nothing that the application throws', () => {
  for (const [at, fail] of THROWN.entries()) {
    test(`if every handler throws thing ${at + 1}, at the first call of store and blobs and at later ones`, async () => {
      for (let calls = 0; calls < 4; calls++) {
        for (const [name, cases] of Object.entries(handlers(fail, calls))) {
          for (const [index, [handler, what]] of cases.entries()) {
            heard.length = 0
            await tellsNothing(handler, what, `${name} ${index} after ${calls} calls`, { heard })
          }
        }
      }
    })

    test(`if the work throws thing ${at + 1}, and the status shows that it failed but not why`, async () => {
      const { store, engine, blobs } = memory()
      const upload = ndjsonUpload({
        write: async () => {
          throw fail()
        },
        background: { name: 'n', blobs, attempts: 1 },
      })
      const repository = { createMany: async () => { throw fail() } }
      const bulk = bulkCreate({
        schema: item,
        onError: quiet,
        repository,
        background: { name: 'c', blobs, attempts: 1 },
      })
      const work = defineTask({ name: 'w', input: jsonSchema({ type: 'object' }), run: async () => { throw fail() } })
      const tasks = createTasks({ store, engine, definitions: [upload.task, bulk.task, work], onError: quiet })
      const endpoints = taskEndpoints(tasks, { statusPath: '/s/{id}', owner: 'anyone' })
      const status = router({ '/s/{id}': endpoints.status, '/s/{id}/items': bulkItems({ endpoints, blobs }) })
      for (const [name, handler, what] of [
        [
          'upload',
          upload.handler(endpoints),
          { ...post('{"id":1}\n'), headers: { 'content-type': 'application/x-ndjson' } },
        ],
        ['bulk', bulk.handler(endpoints), post(USERS)],
        ['task', endpoints.submit(work), post('{}')],
      ] as const) {
        const { status: accepted, headers } = await ask(handler, {
          ...what,
          headers: { ...what.headers, prefer: 'respond-async' },
        })
        assert.equal(accepted, 202, name)
        const path = String(headers['location'])
        const told = await ask(status, { path, headers: { prefer: 'wait=20' } })
        // Of a bulk, the items have failed, each with its own 500.
        assert.equal(told.json['status'], name === 'bulk' ? 'completed' : 'failed', name)
        if (name === 'bulk') assert.match(told.body as string, /"succeeded":0,"failed":2/, name)
        assert.doesNotMatch(told.body as string, /secret|\/home\/|node_modules|ECONN|ERR_/, name)
        await tellsNothing(status, { path: `${path}/items` }, `${name}: items`, { whole: name === 'bulk' })
      }
      await tasks.close()
    })
  }
})
