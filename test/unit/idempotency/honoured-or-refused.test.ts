import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { bulkCreate, bulkUpdate } from '../../../src/bulk/index.js'
import { compose, type Handler, type HttpResponse } from '../../../src/http/exchange.js'
import { errorResponse } from '../../../src/http/respond.js'
import { idempotent } from '../../../src/idempotency/policy.js'
import { ndjsonUpload } from '../../../src/ndjson/index.js'
import { collection } from '../../../src/resources/collection.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { resumableUpload } from '../../../src/uploads/resumable-upload.js'
import { fakeRequest, type Fake } from '../kit/request.js'

interface Sent extends Omit<Fake, 'body'> {
  readonly method: string
  readonly body?: string
  readonly path?: string
  readonly params?: Readonly<Record<string, string>>
}

/** An id of the right form that nothing has. */
const ID = 'a'.repeat(22)
const JSON_BODY = { 'content-type': 'application/json' }
const PATCHED = { 'content-type': 'application/partial-upload', 'upload-offset': '0', 'upload-complete': '?1' }

async function ask(
  handler: Handler,
  { method, body = '', headers, path = '/things', params = {} }: Sent,
): Promise<HttpResponse> {
  const length = body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  const request = { ...fakeRequest({ body, headers: { ...length, ...headers } }), method, path, params }
  try {
    return (await handler(request)) as HttpResponse
  } catch (error) {
    return errorResponse(error, request)
  }
}

/** All endpoints that change something, over a repository that counts its writes. */
function bench(t: TestContext) {
  const { store, engine, blobs } = memory()
  let writes = 0
  const write = (): { id: string } => ({ id: String(++writes) })
  const repository = {
    create: write, replace: () => ({ item: write(), created: false }), update: write, get: () => ({ id: '1' }),
    delete: () => { write(); return true },
  }
  const createMany = (drafts: readonly object[]) => drafts.map(write)
  const work = defineTask({ name: 'work', run: () => ({ done: write().id }) })
  const keyedBulk = bulkCreate({ repository: { createMany }, background: { name: 'bulk', blobs } })
  const keyedLines = ndjsonUpload({ write: createMany, background: { name: 'lines', blobs } })
  const tasks = createTasks({ store, engine, definitions: [work, keyedBulk.task, keyedLines.task] })
  t.after(() => tasks.close({ drainMs: 0 }))
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const ids = { id: ({ id }: { id: number }) => id, change: () => ({}) }
  const users = collection({
    repository,
    schema: { '~standard': { version: 1, vendor: 'x', validate: (value: unknown) => ({ value: value as object }) } },
    path: '/users',
  })
  const uploads = resumableUpload(() => ({ status: 204, headers: {} }), {
    store,
    blobs,
    owner: 'anyone',
    uploadPath: '/uploads/{id}',
  })
  return {
    writes: () => writes,
    once: idempotent({ store, caller: 'anyone' }),
    endpoints,
    tasks,
    work,
    keyedBulk,
    keyedLines,
    users,
    uploads,
    bulk: bulkCreate({ repository: { createMany } }),
    update: bulkUpdate({ repository: { update: write }, ...ids }),
    lines: ndjsonUpload({ write: createMany }),
  }
}

type Bench = ReturnType<typeof bench>

/** Endpoints that keep no keys by themselves. */
const REFUSED: Readonly<Record<string, (bench: Bench) => readonly [Handler, Sent]>> = {
  'bulk create': ({ bulk }) => [bulk, { method: 'POST', body: '[{},{}]', headers: JSON_BODY }],
  'bulk update': ({ update }) => [update, { method: 'PATCH', body: '{"updates":[{"id":1}]}', headers: JSON_BODY }],
  'NDJSON upload': ({ lines }) => [
    lines,
    { method: 'POST', body: '{}\n{}\n', headers: { 'content-type': 'application/x-ndjson' } },
  ],
  'POST of a collection': ({ users }) => [
    users.list,
    { method: 'POST', path: '/users', body: '{}', headers: JSON_BODY },
  ],
  'PUT of a record': ({ users }) => [
    users.item,
    { method: 'PUT', params: { id: '1' }, body: '{}', headers: JSON_BODY },
  ],
  'PATCH of a record': ({ users }) => [
    users.item,
    { method: 'PATCH', params: { id: '1' }, body: '{}', headers: JSON_BODY },
  ],
  'DELETE of a record': ({ users }) => [users.item, { method: 'DELETE', params: { id: '1' } }],
  'DELETE of a task': ({ endpoints }) => [endpoints.status, { method: 'DELETE', path: `/tasks/${ID}` }],
  'PATCH of an upload': ({ uploads }) => [
    uploads.resource,
    { method: 'PATCH', path: `/uploads/${ID}`, headers: PATCHED },
  ],
  'DELETE of an upload': ({ uploads }) => [uploads.resource, { method: 'DELETE', path: `/uploads/${ID}` }],
}

/** Endpoints that keep keys. */
const HONOURED: Readonly<Record<string, (bench: Bench) => readonly [Handler, Sent]>> = {
  'submit': ({ endpoints, work }) => [endpoints.submit(work), { method: 'POST', body: '{}', headers: JSON_BODY }],
  'submit, 202': ({ endpoints, work }) => [
    endpoints.submit(work),
    { method: 'POST', body: '{}', headers: { ...JSON_BODY, prefer: 'respond-async' } },
  ],
  'submit of a body that is refused': ({ endpoints, work }) => [
    endpoints.submit(work),
    { method: 'POST', body: '{', headers: JSON_BODY },
  ],
  'retry': ({ endpoints }) => [endpoints.retry, { method: 'POST', path: `/tasks/${ID}/retry` }],
  'retry with a body that is refused': ({ endpoints }) => [
    endpoints.retry,
    { method: 'POST', path: `/tasks/${ID}/retry`, body: '{"a":1}', headers: JSON_BODY },
  ],
  'redelivery of a callback': ({ endpoints }) => [
    endpoints.callback,
    { method: 'POST', path: `/tasks/${ID}/callback` },
  ],
  'bulk with background': ({ keyedBulk, endpoints }) => [
    keyedBulk.handler(endpoints),
    { method: 'POST', body: '[{},{}]', headers: JSON_BODY },
  ],
  'bulk with background, an empty batch': ({ keyedBulk, endpoints }) => [
    keyedBulk.handler(endpoints),
    { method: 'POST', body: '[]', headers: JSON_BODY },
  ],
  'bulk in the background': ({ keyedBulk, endpoints }) => [
    keyedBulk.handler(endpoints),
    { method: 'POST', body: '[{},{}]', headers: { ...JSON_BODY, prefer: 'respond-async' } },
  ],
  'NDJSON with background': ({ keyedLines, endpoints }) => [
    keyedLines.handler(endpoints),
    { method: 'POST', body: '{}\n', headers: { 'content-type': 'application/x-ndjson' } },
  ],
  ...Object.fromEntries(
    Object.entries(REFUSED).map(([name, of]) => [
      `idempotent(): ${name}`,
      (all: Bench) => {
        const [handler, sent] = of(all)
        return [compose(all.once, handler), sent]
      },
    ]),
  ),
}

describe('a request with an Idempotency-Key', () => {
  for (const [name, of] of Object.entries(REFUSED)) {
    test(`${name}: is rejected before the work if its key is not supported`, async (t) => {
      const all = bench(t)
      const [handler, sent] = of(all)
      const answer = await ask(handler, { ...sent, headers: { ...sent.headers, 'idempotency-key': 'k' } })
      const { code } = JSON.parse(answer.body as string) as { code: string }
      assert.deepEqual(
        [answer.status, code, answer.headers['idempotency-key'], all.writes()],
        [400, 'idempotency_not_supported', undefined, 0],
      )
      assert.notEqual((await ask(handler, sent)).status, 400)
    })
  }
  for (const [name, of] of Object.entries(HONOURED)) {
    test(`${name}: does the work once, and each response acknowledges its key`, async (t) => {
      const all = bench(t)
      const [handler, sent] = of(all)
      const keyed = { ...sent, headers: { ...sent.headers, 'idempotency-key': '"a key"' } }
      const first = await ask(handler, keyed)
      const task = first.headers['location']
      if (first.status === 202) await all.tasks.wait(String(task).split('/').at(-1) as string, { timeoutMs: 20_000 })
      const written = all.writes()
      const again = await ask(handler, keyed)
      assert.deepEqual([again.status, again.headers['location'], all.writes()], [first.status, task, written])
      assert.deepEqual([first.headers['idempotency-key'], again.headers['idempotency-key']], ['"a key"', '"a key"'])
      const without = await ask(handler, sent)
      assert.equal(without.headers['idempotency-key'], undefined)
    })
  }
})
