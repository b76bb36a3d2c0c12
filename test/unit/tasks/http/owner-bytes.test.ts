import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { MemoryBlobs, memory } from '../../../../adapters/memory/index.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { setUp as setUpUploads } from '../../kit/uploads.js'
import { ended, Spy, SpyStore } from '../../kit/tasks.js'
import { bodyOf, KINDS, piecesOf, setUp, type Setting } from '../../kit/background-bodies.js'
import { deferred, eventually } from '../../../kit/wait.js'

const REFUSED = '429 too_many_bytes'

/** A server in memory on which one owner may have 1000 bytes. */
function inMemory(t: TestContext, more: Partial<Setting> & { readonly now?: () => number } = {}) {
  const { store, engine } = memory()
  const { now, ...given } = more
  const blobs = new MemoryBlobs(now && { now })
  const setting = { store, engine, blobs, maxBytesPerOwner: 1000, ...given }
  return { ...setting, ...setUp(t, setting), blobs }
}

for (const kind of KINDS) {
  describe(`maxBytesPerOwner of ${kind} in the background`, () => {
    test('gives a body above the remaining bytes a 429, leaves nothing, and does not affect other owners', async (t) => {
      const { sized, send, blobs } = inMemory(t)
      assert.equal(await sized(kind, 600), '202')
      const refused = await send(kind, bodyOf(kind, 401), { user: 'ann' })
      assert.deepEqual([refused.status, refused.code, refused.retryAfter], [429, 'too_many_bytes', '60'])
      assert.equal(blobs.usage().blobs, 1)
      assert.equal(await sized(kind, 400), '202')
      assert.equal(await sized(kind, 20), REFUSED)
      assert.equal(await sized(kind, 1000, { user: 'bob' }), '202')
    })

    test('gives a body that is larger than the limit a 413 and leaves nothing, with and without Content-Length', async (t) => {
      const { sized, send, blobs } = inMemory(t)
      assert.equal(await sized(kind, 1001), '413 body_too_large')
      assert.equal((await send(kind, piecesOf(kind, 1001, 100), { user: 'ann' })).status, 413)
      assert.equal(blobs.usage().blobs, 0)
      assert.equal(await sized(kind, 1000), '202')
    })

    test('counts a body of unknown length while it arrives, and then its bytes', async (t) => {
      const { sized, send, blobs } = inMemory(t)
      assert.equal(await sized(kind, 500), '202')
      const refused = await send(kind, piecesOf(kind, 600, 100), { user: 'ann' })
      assert.deepEqual([refused.status, refused.code], [429, 'too_many_bytes'])
      assert.equal(blobs.usage().blobs, 1)
      assert.equal((await send(kind, piecesOf(kind, 400, 100), { user: 'ann' })).status, 202)
      assert.equal(await sized(kind, 101), REFUSED)
      assert.equal(await sized(kind, 100), '202')
    })

    test('keeps the reservation of a body that arrives slowly', async (t) => {
      const { sized, send } = inMemory(t)
      const [begun, last] = [deferred(), deferred()]
      const pieces = async function* () {
        begun.resolve()
        yield* piecesOf(kind, 600, 100, last.promise)
      }
      const slow = send(kind, pieces(), { user: 'ann', headers: { 'content-length': '600' } })
      await begun.promise
      for (let at = 0; at < 2; at++) assert.equal(await sized(kind, 401), REFUSED)
      last.resolve()
      assert.equal((await slow).status, 202)
      assert.equal(await sized(kind, 401), REFUSED)
      assert.equal(await sized(kind, 400), '202')
    })

    test('counts nothing of a connection that breaks', async (t) => {
      const { sized, send, blobs } = inMemory(t)
      const last = deferred()
      last.reject(new Error('The connection broke'))
      for (const headers of [{}, { 'content-length': '600' }]) {
        const sent = { user: 'ann', headers: headers as Record<string, string> }
        assert.ok((await send(kind, piecesOf(kind, 600, 100, last.promise), sent)).status >= 400)
      }
      assert.equal(blobs.usage().blobs, 0)
      assert.equal(await sized(kind, 1000), '202')
    })

    test('no longer counts the bytes of a completed task', async (t) => {
      const { send, sized, tasks, go } = inMemory(t)
      const { taskId } = await send(kind, bodyOf(kind, 1000), { user: 'ann' })
      assert.equal(await sized(kind, 20), REFUSED)
      go()
      assert.equal((await ended(tasks, taskId)).status, 'completed')
      await eventually(async () => await sized(kind, 1000) === '202')
    })

    test('counts a cancelled task until it is deleted, because a retry needs its body', async (t) => {
      const { send, sized, tasks } = inMemory(t)
      const { taskId } = await send(kind, bodyOf(kind, 1000), { user: 'ann' })
      await tasks.cancel(taskId)
      await ended(tasks, taskId)
      assert.equal(await sized(kind, 20), REFUSED)
      assert.equal(await tasks.delete(taskId), true)
      assert.equal(await sized(kind, 1000), '202')
    })

    test('no longer counts a body that has expired', async (t) => {
      let now = 0
      const { sized } = inMemory(t, { now: () => now, blobRetentionMs: 10_000 })
      assert.equal(await sized(kind, 1000), '202')
      assert.equal(await sized(kind, 20), REFUSED)
      now = 10_001
      assert.equal(await sized(kind, 1000), '202')
    })

    test('is not exceeded by many concurrent bodies', async (t) => {
      const { sized } = inMemory(t)
      const answers = await Promise.all(Array.from({ length: 40 }, () => sized(kind, 100)))
      const expected = [...Array<string>(10).fill('202'), ...Array<string>(30).fill(REFUSED)]
      assert.deepEqual(answers.sort(), expected)
    })

    test('counts clients without an owner by network', async (t) => {
      const { sized } = inMemory(t)
      assert.equal(await sized(kind, 1000, { peerAddress: '192.0.2.1' }), '202')
      assert.equal(await sized(kind, 20, { peerAddress: '192.0.2.1' }), REFUSED)
      assert.equal(await sized(kind, 1000, { peerAddress: '192.0.2.2' }), '202')
    })

    test('does not count a body whose task is not accepted, nor a repeated body', async (t) => {
      const { store } = memory()
      const spy = new Spy()
      const { sized, blobs } = inMemory(t, { store: new SpyStore(store, spy), maxPerOwner: 1 })
      const list = () => spy.calls.filter((call) => /^(replace|delete) owner-bytes:/.test(call)).length
      const keyed = { user: 'ann', headers: { 'idempotency-key': '"a"' } }
      assert.equal(await sized(kind, 400, keyed), '202')
      assert.equal(list(), 1, 'it has arrived')
      assert.equal(await sized(kind, 400, keyed), '202')
      assert.equal(list(), 4, 'reserved, arrived, and removed')
      assert.equal(await sized(kind, 500), '429 too_many_tasks')
      assert.equal(list(), 7)
      assert.equal(blobs.usage().blobs, 1)
    })

    test('counts an upload in its handler once, together with the other bodies', async (t) => {
      const { store, blobs, handlers, sized } = inMemory(t)
      const { create, patch, send } = setUpUploads({ store, blobs, maxBytesPerOwner: 1000 }, handlers[kind])
      const ann = { 'x-user': 'ann' }
      const type = kind === 'bulk' ? 'application/json' : 'application/x-ndjson'
      const head = { ...ann, 'content-type': type, 'prefer': 'respond-async', 'upload-length': '1000' }
      const path = await create(head)
      assert.equal(await sized(kind, 20), REFUSED)
      assert.equal((await patch(path, 0, bodyOf(kind, 1000), true, ann)).status, 202)
      assert.equal(await sized(kind, 20), REFUSED)
      const more = { ...ann, 'upload-complete': '?0', 'upload-length': '20' }
      assert.equal((await send('POST', '/files', more)).status, 429)
    })

    test('is a quarter of the blobs in memory by default', async (t) => {
      const { store, engine } = memory()
      const { sized } = setUp(t, { store, engine, blobs: new MemoryBlobs({ maxBytes: 2 ** 20 }) })
      assert.equal(await sized(kind, 2 ** 18 + 1), '413 body_too_large')
      assert.equal(await sized(kind, 2 ** 18), '202')
      assert.equal(await sized(kind, 20), REFUSED)
    })

    test('does not write its list for every piece', async (t) => {
      const { store } = memory()
      const spy = new Spy()
      const { send } = inMemory(t, { store: new SpyStore(store, spy), maxBytesPerOwner: 2 ** 25 })
      const writes = () => spy.writes.filter((call) => call.includes('owner-bytes:')).length
      const sent = { user: 'ann', headers: { 'content-length': String(2 ** 22) } }
      assert.equal((await send(kind, piecesOf(kind, 2 ** 22, 4096), sent)).status, 202)
      assert.equal(writes(), 2, 'reserved, and arrived')
      assert.equal((await send(kind, piecesOf(kind, 2 ** 22, 4096), { user: 'bob' })).status, 202)
      assert.ok(writes() < 9, String(writes()))
    })
  })
}

describe('maxBytesPerOwner of one store', () => {
  test('is shared by bulk and NDJSON, even if their blobs differ', async (t) => {
    const { sized } = inMemory(t, { bulkBlobs: new MemoryBlobs() })
    assert.equal(await sized('bulk', 600), '202')
    for (let at = 0; at < 2; at++) assert.equal(await sized('ndjson', 500), REFUSED)
    assert.equal(await sized('ndjson', 400), '202')
    for (let at = 0; at < 2; at++) assert.equal(await sized('bulk', 20), REFUSED)
  })

  test('counts a synchronous bulk request that becomes a task', async (t) => {
    const { send, sized } = inMemory(t, { maxBytesPerOwner: 2 ** 23 })
    const large = 2 ** 22 + 100
    const sent = { user: 'ann', headers: { prefer: 'return=representation' } }
    assert.equal((await send('bulk', piecesOf('bulk', large, 65_536), sent)).status, 202)
    assert.equal(await sized('bulk', large), REFUSED)
  })

  test('is a whole number from 1, or Infinity', () => {
    const tasks = createTasks({ ...memory(), definitions: [] })
    const make = (maxBytesPerOwner: number) => (
      () => taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', maxBytesPerOwner })
    )
    for (const wrong of [0, -1, 1.5, Number.NaN]) assert.throws(make(wrong), /maxBytesPerOwner/, String(wrong))
    for (const right of [1, Infinity]) assert.doesNotThrow(make(right), String(right))
  })
})
