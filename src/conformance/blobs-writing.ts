import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { bytes, chunks, collect, type BlobsBench } from './blobs-bench.js'
import { type Cases } from './runner.js'
import { Gate } from './waiting.js'

/** What is written, and what is not. */
export const writing: Cases<BlobsBench> = {
  'what was put can be read, and stat tells its size and tag': async (bench) => {
    const info = await bench.blobs.put(bench.key(), chunks('one ', 'two'), bench.later)
    assert.equal(info.size, 7)
    assert.match(info.etag, /^"[\x21\x23-\x7e]+"$/, 'a strong entity tag in quotes')
    assert.deepEqual(await bench.blobs.stat(bench.key()), info)
    assert.equal(await bench.text(bench.key()), 'one two')
  },

  'an empty blob is one': async (bench) => {
    assert.equal((await bench.blobs.put(bench.key(), chunks(), bench.later)).size, 0)
    assert.equal(await bench.text(bench.key()), '')
    await bench.blobs.put(bench.key(), chunks('', '', 'a', ''), bench.later)
    assert.equal(await bench.text(bench.key()), 'a')
  },

  'the whole old blob shows until the whole new one is there': async (bench) => {
    const first = await bench.blobs.put(bench.key(), chunks('old'), bench.later)
    const gate = new Gate()
    const written = bench.blobs.put(bench.key(), (async function* () {
      yield* chunks('n')
      await gate.opened
      yield* chunks('ew')
    })(), bench.later)
    assert.equal(await bench.text(bench.key()), 'old')
    assert.deepEqual(await bench.blobs.stat(bench.key()), first)
    gate.open()
    const second = await written
    assert.notEqual(second.etag, first.etag, 'other bytes have another tag')
    assert.equal(await bench.text(bench.key()), 'new')
  },

  'the writer that completes last wins': async (bench) => {
    const gate = new Gate()
    const slow = bench.blobs.put(bench.key(), (async function* () {
      await gate.opened
      yield* chunks('slow')
    })(), bench.later)
    await bench.blobs.put(bench.key(), chunks('quick'), bench.later)
    assert.equal(await bench.text(bench.key()), 'quick')
    gate.open()
    await slow
    assert.equal(await bench.text(bench.key()), 'slow')
  },

  'no tag comes back, not after a delete, not for the same bytes elsewhere that differ': async (bench) => {
    const tags = new Set<string>()
    for (const text of ['a', 'b', 'c', 'd']) {
      tags.add((await bench.blobs.put(bench.key(), chunks(text), bench.later)).etag)
      await bench.blobs.delete(bench.key())
    }
    assert.equal(tags.size, 4)
  },

  'content that fails leaves nothing, and its own error comes back': async (bench) => {
    const failure = new Error('the client went away')
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield* chunks('half')
      throw failure
    }
    await assert.rejects(bench.blobs.put(bench.key(), failing(), bench.later), failure)
    assert.equal(await bench.blobs.stat(bench.key()), undefined)
    await bench.blobs.put(bench.key(), chunks('old'), bench.later)
    await assert.rejects(bench.blobs.put(bench.key(), failing(), bench.later), failure)
    assert.equal(await bench.text(bench.key()), 'old')
  },

  'a signal stops a put at once, also while its content keeps it waiting, and closes the content': async (bench) => {
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
    const written = bench.blobs.put(bench.key(), content, { ...bench.later, signal: stop.signal })
    const rejected = assert.rejects(bench.inTime(written, 'the put ends'), /enough/)
    await bench.eventually(() => waiting, 'the content is asked for its first chunk')
    stop.abort(new Error('enough'))
    await rejected
    assert.equal(closed, true, 'the content was closed')
    assert.equal(await bench.blobs.stat(bench.key()), undefined)
    await assert.rejects(bench.blobs.put(bench.key(), chunks('x'), { ...bench.later, signal: stop.signal }), /enough/, 'aborted beforehand')
    assert.equal(await bench.blobs.stat(bench.key()), undefined)
  },

  'a chunk may be used again once the next one is asked for': async (bench) => {
    const buffer = Buffer.alloc(3)
    await bench.blobs.put(bench.key(), (async function* () {
      for (const text of ['abc', 'def', 'ghi']) {
        buffer.write(text)
        yield buffer
      }
      buffer.write('xxx')
    })(), bench.later)
    assert.equal(await bench.text(bench.key()), 'abcdefghi')
  },

  'content is taken no faster than it is written': async (bench) => {
    let asked = 0
    let most = 0
    let pending = 0
    await bench.blobs.put(bench.key(), {
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          pending++
          most = Math.max(most, pending)
          await new Promise((resolve) => setImmediate(resolve))
          pending--
          return asked++ < 20 ? { done: false, value: new Uint8Array(1000) } : { done: true, value: undefined }
        },
      }),
    }, bench.later)
    assert.equal(most, 1, 'one chunk at a time')
    assert.equal((await bench.blobs.stat(bench.key()))?.size, 20_000)
  },

  'keys that differ in one code unit differ': async (bench) => {
    const names = ['a', 'A', 'a/b', '../a', 'a\\b', 'ä', 'a\u0308', '%2e', '..', 'x'.repeat(400), '\u{1f600}', ' a', 'a ', 'a\n']
    for (const name of names) await bench.blobs.put(bench.key(name), chunks(`<${names.indexOf(name)}>`), bench.later)
    for (const name of names) assert.equal(await bench.text(bench.key(name)), `<${names.indexOf(name)}>`, JSON.stringify(name))
  },

  'what is no key, no time, no bytes is refused with a TypeError': async (bench) => {
    for (const key of ['', 'x'.repeat(513), 'a\0b', '\ud800']) {
      await assert.rejects(bench.blobs.put(key, chunks('x'), bench.later), TypeError, JSON.stringify(key).slice(0, 20))
      await assert.rejects(bench.blobs.stat(key), TypeError)
    }
    await assert.rejects(bench.blobs.put(bench.key(), chunks('x'), { ttlMs: NaN }), TypeError)
    const text = (async function* () { yield 'text' })() as unknown as AsyncIterable<Uint8Array>
    await assert.rejects(bench.blobs.put(bench.key(), text, bench.later), TypeError)
    assert.equal(await bench.blobs.stat(bench.key()), undefined)
  },

  'without room a put is refused as full, what was there stays, and room comes back': async (bench) => {
    if (bench.capacity === undefined) return
    await bench.blobs.put(bench.key(), chunks('old'), bench.later)
    let closed = false
    const much = (async function* () {
      try {
        yield* bytes((bench.capacity ?? 0) + 1)
      } finally {
        closed = true
      }
    })()
    await assert.rejects(bench.blobs.put(bench.key(), much, bench.later), (error) => isStoreUnavailable(error) && error.reason === 'full')
    await bench.eventually(() => closed, 'the content is closed')
    assert.equal(await bench.text(bench.key()), 'old')
    for (let round = 0; round < 5; round++) {
      const info = await bench.blobs.put(bench.key(), bytes(Math.floor(bench.capacity * 0.4)), bench.later)
      assert.equal((await collect((await bench.blobs.open(bench.key())) ?? chunks())).length, info.size)
    }
  },
}
