// All bytes of an upload are there, and another request comes before the handler gets them.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { httpError } from '../../../src/http/errors.js'
import { json } from '../../../src/http/respond.js'
import type { BlobPutOptions } from '../../../src/stores/blobs.js'
import { deferred, eventually } from '../../kit/wait.js'
import { Spy, SpyStore } from '../kit/tasks.js'
import { broken, digestHeader, setUp, sha256 } from '../kit/uploads.js'

const text = 'The quick brown fox jumps over the lazy dog'
const bytes = Buffer.from(text)
const LENGTH = { 'upload-length': String(bytes.length) }
const whole = { size: bytes.length, sha256: sha256(text) }

/** Blobs whose write of a blob waits after its last chunk until the test lets it continue. */
class SlowBlobs extends MemoryBlobs {
  readonly arrived = deferred<void>()
  readonly released = deferred<void>()

  override put(key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions) {
    return super.put(key, this.#waiting(content), options)
  }

  async* #waiting(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of content) {
      yield chunk
      this.arrived.resolve()
      await this.released.promise
    }
  }
}

/** A store that calls `onAsked` when a request asks the one that appends to stop. */
class AskedStore extends MemoryStore {
  readonly asked = deferred<void>()

  override replace(...all: Parameters<MemoryStore['replace']>) {
    const outcome = super.replace(...all)
    // After the notice, which makes the request that appends read the state.
    if (all[1].includes('"asked":true')) setImmediate(() => { this.asked.resolve() })
    return outcome
  }
}

/** Sends all bytes in a last request, and `next` before these are stored. */
async function meanwhile(
  next: (site: ReturnType<typeof setUp>, path: string) => Promise<unknown>, headers = {},
) {
  const [store, blobs] = [new AskedStore(), new SlowBlobs()]
  const site = setUp({ store, blobs })
  const path = await site.create(LENGTH)
  const last = site.patch(path, 0, bytes, true, headers)
  await blobs.arrived.promise
  const other = next(site, path)
  await store.asked.promise
  blobs.released.resolve()
  return { site, path, last: await last, other: await other as Awaited<ReturnType<typeof site.head>> }
}

/** Waits until the state of an upload has a property. */
async function stateHas(store: MemoryStore, path: string, text: string): Promise<void> {
  const key = `upload:${path.slice('/uploads/'.length)}`
  await eventually(async () => (await store.get(key))?.value.includes(text) === true)
}

/** Sends all bytes, but the process dies before the handler gets them. Returns another process. */
async function orphaned(own?: Parameters<typeof setUp>[1]) {
  const parts = { store: new MemoryStore(), blobs: new MemoryBlobs() }
  const dying = setUp(parts)
  const path = await dying.create(LENGTH)
  const { create } = parts.store
  // The claim of the handler is never made.
  parts.store.create = () => new Promise(() => undefined)
  void dying.patch(path, 0, bytes, true)
  await stateHas(parts.store, path, '"received":true')
  parts.store.create = create
  return { ...setUp(parts, own), path, dying }
}

describe('a request while the last bytes of an upload are being stored', () => {
  test('does not end the upload if it is a HEAD, and the handler gets all bytes once', async () => {
    const { site, last, other } = await meanwhile(({ head }, path) => head(path))
    assert.deepEqual([last.status, await last.json()], [200, whole])
    assert.deepEqual([other.headers['upload-offset'], other.headers['upload-complete']], ['43', '?1'])
    assert.equal(site.seen.length, 1)
  })

  test('gets the same response if it is an empty last PATCH', async () => {
    const { site, last, other } = await meanwhile(({ patch }, path) => patch(path, 43, undefined, true))
    assert.deepEqual([await last.json(), await other.json()], [whole, whole])
    assert.equal(site.seen.length, 1)
  })

  test('sends the bytes again if their Content-Digest was not compared', async () => {
    const headers = { 'content-digest': digestHeader(bytes) }
    const { site, path, last, other } = await meanwhile(({ head }, at) => head(at), headers)
    assert.equal(last.status, 409)
    assert.deepEqual([other.headers['upload-offset'], other.headers['upload-complete']], ['0', '?0'])
    assert.equal((await site.patch(path, 0, bytes, true, headers)).status, 200)
    assert.equal(site.seen.length, 1)
  })
})

describe('an upload with all its bytes', () => {
  test('loses nothing if the connection breaks after the last byte of a last request', async () => {
    const { create, patch, seen } = setUp()
    const path = await create(LENGTH)
    assert.deepEqual(await (await patch(path, 0, broken(bytes), true)).json(), whole)
    assert.equal(seen.length, 1)
  })

  test('waits for its last request', async () => {
    const { create, patch, head, seen } = setUp()
    const path = await create(LENGTH)
    await patch(path, 0, bytes)
    const state = await head(path)
    assert.deepEqual([state.headers['upload-offset'], state.headers['upload-complete']], ['43', '?0'])
    assert.equal(state.headers['upload-length'], undefined, 'a client would take it for the end')
    assert.equal(seen.length, 0)
    assert.deepEqual(await (await patch(path, 43, undefined, true)).json(), whole)
  })

  test('is concluded by a HEAD after the process of its last request froze', async () => {
    const [store, blobs] = [new MemoryStore(), new MemoryBlobs()]
    const own = setUp({ store, blobs, partBytes: bytes.length })
    const path = await own.create(LENGTH)
    const [end, thawed] = [deferred(), deferred()]
    async function* hanging(): AsyncGenerator<Uint8Array> {
      yield bytes
      await end.promise
    }
    const frozen = own.patch(path, 0, hanging(), true)
    await stateHas(store, path, `"offset":${bytes.length}`)
    const replace = store.replace.bind(store)
    store.replace = (async (...all: Parameters<typeof replace>) => {
      await thawed.promise
      return replace(...all)
    })
    end.resolve()
    await new Promise((resolve) => { setImmediate(resolve) })
    store.replace = replace
    const other = setUp({ store, blobs })
    const state = await other.head(path)
    assert.deepEqual([state.headers['upload-offset'], state.headers['upload-complete']], ['43', '?1'])
    thawed.resolve()
    assert.deepEqual(await (await frozen).json(), whole)
    assert.equal(own.seen.length + other.seen.length, 1)
  })

  test('is passed to the handler by a HEAD if the process that received it has died', async () => {
    const { head, patch, seen, path, dying, blobs } = await orphaned()
    const state = await head(path)
    assert.deepEqual([state.status, state.headers['upload-complete']], [204, '?1'])
    assert.deepEqual(seen.map((each) => each.sha256), [sha256(text)])
    assert.deepEqual(await (await patch(path, 43, undefined, true)).json(), whole)
    assert.equal(seen.length + dying.seen.length, 1)
    assert.equal(blobs.usage().blobs, 0)
  })

  test('has no final response of the handler yet, and a HEAD shows this by a response without a length', async () => {
    let runs = 0
    const { head, patch, path } = await orphaned(() => {
      if (++runs === 1) throw httpError('queue_full', { headers: { 'retry-after': '1' } })
      return json(200, {})
    })
    const state = await head(path)
    assert.deepEqual([state.status, state.headers['upload-complete']], [204, '?0'])
    assert.equal(state.headers['upload-length'], undefined)
    assert.equal((await patch(path, 43, undefined, true)).status, 200)
  })

  test('gets the 500 of a handler that fails after a HEAD, and the error is reported', async () => {
    const { head, path, errors } = await orphaned(() => { throw new Error('broken') })
    assert.equal((await head(path)).status, 500)
    assert.equal(errors.length, 1)
    assert.equal((await head(path)).headers['upload-complete'], '?1')
  })

  test('is not passed to the handler after a DELETE', async () => {
    const [store, blobs] = [new MemoryStore(), new MemoryBlobs()]
    const { create, patch, send, seen } = setUp({ store, blobs })
    const path = await create(LENGTH)
    const claim = store.create.bind(store)
    const deleted = deferred<void>()
    // The request that has received the bytes is slow.
    store.create = (async (...all: Parameters<typeof claim>) => {
      await deleted.promise
      return claim(...all)
    })
    const last = patch(path, 0, bytes, true)
    await stateHas(store, path, '"received":true')
    store.create = claim
    assert.equal((await send('DELETE', path)).status, 204)
    deleted.resolve()
    assert.equal((await last).status, 404)
    assert.equal(blobs.usage().blobs, 0)
    assert.equal(seen.length, 0)
  })
})

describe('the response to an upload is evicted', () => {
  const answerKey = (path: string): string => path.replace('/uploads/', 'upload-answer:')

  test('its handler does not run again, even if its process froze after it had stored the response', async () => {
    const [store, blobs, freezing] = [new MemoryStore(), new MemoryBlobs(), new Spy()]
    let isFrozen = false
    class Freezing extends SpyStore {
      override async get(key: string) {
        return isFrozen ? new Promise<undefined>(() => undefined) : super.get(key)
      }

      override async replace(...all: Parameters<SpyStore['replace']>) {
        const outcome = await super.replace(...all)
        if (all[1].includes('"response"')) isFrozen = true
        return outcome
      }
    }
    const own = setUp({ store: new Freezing(store, freezing), blobs })
    const path = await own.create(LENGTH)
    void own.patch(path, 0, bytes, true)
    await eventually(() => isFrozen)
    const other = setUp({ store, blobs })
    assert.deepEqual(await (await other.patch(path, 43, undefined, true)).json(), whole)
    assert.equal(await store.delete(answerKey(path)), true)
    assert.equal((await other.patch(path, 43, undefined, true)).status, 404)
    assert.equal(own.seen.length + other.seen.length, 1)
  })

  test('a request that has read the upload before its handler responded does not call it again', async () => {
    const [store, blobs] = [new MemoryStore(), new MemoryBlobs()]
    const own = setUp({ store, blobs })
    const path = await own.create(LENGTH)
    const claim = store.create.bind(store)
    const evicted = deferred<void>()
    // Of the two requests that have found all bytes, the first to claim the handler is slow.
    let claims = 0
    store.create = (async (...all: Parameters<typeof claim>) => {
      if (all[0] === answerKey(path) && ++claims === 1) await evicted.promise
      return claim(...all)
    })
    const slow = own.patch(path, 0, bytes, true)
    await stateHas(store, path, '"received":true')
    await eventually(() => claims === 1)
    assert.deepEqual(await (await own.patch(path, 43, undefined, true)).json(), whole)
    assert.equal(await store.delete(answerKey(path)), true)
    evicted.resolve()
    assert.equal((await slow).status, 404, 'not the 410 of a handler whose bytes are gone')
    assert.equal(own.seen.length, 1)
  })
})
