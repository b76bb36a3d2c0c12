import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { bytes, chunks, type BlobsContext } from './blobs-context.js'
import { type Cases } from './runner.js'
import { Latch } from './waiting.js'

/** Tests of writing. */
export const writing: Cases<BlobsContext> = {
  'what was put can be read, and stat tells its size and tag': async (context) => {
    const info = await context.blobs.put(context.key(), chunks('one ', 'two'), context.later)
    assert.equal(info.size, 7)
    assert.match(info.etag, /^"[\x21\x23-\x7e]+"$/, 'a strong entity tag in quotes')
    assert.deepEqual(await context.blobs.stat(context.key()), info)
    assert.equal(await context.text(context.key()), 'one two')
  },

  'an empty blob is one': async (context) => {
    assert.equal((await context.blobs.put(context.key(), chunks(), context.later)).size, 0)
    assert.equal(await context.text(context.key()), '')
    await context.blobs.put(context.key(), chunks('', '', 'a', ''), context.later)
    assert.equal(await context.text(context.key()), 'a')
  },

  'the whole old blob shows until the whole new one is there': async (context) => {
    const first = await context.blobs.put(context.key(), chunks('old'), context.later)
    const latch = new Latch()
    const content = (async function* () {
      yield* chunks('n')
      await latch.opened
      yield* chunks('ew')
    })()
    const written = context.blobs.put(context.key(), content, context.later)
    assert.equal(await context.text(context.key()), 'old')
    assert.deepEqual(await context.blobs.stat(context.key()), first)
    latch.open()
    const second = await written
    assert.notEqual(second.etag, first.etag, 'other bytes have another tag')
    assert.equal(await context.text(context.key()), 'new')
  },

  'the writer that completes last wins': async (context) => {
    const latch = new Latch()
    const content = (async function* () {
      await latch.opened
      yield* chunks('slow')
    })()
    const slow = context.blobs.put(context.key(), content, context.later)
    await context.blobs.put(context.key(), chunks('quick'), context.later)
    assert.equal(await context.text(context.key()), 'quick')
    latch.open()
    await slow
    assert.equal(await context.text(context.key()), 'slow')
  },

  'no tag comes back, not after a delete, not for the same bytes elsewhere that differ': async (context) => {
    const tags = new Set<string>()
    for (const text of ['a', 'b', 'c', 'd']) {
      tags.add((await context.blobs.put(context.key(), chunks(text), context.later)).etag)
      await context.blobs.delete(context.key())
    }
    assert.equal(tags.size, 4)
  },

  'content that fails leaves nothing, and its own error comes back': async (context) => {
    const failure = new Error('the client went away')
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield* chunks('half')
      throw failure
    }
    await assert.rejects(context.blobs.put(context.key(), failing(), context.later), failure)
    assert.equal(await context.blobs.stat(context.key()), undefined)
    await context.blobs.put(context.key(), chunks('old'), context.later)
    await assert.rejects(context.blobs.put(context.key(), failing(), context.later), failure)
    assert.equal(await context.text(context.key()), 'old')
  },

  'a signal stops a put at once, also while its content keeps it waiting, and closes the content':
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
      const rejected = assert.rejects(context.inTime(written, 'the put ends'), /enough/)
      await context.eventually(() => waiting, 'the content is asked for its first chunk')
      stop.abort(new Error('enough'))
      await rejected
      assert.equal(closed, true, 'the content was closed')
      assert.equal(await context.blobs.stat(context.key()), undefined)
      const aborted = context.blobs.put(context.key(), chunks('x'), options)
      await assert.rejects(aborted, /enough/, 'aborted beforehand')
      assert.equal(await context.blobs.stat(context.key()), undefined)
    },

  'a chunk may be used again once the next one is asked for': async (context) => {
    const buffer = Buffer.alloc(3)
    const content = (async function* () {
      for (const text of ['abc', 'def', 'ghi']) {
        buffer.write(text)
        yield buffer
      }
      buffer.write('xxx')
    })()
    await context.blobs.put(context.key(), content, context.later)
    assert.equal(await context.text(context.key()), 'abcdefghi')
  },

  'content is taken no faster than it is written': async (context) => {
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

  'keys that differ in one code unit differ': async (context) => {
    const names = [
      'a', 'A', 'a/b', '../a', 'a\\b', 'ä', 'a\u0308', '%2e', '..', 'x'.repeat(400), '\u{1f600}',
      ' a', 'a ', 'a\n',
    ]
    for (const [n, name] of names.entries()) {
      await context.blobs.put(context.key(name), chunks(`<${n}>`), context.later)
    }
    for (const [n, name] of names.entries()) {
      assert.equal(await context.text(context.key(name)), `<${n}>`, JSON.stringify(name))
    }
  },

  'what is no key, no time, no bytes is refused with a TypeError': async (context) => {
    for (const key of ['', 'x'.repeat(513), 'a\0b', '\ud800']) {
      const put = context.blobs.put(key, chunks('x'), context.later)
      await assert.rejects(put, TypeError, JSON.stringify(key).slice(0, 20))
      await assert.rejects(context.blobs.stat(key), TypeError)
    }
    await assert.rejects(context.blobs.put(context.key(), chunks('x'), { ttlMs: NaN }), TypeError)
    const text = (async function* () {
      yield 'text'
    })() as unknown as AsyncIterable<Uint8Array>
    await assert.rejects(context.blobs.put(context.key(), text, context.later), TypeError)
    assert.equal(await context.blobs.stat(context.key()), undefined)
  },

  'without room a put is refused as full, what was there stays, and room comes back': async (context) => {
    if (context.capacity === undefined) return
    await context.blobs.put(context.key(), chunks('old'), context.later)
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
    assert.equal(await context.text(context.key()), 'old')
    for (let round = 0; round < 5; round++) {
      const content = bytes(Math.floor(context.capacity * 0.4))
      const { size } = await context.blobs.put(context.key(), content, context.later)
      assert.equal((await context.text(context.key()))?.length, size)
    }
  },
}
