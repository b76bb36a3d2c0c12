import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { toFetch } from '../../../adapters/fetch/index.js'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { openapi } from '../../../src/openapi/index.js'
import { router } from '../../../src/resources/router.js'
import { resumableUpload } from '../../../src/uploads/index.js'
import { describe as described, type Handler } from '../../../src/http/exchange.js'
import { operation, response } from '../../../src/openapi/operation.js'
import { dereference } from '../../http/kit/dereference.js'
import { digester, PARTIAL, sha256 } from '../kit/uploads.js'

function site() {
  const { handler, seen } = digester()
  const own = described(handler as Handler, [
    operation('POST', {
      summary: 'Take a film',
      responses: { 200: response('Taken', { schema: { type: 'object' } }) },
    }),
  ])
  const films = resumableUpload(own, {
    store: new MemoryStore(), blobs: new MemoryBlobs(), owner: 'anyone', uploadPath: '/uploads/{id}',
  })
  const api = router({
    'POST|OPTIONS /films': films.create, 'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': films.resource,
  })
  return { api, seen }
}

describe('an upload in other bindings', () => {
  test('in longhaul/fetch is ended by a HEAD while it waits for its client, and keeps its bytes', async () => {
    const { api, seen } = site()
    const serve = toFetch(api)
    const ask = (path: string, init: RequestInit & { duplex?: 'half' }) => serve(new Request(`http://x${path}`, init))
    const created = await ask('/films', { method: 'POST', headers: { 'upload-complete': '?0' } })
    const path = String(created?.headers.get('location'))
    const fields = { 'content-type': PARTIAL, 'upload-offset': '0', 'upload-complete': '?1' }
    let pulled = (): void => undefined
    const waiting = new Promise<void>((resolve) => { pulled = resolve })
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => { controller.enqueue(Buffer.from('hello ')) },
      pull: () => { pulled() },
    }, { highWaterMark: 1 })
    const older = ask(path, { method: 'PATCH', headers: fields, body, duplex: 'half' })
    await waiting
    const state = await ask(path, { method: 'HEAD' })
    assert.equal(state?.headers.get('upload-offset'), '6')
    assert.equal((await older)?.status, 409)
    const last = await ask(path, { method: 'PATCH', headers: { ...fields, 'upload-offset': '6' }, body: 'world' })
    assert.deepEqual(await last?.json(), { size: 11, sha256: sha256('hello world') })
    assert.equal(seen.length, 1)
  })

  test('has an OpenAPI description of both handlers', () => {
    const { api } = site()
    const document = dereference<{
      paths: Record<string, Record<string, { responses: Record<string, unknown>, parameters?: { name: string }[] }>>
    }>(openapi(api, { info: { title: 'Films', version: '1' } }))
    assert.deepEqual(Object.keys(document.paths).sort(), ['/films', '/uploads/{id}'])
    const { post, options } = document.paths['/films'] ?? {}
    assert.deepEqual(Object.keys(post?.responses ?? {}), [
      '200', '201', '400', '401', '409', '412', '413', '429', '503', 'default',
    ])
    assert.deepEqual(
      post?.parameters?.map(({ name }) => name),
      ['Upload-Complete', 'Upload-Length', 'Content-Digest', 'Repr-Digest'],
    )
    assert.ok(options)
    const upload = document.paths['/uploads/{id}'] ?? {}
    assert.deepEqual(Object.keys(upload).sort(), ['delete', 'get', 'options', 'patch'])
    assert.ok(upload['patch']?.responses['409'])
  })

  test('throws a TypeError for misuse that says what to do', () => {
    const good = {
      store: new MemoryStore(),
      blobs: new MemoryBlobs(),
      owner: 'anyone',
      uploadPath: '/uploads/{id}',
    } as const
    const wrong: [object, RegExp][] = [
      [{ blobs: undefined }, /option blobs is missing; it must be the blobs/],
      [{ store: undefined }, /option store is missing; it must be the store/],
      [{ owner: undefined }, /option owner is missing/],
      [{ uploadPath: '/uploads' }, /uploadPath must be a path with one \{id\}, such as '\/uploads\/\{id\}'/],
      [{ partBytes: 0 }, /partBytes must be a number of bytes from 1/],
      [{ maxAgeMs: 10 }, /maxAgeMs must be a number of milliseconds from 1000/],
      [{ minAppendBytes: 10, maxAppendBytes: 5 }, /must not be more/],
      [{ check: 1 }, /check must be a function/],
      [{ maxBodyBytes: NaN }, /maxBodyBytes/],
    ]
    for (const [change, message] of wrong) {
      assert.throws(() => resumableUpload(() => undefined, { ...good, ...change }), { name: 'TypeError', message })
    }
    assert.throws(() => resumableUpload(undefined as never, good), /pass the handler/)
    const endpoint = { task: {}, handler: () => undefined }
    assert.throws(() => resumableUpload(endpoint as never, good), /pass its handler\(endpoints\)/)
    const shared = { ...good, store: Object.assign(new MemoryStore(), { shared: true }) }
    assert.throws(() => resumableUpload(() => undefined, shared), /pass shared blobs/)
  })
})
