import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { byteAt, bytes, chunks, collect, type BlobsBench } from './blobs-bench.js'
import { type Cases } from './runner.js'
import { together } from './waiting.js'

const SIZE = 300_001

/** What is read: all, parts, at the same time, and while it goes. */
export const reading: Cases<BlobsBench> = {
  'what is not there is undefined or false': async (bench) => {
    assert.equal(await bench.blobs.stat(bench.key()), undefined)
    assert.equal(await bench.blobs.open(bench.key()), undefined)
    assert.equal(await bench.blobs.delete(bench.key()), false)
  },

  'any range gives its bytes': async (bench) => {
    await bench.blobs.put(bench.key(), bytes(SIZE, 7001), bench.later)
    const ranges: [number, number][] = [
      [0, SIZE], [0, 1], [SIZE - 1, SIZE], [5, 5], [SIZE, SIZE], [65_535, 65_537], [65_536, 131_072], [1, SIZE - 1], [131_071, 262_145],
    ]
    for (const [start, end] of ranges) {
      const read = Buffer.from(await bench.text(bench.key(), { start, end }) ?? '', 'latin1')
      assert.equal(read.length, end - start, `${start} to ${end}`)
      assert.ok(read.every((byte, index) => byte === byteAt(start + index)), `${start} to ${end}`)
    }
    assert.equal((await bench.text(bench.key(), { start: SIZE - 3 }))?.length, 3, 'the end may be left out')
    assert.equal((await bench.text(bench.key(), { end: 3 }))?.length, 3, 'the start may be left out')
  },

  'a range that does not lie within the blob is refused with a TypeError': async (bench) => {
    await bench.blobs.put(bench.key(), chunks('abc'), bench.later)
    for (const [start, end] of [[0, 4], [-1, 2], [2, 1], [4, 4], [0.5, 2], [0, NaN]] as const) {
      await assert.rejects(bench.blobs.open(bench.key(), { start, end }), TypeError, `${start} to ${end}`)
    }
  },

  'a range may ask for one version': async (bench) => {
    const old = await bench.blobs.put(bench.key(), chunks('abcdef'), bench.later)
    assert.equal(await bench.text(bench.key(), { start: 1, etag: old.etag }), 'bcdef')
    await bench.blobs.put(bench.key(), chunks('new'), bench.later)
    assert.equal(await bench.blobs.open(bench.key(), { start: 1, end: 6, etag: old.etag }), undefined)
  },

  'a reader that has begun gets the old blob whole': async (bench) => {
    for (const end of ['replace', 'delete', 'expire'] as const) {
      const { result: { reader, first }, life, key } = await bench.beforeExpiry(async (life, key) => {
        await bench.blobs.put(key, bytes(SIZE), end === 'expire' ? life : bench.later)
        const reader = (await bench.blobs.open(key))?.[Symbol.asyncIterator]()
        assert.ok(reader)
        return { reader, first: await reader.next() }
      })
      if (end === 'replace') await bench.blobs.put(key, chunks('new'), bench.later)
      if (end === 'delete') assert.equal(await bench.blobs.delete(key), true)
      if (end === 'expire') await bench.outlive(life)
      if (end !== 'replace') assert.equal(await bench.blobs.stat(key), undefined)
      await bench.blobs.delete(key)
      let position = 0
      let step = first
      while (step.done !== true) {
        for (const byte of step.value) if (byte !== byteAt(position++)) assert.fail(`${end}: byte ${position - 1} is another`)
        step = await reader.next()
      }
      assert.equal(position, SIZE, end)
    }
  },

  'a reader that has not begun gets the old blob whole, or fails, and never another one': async (bench) => {
    for (const end of ['replace', 'delete'] as const) {
      const key = bench.key(end)
      await bench.blobs.put(key, chunks('old'), bench.later)
      const content = await bench.blobs.open(key)
      assert.ok(content)
      if (end === 'replace') await bench.blobs.put(key, chunks('new'), bench.later)
      else await bench.blobs.delete(key)
      const read = await collect(content).catch((error: unknown) => (isStoreUnavailable(error) ? 'failed' : assert.fail(String(error))))
      assert.ok(read === 'old' || read === 'failed', read)
    }
  },

  'what a reader does with its bytes changes them for nobody else': async (bench) => {
    await bench.blobs.put(bench.key(), chunks('abc'), bench.later)
    for await (const chunk of await bench.blobs.open(bench.key()) ?? chunks()) chunk.fill(0)
    assert.equal(await bench.text(bench.key()), 'abc')
  },

  'many read at the same time, and leave at any time': async (bench) => {
    await bench.blobs.put(bench.key(), bytes(SIZE), bench.later)
    const lengths = await together(20, async (index) => {
      const content = await bench.blobs.open(bench.key(), { start: index })
      assert.ok(content)
      if (index % 2 === 0) return (await collect(content)).length + index
      const reader = content[Symbol.asyncIterator]()
      const { done } = await reader.next()
      await reader.return?.()
      return done === true ? 0 : SIZE
    })
    assert.deepEqual(new Set(lengths), new Set([SIZE]))
  },

  'delete removes, and says whether it did': async (bench) => {
    await bench.blobs.put(bench.key(), chunks('abc'), bench.later)
    assert.equal(await bench.blobs.delete(bench.key()), true)
    assert.equal(await bench.blobs.delete(bench.key()), false)
    assert.equal(await bench.blobs.open(bench.key()), undefined)
    await bench.blobs.put(bench.key(), chunks('again'), bench.later)
    assert.equal(await bench.text(bench.key()), 'again')
  },
}
