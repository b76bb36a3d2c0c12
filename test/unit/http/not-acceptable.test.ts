// Each 406 lists what is available, as RFC 9110 section 15.5.7 asks.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { bulkCreate, bulkItems } from '../../../src/bulk/index.js'
import { content } from '../../../src/content/index.js'
import { NDJSON_TYPES } from '../../../src/http/headers/ndjson-types.js'
import { createTasks, defineTask, router, taskEndpoints, type Handler } from '../../../src/index.js'
import { ndjsonDownload } from '../../../src/ndjson/index.js'
import { operatorEndpoints } from '../../../src/operators/index.js'
import { partialResults } from '../../../src/partial/index.js'
import { collection, list } from '../../../src/resources/index.js'
import { inject } from '../../../src/testing/index.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { textSource } from '../kit/content.js'

const JSON_TYPE = 'application/json'
const [LINES = '', ...MORE_LINES] = NDJSON_TYPES
const repository = { list: () => ({ items: [] }), get: () => ({ id: '1' }) }

async function refusal(handler: Handler, path: string, headers: Record<string, string> = { accept: 'image/png' }) {
  const response = await inject(handler, { path, headers })
  const { code, error } = await response.json<{ code: string, error: string }>()
  return { status: response.status, code, error, vary: response.headers['vary'] }
}

function refused(types: readonly string[], vary: string) {
  return {
    status: 406,
    code: 'not_acceptable',
    error: `Accept allows none of the available types: ${types.join(', ')}.`,
    vary,
  }
}

describe('a 406 lists the available types', () => {
  test('for a list of records and for one record', async () => {
    const records = collection({ repository, schema: jsonSchema({ type: 'object' }) })
    assert.deepEqual(await refusal(records, '/'), refused([JSON_TYPE, ...NDJSON_TYPES], 'Accept'))
    assert.deepEqual(await refusal(records, '/1'), refused([JSON_TYPE], 'Accept'))
    assert.deepEqual(await refusal(list({ repository }), '/'), refused([JSON_TYPE, ...NDJSON_TYPES], 'Accept'))
  })
  test('for content', async () => {
    const type = 'text/csv; charset=utf-8'
    assert.deepEqual(await refusal(content({ ...textSource('a,b'), type }), '/'), refused([type], 'Accept'))
  })
  test('for a status, for partial results, and for a list of tasks', async (t) => {
    const { engine, store, blobs } = memory()
    const words = partialResults<string>({ store })
    const say = defineTask({ name: 'say', external: words.external, run: words.run(() => 1) })
    const tasks = createTasks({ engine, store, blobs, definitions: [say] })
    t.after(() => tasks.close())
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => 'ann' })
    const { overview } = operatorEndpoints<unknown>(tasks, { statusPath: '/all/{id}', operator: () => true })
    const { taskId } = await tasks.ownedBy('ann').submit(say, undefined)
    const site = router({
      'GET /tasks': endpoints.list, 'GET|DELETE /tasks/{id}': endpoints.status,
      'GET /tasks/{id}/partial-results': words.endpoint(endpoints), 'GET /overview': overview,
    })
    const vary = 'Accept, Authorization'
    assert.deepEqual(await refusal(site, '/tasks'), refused([JSON_TYPE], vary))
    assert.deepEqual(await refusal(site, '/overview'), refused([JSON_TYPE], vary))
    assert.deepEqual(await refusal(site, `/tasks/${taskId}`), refused([JSON_TYPE, 'text/event-stream'], vary))
    const ofResults = [JSON_TYPE, LINES, 'text/event-stream', ...MORE_LINES]
    assert.deepEqual(await refusal(site, `/tasks/${taskId}/partial-results`), refused(ofResults, vary))
  })
  test('for the items of a batch', async (t) => {
    const { engine, store, blobs } = memory()
    const users = bulkCreate({
      repository: { createMany: (items: object[]) => items },
      schema: jsonSchema({ type: 'object' }),
      background: { name: 'users', blobs },
    })
    const tasks = createTasks({ engine, store, blobs, definitions: [users.task] })
    t.after(() => tasks.close())
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => 'ann' })
    const site = router({
      'POST /users': users.handler(endpoints), 'GET|DELETE /tasks/{id}': endpoints.status,
      'GET /tasks/{id}/items': bulkItems({ endpoints, blobs }),
    })
    const headers = { 'content-type': JSON_TYPE, 'prefer': 'respond-async' }
    const path = String(
      (await inject(site, { method: 'POST', path: '/users', headers, body: '[{}]' })).headers['location'],
    )
    await inject(site, { path, headers: { prefer: 'wait=20' } })
    assert.deepEqual(await refusal(site, `${path}/items`), refused([LINES], 'Accept'))
  })
  test('for a download, including types that an option adds', async () => {
    const types = [LINES, JSON_TYPE, ...MORE_LINES]
    const vary = 'Accept, Accept-Encoding'
    const records = () => []
    assert.deepEqual(await refusal(ndjsonDownload({ records }), '/'), refused(types, vary))
    const more = ndjsonDownload({ records, moreMediaTypes: ['application/vnd.acme.users'] })
    assert.deepEqual(await refusal(more, '/'), refused([...types, 'application/vnd.acme.users'], vary))
  })
})

describe('a 406 for Accept-Encoding lists the available codings', () => {
  for (const [codings, available] of [[['gzip', 'br'], 'gzip, br, identity'], [[], 'identity']] as const) {
    test(`for a download with ${available}`, async () => {
      const download = ndjsonDownload({ records: () => [], codings })
      for (const encoding of ['identity;q=0', '*;q=0', 'x-unknown, identity;q=0']) {
        assert.deepEqual(await refusal(download, '/', { 'accept-encoding': encoding }), {
          status: 406, code: 'not_acceptable', vary: 'Accept, Accept-Encoding',
          error: `Accept-Encoding allows none of the available content codings: ${available}.`,
        }, encoding)
      }
    })
  }
})
