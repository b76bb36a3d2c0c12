// `write` of an upload and the repository of a bulk endpoint get the same owner and context,
// whether the request is answered
// directly, with an Idempotency-Key, or in the background.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { createTasks, taskEndpoints, type HttpRequest } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { memory } from 'longhaul/memory'
import { ndjsonUpload } from 'longhaul/ndjson'
import { fakeRequest } from '../kit/request.js'

interface Host { readonly user: { readonly id: string, readonly tenant: string } }

describe('the owner and the context of records', () => {
  const seen: unknown[] = []
  const note = (of: { readonly owner?: string | undefined, readonly context: unknown }): void => {
    const { owner, context } = of
    seen.push({ owner, context })
  }
  const { store, engine, blobs } = memory()
  const upload = ndjsonUpload({ write: (_, place) => { note(place) }, background: { name: 'upload', blobs } })
  const create = bulkCreate({
    repository: { createMany: (drafts: readonly object[], call) => {
      note(call)
      return drafts
    } },
    background: { name: 'create', blobs },
  })
  const tasks = createTasks({ store, engine, definitions: [upload.task, create.task] })
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    owner: ({ context }: HttpRequest<Host>) => context.user.id,
    context: ({ context }) => ({ tenant: context.user.tenant }),
  })
  after(async () => {
    await tasks.close()
    await blobs.close()
    await store.close()
  })

  for (const { name, handler, type, body } of [
    { name: 'an upload', handler: upload.handler(endpoints), type: 'application/x-ndjson', body: '{"id":1}\n' },
    { name: 'a bulk request', handler: create.handler(endpoints), type: 'application/json', body: '[{"id":1}]' },
  ]) {
    for (const [way, headers] of Object.entries({
      'directly': {},
      'with a key': { 'idempotency-key': '"one"' },
      'in the background': { prefer: 'respond-async, wait=20' },
    })) {
      test(`belong to ${name}, handled ${way}`, async () => {
        seen.length = 0
        const keyed = 'idempotency-key' in headers && { 'idempotency-key': `"${name}"` }
        const request = fakeRequest({ headers: { 'content-type': type, ...headers, ...keyed }, body })
        const response = await handler(request.with({ context: { user: { id: 'ann', tenant: 'acme' } } }))
        assert.ok(response !== undefined && response.status <= 201, String(response?.status))
        assert.deepEqual(seen, [{ owner: 'ann', context: { tenant: 'acme' } }])
      })
    }
  }

  test('come from the request if there is no background', async () => {
    const place: unknown[] = []
    const plain = ndjsonUpload<object, unknown>({
      write: (_, { owner, context }) => {
        place.push({ owner, context })
      },
    })
    await plain(
      fakeRequest({ headers: { 'content-type': 'application/x-ndjson' }, body: '{}\n' }).with({ context: { own: 1 } }),
    )
    assert.deepEqual(place, [{ owner: undefined, context: { own: 1 } }])
  })
})
