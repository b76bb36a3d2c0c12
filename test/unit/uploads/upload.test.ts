import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { describe as describeHandler, type Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { httpError } from '../../../src/http/errors.js'
import { openapi } from '../../../src/openapi/document.js'
import { operation } from '../../../src/openapi/operation.js'
import { router } from '../../../src/resources/router.js'
import { inject } from '../../../src/testing/inject.js'
import { resumableUpload } from '../../../src/uploads/index.js'
import { broken, digester, digestHeader, PARTIAL, setUp, sha256 } from '../kit/uploads.js'

const text = 'The quick brown fox jumps over the lazy dog'
const bytes = Buffer.from(text)

describe('the creation of an upload', () => {
  test('gets a 201 with Location, the limits and the offset', async () => {
    const { send } = setUp({ maxBodyBytes: 1000, maxAppendBytes: 100, maxAgeMs: 60_000 })
    const answer = await send('POST', '/files', { 'upload-complete': '?0' }, bytes.subarray(0, 10))
    assert.equal(answer.status, 201)
    assert.match(String(answer.headers['location']), /^\/uploads\/[\w-]{22}$/)
    assert.equal(answer.headers['upload-limit'], 'max-size=1000, max-append-size=100, max-age=60')
    assert.equal(answer.headers['upload-offset'], '10')
    assert.equal(answer.headers['upload-complete'], '?0')
    assert.equal(answer.headers['cache-control'], 'no-store')
  })

  test('gets the response of the handler if one request has all bytes', async () => {
    const { send, seen, blobs } = setUp()
    const answer = await send('POST', '/files?a=1', {
      'upload-complete': '?1', 'content-type': 'text/plain', 'x-name': 'fox', 'authorization': 'Basic eDp5',
    }, bytes)
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['upload-complete'], '?1')
    assert.deepEqual(await answer.json(), { size: 43, sha256: sha256(text) })
    const [whole] = seen
    assert.equal(whole?.method, 'POST')
    assert.equal(whole?.path, '/files')
    assert.equal(whole?.search, '?a=1')
    assert.equal(whole?.headers['content-type'], 'text/plain')
    assert.equal(whole?.headers['content-length'], '43')
    assert.equal(whole?.headers['x-name'], 'fox')
    assert.equal(whole?.headers['authorization'], 'Basic eDp5')
    assert.equal(whole?.headers['upload-complete'], undefined)
    assert.equal(blobs.usage().blobs, 0, 'the parts are deleted')
  })

  test('needs Upload-Complete, without which the handler gets the request unchanged', async () => {
    const { send, seen, blobs } = setUp()
    const answer = await send('POST', '/files', {}, bytes)
    assert.deepEqual(await answer.json(), { size: 43, sha256: sha256(text) })
    assert.equal(answer.headers['upload-complete'], undefined)
    assert.equal(seen.length, 1)
    assert.equal(blobs.usage().blobs, 0)
  })

  test('has its limits in OPTIONS', async () => {
    const { send } = setUp({ maxBodyBytes: 1000, minAppendBytes: 5 })
    const answer = await send('OPTIONS', '/files')
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['upload-limit'], 'max-size=1000, min-append-size=5, max-age=86400')
    // The methods of a handler without a description are those of the router, if there is one.
    assert.equal(answer.headers['allow'], undefined)
  })

  for (const [what, key, allow] of [
    ['of one method', 'POST|OPTIONS /films', 'POST, OPTIONS'],
    ['of two methods', 'PUT|POST|OPTIONS /films', 'POST, PUT, OPTIONS'],
  ] as const) {
    test(`in a plain handler in a route ${what} shows its methods in OPTIONS, the 405 and the document`, async () => {
      const { create } = resumableUpload(digester().handler as Handler, {
        blobs: new MemoryBlobs(), store: new MemoryStore(), owner: 'anyone', uploadPath: '/uploads/{id}',
      })
      const api: Handler = router({ [key]: create })
      const options = await inject(api, { method: 'OPTIONS', path: '/films' })
      const wrong = await inject(api, { method: 'PATCH', path: '/films' })
      assert.deepEqual([options.status, options.headers['allow']], [200, allow])
      assert.deepEqual([wrong.status, wrong.headers['allow']], [405, allow])
      const { paths } = openapi(api, { info: { title: 'Films', version: '1' } }) as { paths: Record<string, object> }
      const described = Object.keys(paths['/films'] ?? {}).map((method) => method.toUpperCase())
      assert.deepEqual(described.sort(), allow.split(', ').sort())
    })
  }

  test('gets a 405 with Allow for a method that the handler does not support, before anything is stored', async () => {
    const { handler, seen } = digester()
    const postOnly = describeHandler(handler, [operation('POST', { summary: 'Send', responses: {} })])
    for (const [own, methods, allow] of [
      [postOnly, ['PUT', 'PATCH', 'QUERY'], 'OPTIONS, POST'],
      [handler, ['QUERY', 'PROPFIND'], 'OPTIONS, PATCH, POST, PUT'],
    ] as const) {
      const { send, blobs } = setUp({}, own)
      for (const method of methods) {
        const answer = await send(method, '/files', { 'upload-complete': '?1' }, bytes)
        assert.deepEqual([answer.status, answer.headers['allow']], [405, allow])
      }
      assert.equal((await send('POST', '/files', { 'upload-complete': '?1' }, bytes)).status, 200)
      assert.equal(blobs.usage().blobs, 0)
    }
    assert.equal(seen.length, 2)
  })

  test('is rejected by check before anything is stored', async () => {
    const check = () => { throw httpError('unsupported_media_type') }
    const { send, blobs } = setUp({ check })
    const answer = await send('POST', '/files', { 'upload-complete': '?1' }, bytes)
    assert.equal(answer.status, 415)
    assert.equal(blobs.usage().blobs, 0)
  })

  test('leaves nothing behind if the client cannot know the path of a broken upload', async () => {
    const { send, blobs } = setUp()
    await send('POST', '/files', { 'upload-complete': '?1' }, broken(bytes))
    assert.equal(blobs.usage().blobs, 0)
  })

  test('gets a 429 above maxPerOwner unfinished uploads, and a finished upload no longer counts', async () => {
    const { send, create, patch } = setUp({ maxPerOwner: 2 })
    const first = await create()
    await create()
    const refused = await send('POST', '/files', { 'upload-complete': '?0' })
    assert.equal(refused.status, 429)
    assert.equal((await refused.json<{ code: string }>()).code, 'too_many_uploads')
    assert.equal((await send('POST', '/files', { 'upload-complete': '?0', 'x-user': 'bob' })).status, 201)
    await patch(first, 0, bytes, true)
    await create()
  })
})

describe('appending to an upload', () => {
  test('gives the handler parts in order as one body', async () => {
    const { create, patch, seen, head } = setUp()
    const path = await create({ 'upload-length': '43', 'content-type': 'text/plain' })
    const first = await patch(path, 0, bytes.subarray(0, 20))
    assert.equal(first.status, 204)
    assert.equal(first.headers['upload-offset'], '20')
    assert.equal(first.headers['upload-complete'], '?0')
    const state = await head(path)
    assert.equal(state.status, 204)
    assert.equal(state.headers['upload-offset'], '20')
    assert.equal(state.headers['upload-length'], '43')
    assert.equal(state.headers['upload-complete'], '?0')
    assert.equal(state.headers['cache-control'], 'no-store')
    const last = await patch(path, 20, bytes.subarray(20), true)
    assert.equal(last.status, 200)
    assert.equal(last.headers['upload-complete'], '?1')
    assert.equal(last.headers['upload-offset'], '43')
    assert.deepEqual(await last.json(), { size: 43, sha256: sha256(text) })
    assert.equal(seen[0]?.headers['content-type'], 'text/plain')
  })

  test('keeps the bytes that arrived before a connection broke', async () => {
    const { create, patch, head } = setUp()
    const path = await create()
    await patch(path, 0, broken(bytes.subarray(0, 7), bytes.subarray(7, 12)), true)
    assert.equal((await head(path)).headers['upload-offset'], '12')
    const answer = await patch(path, 12, bytes.subarray(12), true)
    assert.deepEqual(await answer.json(), { size: 43, sha256: sha256(text) })
  })

  test('completes an upload with an empty last request', async () => {
    const { create, patch } = setUp()
    const path = await create()
    await patch(path, 0, bytes)
    assert.deepEqual(await (await patch(path, 43, undefined, true)).json(), { size: 43, sha256: sha256(text) })
  })

  test('gets a 409 with the right offset for a wrong offset, as the problem of the draft', async () => {
    const { create, patch, send } = setUp()
    const path = await create()
    await patch(path, 0, bytes.subarray(0, 10))
    for (const offset of [0, 9, 11]) {
      const answer = await patch(path, offset, bytes, true)
      assert.equal(answer.status, 409)
      assert.equal(answer.headers['upload-offset'], '10')
      assert.equal(answer.headers['upload-complete'], '?0')
    }
    const problem = await send('PATCH', path, {
      'content-type': PARTIAL, 'upload-offset': '3', 'upload-complete': '?0', 'accept': 'application/problem+json',
    }, bytes)
    assert.equal(problem.headers['content-type'], 'application/problem+json')
    const body = await problem.json<Record<string, unknown>>()
    assert.equal(body['type'], 'https://iana.org/assignments/http-problem-types#mismatching-upload-offset')
    assert.equal(body['expected-offset'], 10)
    assert.equal(body['provided-offset'], 3)
  })

  test('requires Upload-Offset, Upload-Complete and the media type', async () => {
    const { create, send, patch } = setUp()
    const path = await create()
    const good = { 'content-type': PARTIAL, 'upload-offset': '0', 'upload-complete': '?0' }
    for (const [name, status] of [['upload-offset', 400], ['upload-complete', 400], ['content-type', 415]] as const) {
      assert.equal((await send('PATCH', path, { ...good, [name]: undefined }, bytes)).status, status, name)
    }
    for (const wrong of ['-1', '1.5', 'a', '1, 2', '1234567890123456', '"1"']) {
      assert.equal((await send('PATCH', path, { ...good, 'upload-offset': wrong }, bytes)).status, 400, wrong)
    }
    const refused = await send('PATCH', path, { ...good, 'content-type': 'text/plain' }, bytes)
    assert.equal(refused.headers['accept-patch'], PARTIAL)
    // Interop version 5 (draft 03) has no media type of its own.
    const old = { ...good, 'content-type': 'text/plain', 'upload-draft-interop-version': '5' }
    assert.equal((await send('PATCH', path, old, bytes)).status, 201)
    assert.equal((await patch(path, 43, undefined, true)).status, 200)
  })

  test('splits a large part, and each piece counts after it is stored', async () => {
    const { create, patch, head, blobs } = setUp({ partBytes: 10 })
    const path = await create()
    const chunks = Array.from({ length: 5 }, (_, at) => bytes.subarray(at * 8, at * 8 + 8))
    await patch(path, 0, broken(...chunks))
    assert.equal((await head(path)).headers['upload-offset'], '40')
    assert.equal(blobs.usage().blobs, 3)
  })
})

describe('the lengths and limits of an upload', () => {
  test('get a 400 if two announced lengths differ, and the upload continues', async () => {
    const { send, create, patch } = setUp()
    const both = await send('POST', '/files', { 'upload-complete': '?1', 'upload-length': '5' }, bytes)
    assert.equal(both.status, 400)
    const path = await create({ 'upload-length': '43' })
    const other = await patch(path, 0, bytes, false, { 'upload-length': '44' })
    assert.equal(other.status, 400)
    const body = await other.json<Record<string, unknown>>()
    assert.equal(body['code'], 'upload_length_inconsistent')
    assert.equal(body['type'], 'https://iana.org/assignments/http-problem-types#inconsistent-upload-length')
    assert.equal((await patch(path, 0, bytes.subarray(0, 10), true)).status, 400)
    assert.equal((await patch(path, 0, bytes, true)).status, 200)
  })

  for (const length of ['-1', '-0', '+5', '1e3', '0x10', '5.0', '', ' ', '9999999999999999', 'ten', '5, 6']) {
    test(`get a 400 for Upload-Length: ${JSON.stringify(length)}, in the first request and in an append, and for Upload-Offset`, async () => {
      const { send, create, patch, blobs } = setUp()
      const first = await send('POST', '/files', { 'upload-complete': '?0', 'upload-length': length })
      assert.equal((await first.json<{ code: string }>()).code, 'invalid_header')
      assert.equal(first.status, 400)
      assert.equal(blobs.usage().blobs, 0)
      const path = await create()
      assert.equal((await patch(path, 0, bytes, false, { 'upload-length': length })).status, 400)
      const fields = { 'content-type': PARTIAL, 'upload-offset': length, 'upload-complete': '?0' }
      assert.equal((await send('PATCH', path, fields, bytes)).status, 400)
    })
  }

  test('get a 400 for an end without Content-Length before the announced length, and the bytes are kept', async () => {
    const { create, patch, head } = setUp()
    const path = await create({ 'upload-length': '43' })
    const short = await patch(path, 0, streamed(bytes.subarray(0, 30)), true)
    assert.equal(short.status, 400)
    assert.equal((await head(path)).headers['upload-offset'], '30')
    assert.equal((await patch(path, 30, bytes.subarray(30), true)).status, 200)
  })

  test('get a 413 beyond the announced length, and the upload ends', async () => {
    const { create, patch, head, blobs } = setUp()
    const announced = await create({ 'upload-length': '10' })
    assert.equal((await patch(announced, 0, bytes)).status, 413)
    assert.equal((await head(announced)).headers['upload-offset'], '0', 'by Content-Length nothing is read')
    const answer = await patch(announced, 0, streamed(bytes))
    assert.equal(answer.status, 413)
    assert.match(String(answer.headers['upload-limit']), /max-size/)
    assert.equal((await head(announced)).status, 404)
    assert.equal(blobs.usage().blobs, 0)
  })

  test('get a 413 beyond maxBodyBytes, for any announced length and while the bytes arrive', async () => {
    const { send, create, patch, head } = setUp({ maxBodyBytes: 20 })
    assert.equal((await send('POST', '/files', { 'upload-complete': '?0', 'upload-length': '21' })).status, 413)
    assert.equal((await send('POST', '/files', { 'upload-complete': '?1' }, bytes)).status, 413)
    assert.equal((await send('POST', '/files', { 'upload-complete': '?1' }, streamed(bytes))).status, 413)
    const path = await create()
    assert.equal((await patch(path, 0, undefined, false, { 'upload-length': '30' })).status, 413)
    assert.equal((await patch(path, 0, bytes)).status, 413)
    assert.equal((await patch(path, 0, streamed(bytes))).status, 413)
    assert.equal((await head(path)).status, 404)
  })

  test('get a 413 above maxAppendBytes, and the first bytes of a body without Content-Length stay', async () => {
    const { create, patch, head } = setUp({ maxAppendBytes: 20 })
    const path = await create()
    assert.equal((await patch(path, 0, bytes)).status, 413)
    const answer = await patch(path, 0, streamed(bytes))
    assert.equal(answer.status, 413)
    assert.equal(answer.headers['upload-offset'], '20')
    assert.equal((await head(path)).headers['upload-offset'], '20')
    await patch(path, 20, bytes.subarray(20, 40))
    const last = await patch(path, 40, bytes.subarray(40), true)
    assert.deepEqual(await last.json(), { size: 43, sha256: sha256(text) })
  })

  test('get a 400 for a part below minAppendBytes, unless it is the last one or broken', async () => {
    const { create, patch, head } = setUp({ minAppendBytes: 10 })
    const path = await create()
    const small = await patch(path, 0, bytes.subarray(0, 9))
    assert.equal(small.status, 400)
    assert.equal((await small.json<{ code: string }>()).code, 'upload_append_too_small')
    assert.equal((await head(path)).headers['upload-offset'], '0')
    await patch(path, 0, broken(bytes.subarray(0, 9)))
    assert.equal((await head(path)).headers['upload-offset'], '9')
    await patch(path, 9, bytes.subarray(9, 40))
    assert.equal((await patch(path, 40, bytes.subarray(40), true)).status, 200)
  })

  test('get a 413 above maxParts, and the stored parts stay', async () => {
    const { create, patch, head } = setUp({ maxParts: 2 })
    const path = await create()
    await patch(path, 0, bytes.subarray(0, 1))
    await patch(path, 1, bytes.subarray(1, 2))
    const answer = await patch(path, 2, bytes.subarray(2))
    assert.equal(answer.status, 413)
    assert.equal((await head(path)).headers['upload-offset'], '2')
  })
})

describe('the digests of an upload', () => {
  test('get a 400 for a wrong Content-Digest, and none of the bytes of the request count, however many they are', async () => {
    const { create, patch, head, blobs } = setUp({ partBytes: 4 })
    const path = await create()
    const good = { 'content-digest': digestHeader(bytes.subarray(0, 20)) }
    assert.equal((await patch(path, 0, bytes.subarray(0, 20), false, good)).status, 204)
    const bad = await patch(path, 20, chunked(bytes.subarray(20), 3), true, { 'content-digest': digestHeader('other') })
    assert.equal(bad.status, 400)
    assert.equal((await bad.json<{ code: string }>()).code, 'digest_mismatch')
    assert.equal(bad.headers['upload-offset'], '20')
    assert.equal((await head(path)).headers['upload-offset'], '20')
    assert.equal(blobs.usage().blobs, 1)
    const rest = { 'content-digest': digestHeader(bytes.subarray(20)) }
    assert.equal((await patch(path, 20, bytes.subarray(20), true, rest)).status, 200)
  })

  test('cover the whole if Repr-Digest is in the first or in the last request', async () => {
    const { create, patch, seen } = setUp()
    const first = await create({ 'repr-digest': digestHeader(text) })
    assert.equal((await patch(first, 0, bytes, true)).status, 200)
    const last = await create()
    assert.equal((await patch(last, 0, bytes, true, { 'repr-digest': digestHeader(text) })).status, 200)
    assert.equal(seen.length, 2)
  })

  test('get a 400 for a wrong Repr-Digest before the handler sees a byte, and again in a retry', async () => {
    const { create, patch, seen, head, blobs } = setUp()
    const path = await create({ 'repr-digest': digestHeader('other') })
    for (const offset of [0, 43]) {
      const answer = await patch(path, offset, offset === 0 ? bytes : undefined, true)
      assert.equal(answer.status, 400)
      assert.equal(answer.headers['upload-complete'], '?1')
      assert.match(await answer.text(), /The content is not what its Repr-Digest says/)
    }
    assert.equal((await head(path)).headers['upload-complete'], '?1')
    assert.equal(seen.length, 0)
    assert.equal(blobs.usage().blobs, 0)
  })

  test('are rejected before anything is stored if they are malformed', async () => {
    const { send, create, patch, head } = setUp()
    const bad = { 'upload-complete': '?0', 'repr-digest': 'sha-256=:AAAA:' }
    assert.equal((await send('POST', '/files', bad, bytes)).status, 400)
    const path = await create()
    assert.equal((await patch(path, 0, bytes, false, { 'content-digest': 'sha-256=:AAAA:' })).status, 400)
    assert.equal((await head(path)).headers['upload-offset'], '0')
  })
})

describe('the response to an upload', () => {
  test('is sent again if it was lost, and the handler runs once', async () => {
    const { create, patch, seen, head } = setUp()
    const path = await create()
    const first = await (await patch(path, 0, bytes, true)).text()
    const state = await head(path)
    assert.equal(state.headers['upload-offset'], '43')
    assert.equal(state.headers['upload-complete'], '?1')
    const again = await patch(path, 43, undefined, true)
    assert.equal(again.status, 200)
    assert.equal(again.headers['upload-complete'], '?1')
    assert.equal(await again.text(), first)
    assert.equal(seen.length, 1)
    assert.equal((await patch(path, 43, bytes, true)).status, 400)
    assert.equal((await patch(path, 0, bytes, true)).status, 409)
  })

  test('comes from one run of the handler for two concurrent last requests', async () => {
    const { create, patch, seen } = setUp()
    const path = await create()
    await patch(path, 0, bytes)
    const answers = await Promise.all([1, 2, 3].map(() => patch(path, 43, undefined, true)))
    assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200])
    assert.equal(seen.length, 1)
  })

  test('is kept with Upload-Complete: ?1 if it is an error of the handler', async () => {
    let runs = 0
    const { create, patch } = setUp({}, () => {
      runs++
      throw httpError('unprocessable')
    })
    const path = await create()
    for (const offset of [0, 43]) {
      const answer = await patch(path, offset, offset === 0 ? bytes : undefined, true)
      assert.equal(answer.status, 422)
      assert.equal(answer.headers['upload-complete'], '?1')
    }
    assert.equal(runs, 1)
  })

  test('is not kept if it is temporary, and the handler gets the same bytes again', async () => {
    let runs = 0
    const { create, patch } = setUp({}, async ({ body }) => {
      runs++
      if (runs === 1) throw httpError('queue_full', { headers: { 'retry-after': '1' } })
      const all = await body.bytes(100)
      return json(202, { size: all?.byteLength })
    })
    const path = await create()
    const busy = await patch(path, 0, bytes, true)
    assert.equal(busy.status, 503)
    assert.equal(busy.headers['upload-complete'], '?0')
    const taken = await patch(path, 43, undefined, true)
    assert.equal(taken.status, 202)
    assert.deepEqual(await taken.json(), { size: 43 })
    assert.equal(runs, 2)
  })

  test('is kept for an upload in one request too, and has the path of the upload', async () => {
    let runs = 0
    const { send, patch } = setUp({}, () => {
      if (++runs === 1) throw httpError('queue_full', { headers: { 'retry-after': '1' } })
      return json(200, {})
    })
    const busy = await send('POST', '/files', { 'upload-complete': '?1' }, bytes)
    assert.equal(busy.status, 503)
    assert.equal(busy.headers['upload-offset'], '43')
    assert.equal((await patch(String(busy.headers['location']), 43, undefined, true)).status, 200)
  })
})

describe('the access to an upload', () => {
  test('gets the same bytes for ids that are unknown, malformed, dropped or of another owner', async () => {
    const { create, send, head, patch } = setUp()
    const path = await create({ 'x-user': 'ann' })
    const gone = await create({ 'x-user': 'bob' })
    assert.equal((await send('DELETE', gone, { 'x-user': 'bob' })).status, 204)
    const places = [path, gone, '/uploads/AAAAAAAAAAAAAAAAAAAAAA', '/uploads/x']
    const bodies = new Set<string>()
    for (const place of places) {
      for (const method of ['GET', 'DELETE']) {
        const answer = await send(method, place, { 'x-user': 'bob' })
        assert.equal(answer.status, 404)
        bodies.add(await answer.text())
      }
      const answer = await patch(place, 0, bytes, false, { 'x-user': 'bob' })
      assert.equal(answer.status, 404)
      bodies.add(await answer.text())
    }
    assert.equal(bodies.size, 1)
    assert.equal((await head(path, { 'x-user': 'ann' })).status, 204)
    assert.equal((await head(path)).status, 404, 'an anonymous client is another owner')
  })

  test('gets a 404 once it has expired, and its bytes are deleted', async () => {
    let now = 0
    const clock = { now: () => now }
    const blobs = new MemoryBlobs(clock)
    const { create, patch, head } = setUp({
      store: new MemoryStore(clock), blobs, maxAgeMs: 60_000, retentionMs: 10_000,
    })
    const path = await create()
    await patch(path, 0, bytes.subarray(0, 10))
    now = 20_000
    assert.match(String((await head(path)).headers['upload-limit']), /max-age=40$/)
    await patch(path, 10, bytes.subarray(10, 20))
    now = 60_001
    assert.equal((await head(path)).status, 404)
    assert.equal((await patch(path, 20, bytes.subarray(20), true)).status, 404)
    assert.equal(blobs.usage().blobs, 2)
    now = 20_000 + 70_001
    // The blobs remove what has expired within a second.
    while (blobs.usage().blobs > 0) await sleep(20)
  })

  test('deletes the parts with DELETE', async () => {
    const { create, patch, send, blobs } = setUp()
    const path = await create()
    await patch(path, 0, bytes)
    assert.equal(blobs.usage().blobs, 1)
    assert.equal((await send('DELETE', path)).status, 204)
    assert.equal(blobs.usage().blobs, 0)
  })

  test('gets a 405 for another method', async () => {
    const { create, send } = setUp()
    const answer = await send('PUT', await create(), {}, bytes)
    assert.equal(answer.status, 405)
    assert.equal(answer.headers['allow'], 'DELETE, GET, HEAD, OPTIONS, PATCH')
  })
})

async function* streamed(all: Uint8Array): AsyncGenerator<Uint8Array> {
  yield all
}

async function* chunked(all: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < all.byteLength; at += size) yield all.subarray(at, at + size)
}
