import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../src/stores/store.js'
import { bytes, chunks, type BlobsContext } from './blobs-context.js'
import { type Cases } from './runner.js'
import { deferred, reject, type Deferred } from './wait.js'

/** Yields one text, and the other one when the latch is opened. */
async function* waiting(latch: Deferred<void>, first: string, second: string): AsyncGenerator<Uint8Array> {
  yield* chunks(first)
  await latch.promise
  yield* chunks(second)
}

/** Tests of writing. */
export const writing: Cases<BlobsContext> = {
  'a blob that was put can be read, and stat returns its size and entity tag': async (context) => {
    const info = await context.blobs.put(context.key(), chunks('one ', 'two'), context.later)
    assert.equal(info.size, 7)
    assert.match(info.etag, /^"[\x21\x23-\x7e]+"$/, 'a strong entity tag in quotes')
    assert.deepEqual(await context.blobs.stat(context.key()), info)
    assert.equal(await context.text(), 'one two')
  },

  'a blob may be empty': async (context) => {
    assert.equal((await context.blobs.put(context.key(), chunks(), context.later)).size, 0)
    assert.equal(await context.text(), '')
    await context.blobs.put(context.key(), chunks('', '', 'a', ''), context.later)
    assert.equal(await context.text(), 'a')
  },

  'readers get the whole old blob until the new blob is complete': async (context) => {
    const first = await context.put('old')
    const latch = deferred()
    const written = context.blobs.put(context.key(), waiting(latch, 'n', 'ew'), context.later)
    assert.equal(await context.text(), 'old')
    assert.deepEqual(await context.blobs.stat(context.key()), first)
    latch.resolve()
    const second = await written
    assert.notEqual(second.etag, first.etag, 'other bytes have another entity tag')
    assert.equal(await context.text(), 'new')
  },

  'the writer that completes last wins': async (context) => {
    const latch = deferred()
    const slow = context.blobs.put(context.key(), waiting(latch, 's', 'low'), context.later)
    await context.put('quick')
    assert.equal(await context.text(), 'quick')
    latch.resolve()
    await slow
    assert.equal(await context.text(), 'slow')
  },

  'a blob with other bytes gets another entity tag, even after a delete': async (context) => {
    const tags = new Set<string>()
    for (const text of ['a', 'b', 'c', 'd']) {
      tags.add((await context.blobs.put(context.key(), chunks(text), context.later)).etag)
      await context.blobs.delete(context.key())
    }
    assert.equal(tags.size, 4)
  },

  'a put whose content fails rejects with its error, and the old blob stays': async (context) => {
    const failure = new Error('the client went away')
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield* chunks('half')
      throw failure
    }
    await assert.rejects(context.blobs.put(context.key(), failing(), context.later), failure)
    assert.equal(await context.blobs.stat(context.key()), undefined)
    await context.put('old')
    await assert.rejects(context.blobs.put(context.key(), failing(), context.later), failure)
    assert.equal(await context.text(), 'old')
  },

  'a signal stops a put at once, even while it waits for its content, and closes the content':
    async (context) => {
      const stop = new AbortController()
      let closed = false
      let waiting = false
      const content: AsyncIterable<Uint8Array> = {
        [Symbol.asyncIterator]: () => ({
          next: () => {
            waiting = true
            return new Promise<never>(() => undefined)
          },
          return: async () => {
            closed = true
            return { done: true, value: undefined }
          },
        }),
      }
      const options = { ...context.later, signal: stop.signal }
      const written = context.blobs.put(context.key(), content, options)
      const rejected = assert.rejects(context.soon(written, 'the put ends'), /enough/)
      await context.eventually(() => waiting, 'the first chunk is requested')
      stop.abort(new Error('enough'))
      await rejected
      assert.equal(closed, true, 'the content was closed')
      assert.equal(await context.blobs.stat(context.key()), undefined)
      const aborted = context.blobs.put(context.key(), chunks('x'), options)
      await assert.rejects(aborted, /enough/, 'aborted beforehand')
      assert.equal(await context.blobs.stat(context.key()), undefined)
    },

  'a chunk may be reused once the next chunk is requested': async (context) => {
    const buffer = Buffer.alloc(3)
    const content = (async function* () {
      for (const text of ['abc', 'def', 'ghi']) {
        buffer.write(text)
        yield buffer
      }
      buffer.write('xxx')
    })()
    await context.blobs.put(context.key(), content, context.later)
    assert.equal(await context.text(), 'abcdefghi')
  },

  'content is read no faster than it is written': async (context) => {
    let asked = 0
    let most = 0
    let pending = 0
    const next = async (): Promise<IteratorResult<Uint8Array>> => {
      pending++
      most = Math.max(most, pending)
      await new Promise((resolve) => setImmediate(resolve))
      pending--
      const value = new Uint8Array(1000)
      return asked++ < 20 ? { done: false, value } : { done: true, value: undefined }
    }
    const content = { [Symbol.asyncIterator]: () => ({ next }) }
    await context.blobs.put(context.key(), content, context.later)
    assert.equal(most, 1, 'one chunk at a time')
    assert.equal((await context.blobs.stat(context.key()))?.size, 20_000)
  },

  'keys that differ in one code unit are different keys': async (context) => {
    const names = [
      'a', 'A', 'a/b', '../a', 'a\\b', 'ä', 'a\u0308', '%2e', '..', 'x'.repeat(400), '\u{1f600}',
      ' a', 'a ', 'a\n',
    ]
    for (const [n, name] of names.entries()) {
      await context.put(`<${n}>`, context.key(name))
    }
    for (const [n, name] of names.entries()) {
      assert.equal(await context.text(context.key(name)), `<${n}>`, JSON.stringify(name))
    }
  },

  'misuse rejects with a TypeError and writes nothing': async (context) => {
    for (const key of ['', 'x'.repeat(513), 'a\0b', '\ud800']) {
      await reject(context, TypeError, {
        put: () => context.put('x', key),
        stat: () => context.blobs.stat(key),
        renew: () => context.blobs.renew(key, 1000),
      })
    }
    const text = (async function* () {
      yield 'text'
    })() as unknown as AsyncIterable<Uint8Array>
    await reject(context, TypeError, {
      'a text': () => context.blobs.put(context.key(), text, context.later),
      'a lifetime that is not a number': () => context.put('x', context.key(), { ttlMs: NaN }),
    })
    assert.equal(await context.blobs.stat(context.key()), undefined)
    await context.put('x')
    for (const ttlMs of [NaN, Infinity, '1' as unknown as number]) {
      await reject(context, TypeError, { renew: () => context.blobs.renew(context.key(), ttlMs) })
    }
  },

  'a put without space rejects as full, the old blob stays, and space is freed again': async (context) => {
    if (context.capacity === undefined) return
    await context.put('old')
    let closed = false
    const much = (async function* () {
      try {
        yield* bytes((context.capacity ?? 0) + 1)
      } finally {
        closed = true
      }
    })()
    const isFull = (error: unknown) => isStoreUnavailable(error) && error.reason === 'full'
    await assert.rejects(context.blobs.put(context.key(), much, context.later), isFull)
    await context.eventually(() => closed, 'the content is closed')
    assert.equal(await context.text(), 'old')
    for (let round = 0; round < 5; round++) {
      const content = bytes(Math.floor(context.capacity * 0.4))
      const { size } = await context.blobs.put(context.key(), content, context.later)
      assert.equal((await context.text())?.length, size)
    }
  },
}
