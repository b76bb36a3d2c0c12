import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { byteAt, bytes, chunks, collect, type BlobsContext } from './blobs-context.js'
import { type Cases } from './runner.js'
import { together } from './waiting.js'

const SIZE = 300_001

/** Tests of reading. */
export const reading: Cases<BlobsContext> = {
  'what is not there is undefined or false': async (context) => {
    assert.equal(await context.blobs.stat(context.key()), undefined)
    assert.equal(await context.blobs.open(context.key()), undefined)
    assert.equal(await context.blobs.delete(context.key()), false)
  },

  'any range gives its bytes': async (context) => {
    await context.blobs.put(context.key(), bytes(SIZE, 7001), context.later)
    const ranges: [number, number][] = [
      [0, SIZE],
      [0, 1],
      [SIZE - 1, SIZE],
      [5, 5],
      [SIZE, SIZE],
      [65_535, 65_537],
      [65_536, 131_072],
      [1, SIZE - 1],
      [131_071, 262_145],
    ]
    for (const [start, end] of ranges) {
      const read = Buffer.from((await context.text(context.key(), { start, end })) ?? '', 'latin1')
      assert.equal(read.length, end - start, `${start} to ${end}`)
      assert.ok(
        read.every((byte, index) => byte === byteAt(start + index)),
        `${start} to ${end}`,
      )
    }
    assert.equal(
      (await context.text(context.key(), { start: SIZE - 3 }))?.length,
      3,
      'the end may be left out',
    )
    assert.equal(
      (await context.text(context.key(), { end: 3 }))?.length,
      3,
      'the start may be left out',
    )
  },

  'a range that does not lie within the blob is refused with a TypeError': async (context) => {
    await context.blobs.put(context.key(), chunks('abc'), context.later)
    for (const [start, end] of [
      [0, 4],
      [-1, 2],
      [2, 1],
      [4, 4],
      [0.5, 2],
      [0, NaN],
    ] as const) {
      await assert.rejects(
        context.blobs.open(context.key(), { start, end }),
        TypeError,
        `${start} to ${end}`,
      )
    }
  },

  'a range may ask for one version': async (context) => {
    const old = await context.blobs.put(context.key(), chunks('abcdef'), context.later)
    assert.equal(await context.text(context.key(), { start: 1, etag: old.etag }), 'bcdef')
    await context.blobs.put(context.key(), chunks('new'), context.later)
    assert.equal(
      await context.blobs.open(context.key(), { start: 1, end: 6, etag: old.etag }),
      undefined,
    )
  },

  'a reader that has begun gets the old blob whole': async (context) => {
    for (const end of ['replace', 'delete', 'expire'] as const) {
      const {
        result: { reader, first },
        life,
        key,
      } = await context.beforeExpiry(async (life, key) => {
        await context.blobs.put(key, bytes(SIZE), end === 'expire' ? life : context.later)
        const reader = (await context.blobs.open(key))?.[Symbol.asyncIterator]()
        assert.ok(reader)
        return { reader, first: await reader.next() }
      })
      if (end === 'replace') await context.blobs.put(key, chunks('new'), context.later)
      if (end === 'delete') assert.equal(await context.blobs.delete(key), true)
      if (end === 'expire') await context.outlive(life)
      if (end !== 'replace') assert.equal(await context.blobs.stat(key), undefined)
      await context.blobs.delete(key)
      let position = 0
      let step = first
      while (step.done !== true) {
        for (const byte of step.value) {
          if (byte !== byteAt(position++)) assert.fail(`${end}: byte ${position - 1} is another`)
        }
        step = await reader.next()
      }
      assert.equal(position, SIZE, end)
    }
  },

  'a reader that has not begun gets the old blob whole, or fails, and never another one': async (
    context,
  ) => {
    for (const end of ['replace', 'delete'] as const) {
      const key = context.key(end)
      await context.blobs.put(key, chunks('old'), context.later)
      const content = await context.blobs.open(key)
      assert.ok(content)
      if (end === 'replace') await context.blobs.put(key, chunks('new'), context.later)
      else await context.blobs.delete(key)
      const read = await collect(content).catch((error: unknown) =>
        isStoreUnavailable(error) ? 'failed' : assert.fail(String(error)),
      )
      assert.ok(read === 'old' || read === 'failed', read)
    }
  },

  'what a reader does with its bytes changes them for nobody else': async (context) => {
    await context.blobs.put(context.key(), chunks('abc'), context.later)
    for await (const chunk of (await context.blobs.open(context.key())) ?? chunks()) chunk.fill(0)
    assert.equal(await context.text(context.key()), 'abc')
  },

  'many read at the same time, and leave at any time': async (context) => {
    await context.blobs.put(context.key(), bytes(SIZE), context.later)
    const lengths = await together(20, async (index) => {
      const content = await context.blobs.open(context.key(), { start: index })
      assert.ok(content)
      if (index % 2 === 0) return (await collect(content)).length + index
      const reader = content[Symbol.asyncIterator]()
      const { done } = await reader.next()
      await reader.return?.()
      return done === true ? 0 : SIZE
    })
    assert.deepEqual(new Set(lengths), new Set([SIZE]))
  },

  'delete removes, and says whether it did': async (context) => {
    await context.blobs.put(context.key(), chunks('abc'), context.later)
    assert.equal(await context.blobs.delete(context.key()), true)
    assert.equal(await context.blobs.delete(context.key()), false)
    assert.equal(await context.blobs.open(context.key()), undefined)
    await context.blobs.put(context.key(), chunks('again'), context.later)
    assert.equal(await context.text(context.key()), 'again')
  },
}
