import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import type { Store } from '../../../src/stores/store.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import { setUp, sha256 } from '../kit/uploads.js'

/** A body that a test feeds, chunk by chunk, and that never ends by itself. */
class Feed implements AsyncIterable<Uint8Array> {
  readonly #chunks: (Uint8Array | undefined)[] = []
  #wake: () => void = () => undefined
  #idle: () => void = () => undefined

  push(chunk: Uint8Array | undefined): void {
    this.#chunks.push(chunk)
    this.#wake()
  }

  /** Resolves when all chunks are read and the reader waits for more. */
  drained(): Promise<void> {
    return new Promise((resolve) => { this.#idle = resolve })
  }

  async* [Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      while (this.#chunks.length > 0) {
        const chunk = this.#chunks.shift()
        if (chunk === undefined) return
        yield chunk
      }
      this.#idle()
      await new Promise<void>((resolve) => { this.#wake = resolve })
    }
  }
}

const text = 'The quick brown fox jumps over the lazy dog'
const bytes = Buffer.from(text)

type Call = (...all: unknown[]) => unknown

/** A store whose calls go through `change`. */
function changed(store: Store, change: (name: string, call: Call) => Call): Store {
  const names = ['get', 'create', 'replace', 'delete', 'increment', 'watch', 'close'] as const
  const calls = names.map((name) => [name, change(name, (store[name] as Call).bind(store))])
  return { shared: store.shared, ...Object.fromEntries(calls) } as Store
}

/** The store of another process: the same entries, and no notices. */
function deaf(store: Store): Store {
  return changed(store, (name, call) => name === 'watch' ? () => () => undefined : call)
}

describe('two requests that append to one upload', () => {
  test('are ended by a HEAD, which keeps their bytes and returns a valid offset', async () => {
    const { create, patch, head } = setUp()
    const path = await create()
    const feed = new Feed()
    feed.push(bytes.subarray(0, 10))
    const drained = feed.drained()
    const older = patch(path, 0, feed, true)
    await drained
    const state = await head(path)
    assert.equal(state.headers['upload-offset'], '10')
    const cut = await older
    assert.equal(cut.status, 409)
    assert.equal((await cut.json<{ code: string }>()).code, 'upload_superseded')
    assert.equal(cut.headers['upload-offset'], '10')
    feed.push(Buffer.from('never'))
    const answer = await patch(path, 10, bytes.subarray(10), true)
    assert.deepEqual(await answer.json(), { size: 43, sha256: sha256(text) })
  })

  test('follow each other: a newer PATCH at the right offset continues where the older PATCH was ended', async () => {
    const { create, patch, send } = setUp()
    const path = await create()
    const feed = new Feed()
    feed.push(bytes.subarray(0, 10))
    const drained = feed.drained()
    const older = patch(path, 0, feed, true)
    await drained
    assert.equal((await patch(path, 0, Buffer.from('wrong'), true)).status, 409)
    assert.equal((await older).status, 409)
    const answer = await patch(path, 10, bytes.subarray(10), true)
    assert.deepEqual(await answer.json(), { size: 43, sha256: sha256(text) })
    assert.equal((await send('DELETE', path)).status, 204)
  })

  test('are ended by a DELETE, which leaves nothing', async () => {
    const { create, patch, send, head, blobs } = setUp()
    const path = await create()
    const feed = new Feed()
    feed.push(bytes)
    const drained = feed.drained()
    const older = patch(path, 0, feed, true)
    await drained
    assert.equal((await send('DELETE', path)).status, 204)
    assert.equal((await older).status, 404)
    assert.equal((await head(path)).status, 404)
    assert.equal(blobs.usage().blobs, 0)
  })

  test('notice each other by a read if their process gets no notices', async () => {
    const store = new MemoryStore()
    const blobs = new MemoryBlobs()
    const other = setUp({ store: deaf(store), blobs })
    const own = setUp({ store, blobs })
    const path = await own.create()
    const feed = new Feed()
    feed.push(bytes.subarray(0, 10))
    const drained = feed.drained()
    const older = other.patch(path, 0, feed, true)
    await drained
    assert.equal((await own.head(path)).headers['upload-offset'], '10')
    assert.equal((await older).status, 409)
  })

  test('do not mix their bytes, because a frozen writer is rejected when it continues', async () => {
    const store = new MemoryStore()
    const blobs = new MemoryBlobs()
    let thaw = (): void => undefined
    const frozen = new Promise<void>((resolve) => { thaw = resolve })
    let isFrozen = false
    const stuck = changed(store, (_, call) => async (...all) => {
      if (isFrozen) await frozen
      return call(...all)
    })
    const other = setUp({ store: stuck, blobs })
    const own = setUp({ store, blobs })
    const path = await own.create()
    const feed = new Feed()
    feed.push(Buffer.from('old bytes'))
    const drained = feed.drained()
    const older = other.patch(path, 0, feed, true)
    await drained
    isFrozen = true
    assert.equal((await own.head(path)).headers['upload-offset'], '0', 'fenced after three seconds')
    const newer = await own.patch(path, 0, bytes, true)
    assert.deepEqual(await newer.json(), { size: 43, sha256: sha256(text) })
    feed.push(Buffer.from(' and more'))
    feed.push(undefined)
    thaw()
    assert.equal((await older).status, 409)
    assert.equal(own.seen.length + other.seen.length, 1)
    assert.equal(blobs.usage().blobs, 0, 'the part of the older request is deleted')
  })

  test('count the bytes of exactly one request if there are many', async () => {
    const { create, patch, head, seen } = setUp()
    const path = await create()
    const bodies = Array.from({ length: 8 }, (_, at) => Buffer.alloc(5000, String(at)))
    const answers = await Promise.all(bodies.map((body) => patch(path, 0, body)))
    assert.ok(answers.every(({ status }) => status === 204 || status === 409))
    assert.equal((await head(path)).headers['upload-offset'], '5000')
    await patch(path, 5000, undefined, true)
    assert.ok(bodies.some((body) => sha256(body) === seen[0]?.sha256))
  })
})

describe('an upload over a store that fails', () => {
  /** Loses the replies of some writes, which have taken effect all the same. */
  function lossy(store: Store, shouldLose: (call: number) => boolean): Store {
    let calls = 0
    return changed(store, (name, call) => async (...all) => {
      const outcome = await call(...all)
      if (name === 'replace' && String(all[0]).startsWith('upload:') && shouldLose(calls++)) {
        throw new StoreUnavailableError('The reply was lost')
      }
      return outcome
    })
  }

  test('neither loses nor repeats bytes if the reply of a commit is lost', async () => {
    const inner = new MemoryStore()
    // Every commit of a part loses its reply; acquiring does not.
    const { create, patch, head, seen } = setUp({ store: lossy(inner, (call) => call % 2 === 1), partBytes: 8 })
    const path = await create()
    for (let at = 0; at < 40;) {
      const state = await head(path)
      assert.equal(state.status, 204)
      assert.equal(state.headers['upload-offset'], String(at))
      const answer = await patch(path, at, bytes.subarray(at, at + 4))
      if (answer.status === 204) at += 4
      else at = Number((await head(path)).headers['upload-offset'])
    }
    for (let status = 0; status !== 200;) {
      const offset = Number((await head(path)).headers['upload-offset'])
      status = (await patch(path, offset, bytes.subarray(offset), true)).status
    }
    assert.deepEqual(seen.map((each) => each.sha256), [sha256(text)])
  })

  test('gets a 503 if the blobs are full, and continues later', async () => {
    const blobs = new MemoryBlobs({ maxBytes: 100_000 })
    const calls: string[] = []
    const store = changed(new MemoryStore(), (name, call) => (...all) => {
      calls.push(name)
      return call(...all)
    })
    const { create, patch, head } = setUp({ store, blobs, maxBytesPerOwner: 200_000 })
    const path = await create()
    const big = Buffer.alloc(150_000, 7)
    const answer = await patch(path, 0, big)
    assert.equal(answer.status, 503)
    calls.length = 0
    assert.equal((await head(path)).headers['upload-offset'], '0')
    // Otherwise HEAD would ask the request for the upload, and wait for it.
    assert.ok(!calls.includes('replace'), 'the failed request has released the upload')
  })
})
