// Every handler, and every part of it that a host brings, fails with something that must not be told.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { content } from '../../../src/content/content.js'
import { compose, type Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { ndjsonDownload } from '../../../src/ndjson/download.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { authorize } from '../../../src/policies/authenticate.js'
import { basic, bearer } from '../../../src/policies/schemes.js'
import { limitConcurrency } from '../../../src/policies/limits.js'
import { rateLimit } from '../../../src/policies/rate-limit.js'
import { requestId } from '../../../src/policies/request-id.js'
import { timeouts } from '../../../src/policies/timeouts.js'
import { collection } from '../../../src/resources/collection.js'
import { list } from '../../../src/resources/list.js'
import { resource } from '../../../src/resources/methods.js'
import { router } from '../../../src/resources/router.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import type { Store } from '../../../src/stores/store.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { jobFormat } from '../../../src/tasks/http/formats.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { byPath } from '../../../src/versions/selectors.js'
import { deprecated } from '../../../src/versions/deprecation.js'
import { versions } from '../../../src/versions/versions.js'
import { failing, post, tellsNothing, THROWN } from '../kit/leaks.js'
import type { Ask } from '../kit/request.js'

/** @param heard - gets the errors of the tasks, which report them once for each attempt */
function tasksOf(fail: () => unknown, calls: number, heard: unknown[]): Record<string, [Handler, Ask][]> {
  const { store, engine } = memory()
  const work = defineTask({ name: 'work', input: jsonSchema({ type: 'object' }), run: async () => { throw fail() } })
  const tasks = createTasks({
    store: failing<Store>(store, fail, ['close'], calls),
    engine,
    definitions: [work],
    onError: (error) => {
      heard.push(error)
    },
  })
  const { submit, status } = taskEndpoints(tasks, {
    statusPath: '/s/{id}',
    owner: 'anyone',
    format: calls % 2 === 0 ? undefined : jobFormat,
  } as never)
  const routes = router({ 'POST /': submit(work), '/s/{id}': status })
  const id = 'AAAAAAAAAAAAAAAAAAAAAA'
  return {
    'submit directly': [[routes, post('{}')]],
    'submit in the background': [[routes, post('{}', { 'prefer': 'respond-async', 'idempotency-key': 'k' })]],
    'submit and wait': [[routes, post('{}', { prefer: 'respond-async, wait=1' })]],
    'status': [[routes, { path: `/s/${id}` }], [routes, { path: `/s/${id}`, headers: { prefer: 'wait=1' } }]],
    'cancel': [[routes, { method: 'DELETE', path: `/s/${id}` }]],
  }
}

const repository = (fail: () => unknown) => {
  const broken = async (): Promise<never> => { throw fail() }
  return { list: broken, get: broken, create: broken, replace: broken, update: broken, delete: broken }
}

function handlersOf(fail: () => unknown): Record<string, [Handler, Ask][]> {
  const broken = (): never => { throw fail() }
  const late = async (): Promise<never> => { throw fail() }
  const ok: Handler = () => json(200, {})
  const store = failing(memory().store as Store, fail)
  const policies = [{ name: 'p', limit: 5, windowSeconds: 60 }]
  const users = collection({ repository: repository(fail), schema: jsonSchema({ type: 'object' }) } as never)
  const token: Ask = { headers: { authorization: 'Bearer t' } }
  const known: Ask = { context: { principal: { subject: 'ann' } } }
  const source = (async function * () { yield * []; throw fail() })
  return {
    'a handler': [
      [broken, {}],
      [late, {}],
      [() => 'text' as never, {}],
      [router({ '/': late }), {}],
      [resource({ GET: late }), {}],
    ],
    'authenticate': [
      [compose(authenticate({ schemes: [bearer({ verify: late })] }), ok), token],
      [
        compose(authenticate({ schemes: [basic({ verify: broken })] }), ok),
        { headers: { authorization: 'Basic YTpi' } },
      ],
      [
        compose(authenticate({ schemes: [bearer({ verify: late })], cache: { maxEntries: 1, ttlMs: 1000 } }), ok),
        token,
      ],
    ],
    'authorize': [
      [compose(authorize({ allow: late, reason: 'r' }), ok), known],
      [compose(authorize({ allow: () => false, reason: broken }), ok), known],
    ],
    'rateLimit': [
      [compose(rateLimit({ store, onStoreError: 'deny', policies }), ok), {}],
      [
        compose(
          rateLimit({
            store: memory().store,
            onStoreError: 'deny',
            policies: [{ name: 'p', limit: 5, windowSeconds: 60, cost: broken }],
          }),
          ok,
        ),
        {},
      ],
    ],
    'other policies': [
      [
        compose(
          requestId(),
          timeouts({ runMs: 1000 }),
          limitConcurrency({ maxConcurrent: 1 }),
          deprecated({ deprecated: '2026-01-01' }),
          late,
        ),
        {},
      ],
    ],
    'versions': [
      [versions({ 1: { handler: late, deprecated: '2026-01-01' } }, { select: [byPath()] }), { path: '/v1' }],
    ],
    'content': [
      [content(late), {}],
      [content(async () => ({ size: 3, type: 'text/plain', open: broken })), {}],
    ],
    'ndjson in': [
      [
        ndjsonUpload({ write: late }),
        { ...post('{"a":1}\n{"a":2}'), headers: { 'content-type': 'application/x-ndjson' } },
      ],
    ],
    'ndjson out': [
      [ndjsonDownload({ records: late }), {}],
      [ndjsonDownload({ records: () => source() }), {}],
    ],
    'collection': [
      [users, {}],
      [users, { path: '/7' }],
      [users, post('{}')],
      [users, { ...post('{}'), method: 'PUT', path: '/7' }],
      [users, { ...post('{}'), method: 'PATCH', path: '/7' }],
      [users, { method: 'DELETE', path: '/7' }],
    ],
    'list': [[list({ repository: repository(fail) }), {}]],
  }
}

describe('SPEC 7.3, 7.500: nothing leaks of any failing part of the application', () => {
  for (const [at, fail] of THROWN.entries()) {
    test(`if every handler and policy throws thing ${at + 1}`, async () => {
      for (const [name, cases] of Object.entries(handlersOf(fail))) {
        for (const [index, [handler, what]] of cases.entries()) {
          const status = await tellsNothing(handler, what, `${name} ${index}`)
          assert.ok(
            status === 0 || status >= 500 || (name === 'ndjson in' && status >= 200),
            `${name} ${index}: ${status}`,
          )
        }
      }
    })

    test(`if a store throws thing ${at + 1} at its first call and at later ones, or the work throws it`, async () => {
      for (let calls = 0; calls < 5; calls++) {
        const heard: unknown[] = []
        for (const [name, cases] of Object.entries(tasksOf(fail, calls, heard))) {
          for (const [index, [handler, what]] of cases.entries()) {
            await tellsNothing(handler, what, `${name} ${index} after ${calls} calls`, {
              heard: name === 'submit and wait' ? heard : [],
            })
          }
        }
      }
    })
  }
})
