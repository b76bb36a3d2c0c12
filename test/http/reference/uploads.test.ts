// Uploads to the reference server that resume, as clients of this and of other owners meet them.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createClient } from '../../../src/client/index.js'
import type { UploadResult } from '../../../src/ndjson/index.js'
import { useReference, type Answer, type Ask } from '../kit/reference.js'

const PATH = '/upload-ndjson'
const CREATE = { 'content-type': 'application/x-ndjson', 'upload-complete': '?0' }
const PARTIAL = { 'content-type': 'application/partial-upload' }

describe('resumable uploads on the reference server', () => {
  const client = useReference()
  const create = (what: Ask = {}): Promise<Answer> => (
    client.ask('POST', PATH, { body: '', ...what, headers: { ...CREATE, ...what.headers } })
  )
  const append = (path: string, at: number, body: string, complete = '?0'): Promise<Answer> => {
    const headers = { ...PARTIAL, 'upload-offset': String(at), 'upload-complete': complete }
    return client.ask('PATCH', path, { body, headers })
  }
  const pathOf = ({ headers }: Answer): string => headers.get('location') ?? ''

  test('show their limits to a reader by OPTIONS, and get a 401 without credentials', async () => {
    const { status, headers } = await client.ask('OPTIONS', PATH, { token: 'reader-1' })
    assert.equal(status, 200)
    assert.match(headers.get('upload-limit') ?? '', /max-size=\d+/)
    assert.match(headers.get('allow') ?? '', /OPTIONS, POST/)
    assert.equal((await client.ask('OPTIONS', PATH, { token: null })).status, 401)
  })

  test('have a known offset after a break, and the rest completes them', async () => {
    const path = pathOf(await create())
    assert.match(path, /^\/uploads\/[\w-]{22}$/)
    assert.equal((await append(path, 0, '{"id":11,"na')).status, 204)
    const head = await client.ask('HEAD', path)
    assert.deepEqual([head.status, head.headers.get('upload-offset')], [204, '12'])
    const wrong = await append(path, 5, 'x')
    assert.deepEqual([wrong.status, wrong.json.code], [409, 'upload_offset_mismatch'])
    const done = await append(path, 12, 'me":"Eleven"}\n', '?1')
    assert.deepEqual([done.status, done.json.summary], [200, { total: 1, succeeded: 1, failed: 0 }])
    assert.equal((await client.ask('GET', '/api/users/11')).json.name, 'Eleven')
    const again = await append(path, 26, '', '?1')
    assert.deepEqual([again.status, again.text, again.headers.get('idempotent-replayed')], [200, done.text, 'true'])
  })

  test('belong to their creator, and readers cannot create any', async () => {
    const refused = await create({ token: 'reader-1' })
    assert.deepEqual([refused.status, refused.json.code], [403, 'forbidden'])
    const path = pathOf(await create())
    for (const method of ['HEAD', 'GET', 'PATCH', 'DELETE']) {
      const { status } = await client.ask(method, path, {
        token: 'writer-2',
        headers: { ...PARTIAL, 'upload-offset': '0', 'upload-complete': '?0' },
      })
      assert.equal(status, 404, method)
    }
    assert.equal((await client.ask('DELETE', path)).status, 204)
    assert.equal((await client.ask('HEAD', path)).status, 404)
  })

  test('reject another media type and an unknown parameter before any byte is read', async () => {
    const text = await create({ headers: { 'content-type': 'text/csv' } })
    assert.deepEqual([text.status, text.json.code], [415, 'unsupported_media_type'])
    const path = pathOf(await create())
    assert.equal((await client.ask('HEAD', `${path}?at=1`)).status, 400)
  })

  test('let a page of another origin read the necessary headers', async () => {
    const { headers } = await create({ headers: { origin: 'https://app.example' } })
    const exposed = (headers.get('access-control-expose-headers') ?? '').split(', ')
    for (const name of ['Location', 'Upload-Complete', 'Upload-Limit', 'Upload-Offset']) {
      assert.ok(exposed.includes(name), name)
    }
    const asked = {
      'origin': 'https://app.example', 'access-control-request-method': 'PATCH',
      'access-control-request-headers': 'authorization,upload-offset',
    }
    const preflight = await client.ask('OPTIONS', '/uploads/x', { token: null, headers: asked })
    assert.equal(preflight.status, 200)
    assert.match(preflight.headers.get('access-control-allow-methods') ?? '', /PATCH/)
    assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /upload-offset/)
  })

  test('are sent by client.uploadFile, synchronously and in the background with the report of the task', async () => {
    const api = createClient({ baseUrl: client.url, headers: { authorization: 'Bearer writer-1' } })
    const file = new Blob(['{"id":12,"name":"Twelve"}\n{bad\n'], { type: 'application/x-ndjson' })
    for (const background of [false, true]) {
      const sending = api.uploadFile<UploadResult>(PATH, file, { background, chunkBytes: 10 })
      const { summary, items } = await sending.result()
      assert.deepEqual(summary, { total: 2, succeeded: 1, failed: 1 })
      assert.deepEqual(items.map(({ line }) => line), [2])
    }
  })

  test('have both of their paths in the OpenAPI document', async () => {
    const { paths } = (await client.ask('GET', '/openapi.json')).json as { paths: Record<string, object> }
    assert.deepEqual(Object.keys(paths['/uploads/{id}'] ?? {}).sort(), ['delete', 'get', 'options', 'patch'])
    assert.deepEqual(Object.keys(paths[PATH] ?? {}).sort(), ['options', 'post'])
  })
})
