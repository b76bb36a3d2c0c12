import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../src/stores/store.js'
import { byteAt, bytes, chunks, collect, type BlobsContext } from './blobs-context.js'
import { type Cases } from './runner.js'
import { reject, together } from './wait.js'

const SIZE = 300_001

/** Tests of reading. */
export const reading: Cases<BlobsContext> = {
  'a range of a blob has its bytes': async (context) => {
    await context.blobs.put(context.key(), bytes(SIZE, 7001), context.later)
    const ranges = [
      [0, SIZE], [0, 1], [SIZE - 1, SIZE], [5, 5], [SIZE, SIZE], [65_535, 65_537], [65_536, 131_072],
      [1, SIZE - 1], [131_071, 262_145],
    ] as const
    for (const [start, end] of ranges) {
      const read = Buffer.from((await context.text(context.key(), { start, end })) ?? '', 'latin1')
      assert.equal(read.length, end - start, `${start} to ${end}`)
      const isSame = read.every((byte, index) => byte === byteAt(start + index))
      assert.ok(isSame, `${start} to ${end}`)
    }
    for (const range of [{ start: SIZE - 3 }, { end: 3 }]) {
      assert.equal((await context.text(context.key(), range))?.length, 3, JSON.stringify(range))
    }
  },

  'a range outside the blob rejects with a TypeError': async (context) => {
    await context.put('abc')
    for (const [start, end] of [[0, 4], [-1, 2], [2, 1], [4, 4], [0.5, 2], [0, NaN]] as const) {
      const opened = context.blobs.open(context.key(), { start, end })
      await assert.rejects(opened, TypeError, `${start} to ${end}`)
    }
  },

  'a range with an entity tag reads only that version': async (context) => {
    const old = await context.put('abcdef')
    assert.equal(await context.text(context.key(), { start: 1, etag: old.etag }), 'bcdef')
    await context.put('new')
    const range = { start: 1, end: 6, etag: old.etag }
    assert.equal(await context.blobs.open(context.key(), range), undefined)
  },

  'a link, if the blobs have links, leads to one version, with its entity tag and the headers of the link': async (context) => {
    const { blobs } = context
    if (!blobs.link) return
    const { etag } = await context.put('abcdef')
    const link = { etag, type: 'text/csv', disposition: 'attachment; filename="a b.csv"', cacheControl: 'private, no-cache' }
    const url = await blobs.link(context.key(), link) ?? assert.fail('There is no link')
    for (const [range, status, text] of [[{}, 200, 'abcdef'], [{ range: 'bytes=2-3' }, 206, 'cd']] as const) {
      const response = await fetch(url, { headers: range })
      assert.deepEqual([response.status, await response.text()], [status, text])
      const sent = ['etag', 'content-type', 'content-disposition', 'cache-control'].map((name) => response.headers.get(name))
      assert.deepEqual(sent, [etag, link.type, link.disposition, link.cacheControl])
    }
    await context.put('new')
    assert.equal(await blobs.link(context.key(), link), undefined)
    const later = await fetch(url)
    assert.ok(await later.text() === 'abcdef' || !later.ok, 'a URL never shows other bytes')
    await blobs.delete(context.key())
    assert.equal(await blobs.link(context.key(), { type: link.type, cacheControl: link.cacheControl }), undefined)
  },

  'a reader that has begun gets the whole old blob': async (context) => {
    for (const end of ['replace', 'delete', 'expire'] as const) {
      const { result: { reader, first }, life, key } = await context.whileLive(async (key, life) => {
        await context.blobs.put(key, bytes(SIZE), end === 'expire' ? life : context.later)
        const reader = (await context.blobs.open(key))?.[Symbol.asyncIterator]()
        assert.ok(reader)
        return { reader, first: await reader.next() }
      })
      if (end === 'replace') await context.put('new', key)
      if (end === 'delete') assert.equal(await context.blobs.delete(key), true)
      if (end === 'expire') await context.outlive(life)
      if (end !== 'replace') assert.equal(await context.blobs.stat(key), undefined)
      await context.blobs.delete(key)
      let position = 0
      let step = first
      while (step.done !== true) {
        for (const byte of step.value) {
          if (byte !== byteAt(position++)) assert.fail(`${end}: byte ${position - 1} is not that of the old blob`)
        }
        step = await reader.next()
      }
      assert.equal(position, SIZE, end)
    }
  },

  'a reader that has not begun gets the whole old blob or fails, and never reads the new blob': async (context) => {
    for (const end of ['replace', 'delete'] as const) {
      const key = context.key(end)
      await context.put('old', key)
      const content = await context.blobs.open(key)
      assert.ok(content)
      if (end === 'replace') await context.put('new', key)
      else await context.blobs.delete(key)
      const read = await collect(content).catch((error: unknown) =>
        isStoreUnavailable(error) ? 'failed' : assert.fail(String(error)),
      )
      assert.ok(read === 'old' || read === 'failed', read)
    }
  },

  'a reader that changes its bytes does not change the blob': async (context) => {
    await context.put('abc')
    for await (const chunk of (await context.blobs.open(context.key())) ?? chunks()) chunk.fill(0)
    assert.equal(await context.text(), 'abc')
  },

  'many readers read at the same time, and may stop at any time': async (context) => {
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

  'a blob that was never written, or is deleted, is absent for every call': async (context) => {
    await context.absent()
    await context.put('abc')
    assert.equal(await context.blobs.delete(context.key()), true)
    await context.absent()
    await context.put('again')
    assert.equal(await context.text(), 'again')
  },
}

/** Tests of expiry, renewal, `close` and shared data. */
export const lifetime: Cases<BlobsContext> = {
  'an expired blob is absent for every call': async (context) => {
    await context.put('def', context.key('other'))
    const { life, key } = await context.whileLive(async (key, life) => {
      await context.put('abc', key, life)
      assert.equal(await context.text(key), 'abc')
    })
    await context.outlive(life)
    await context.absent(key)
    assert.equal(await context.text(context.key('other')), 'def')
    await context.put('again', key)
    assert.equal(await context.text(key), 'again')
  },

  'a put with a negative lifetime succeeds, and the blob expires at once': async (context) => {
    await context.put('old')
    assert.equal((await context.blobs.put(context.key(), chunks('late'), { ttlMs: -1000 })).size, 4)
    await context.absent()
  },

  'renew prolongs a lifetime, and changes neither bytes nor entity tag': async (context) => {
    const { result: info, life, key } = await context.whileLive(async (key, life) => {
      const info = await context.put('abc', key, life)
      assert.deepEqual(await context.second.renew(key, context.later.ttlMs), info)
      return info
    })
    await context.outlive(life)
    assert.deepEqual(await context.blobs.stat(key), info)
    assert.equal(await context.text(key, { start: 1, etag: info.etag }), 'bc')
  },

  'a renewed blob expires at the end of its new lifetime': async (context) => {
    const { life, key } = await context.whileLive(async (key, life) => {
      await context.put('abc', key, life)
      assert.ok(await context.blobs.renew(key, 2 * life.ttlMs))
    })
    await context.outlive({ ttlMs: 2 * life.ttlMs })
    await context.absent(key)
  },

  'renew never shortens a lifetime': async (context) => {
    const info = await context.put('abc')
    for (const ttlMs of [1, 0, -1000]) {
      assert.deepEqual(await context.blobs.renew(context.key(), ttlMs), info)
    }
    await context.outlive({ ttlMs: 1 })
    assert.deepEqual(await context.blobs.stat(context.key()), info)
  },

  'a renew during a delete does not restore the blob': async (context) => {
    for (let round = 0; round < 5; round++) {
      const key = context.key(`deleted-${round}`)
      const info = await context.put('abc', key)
      const outcomes = await together(8, async (index) => (
        index === 4 ? context.second.delete(key) : context.blobs.renew(key, 900_000)
      ))
      assert.equal(outcomes[4], true)
      for (const outcome of outcomes) {
        if (typeof outcome === 'object') assert.deepEqual(outcome, info)
      }
      await context.absent(key)
    }
  },

  'a renew during a put renews the old or the new blob, and the new blob stays': async (context) => {
    for (let round = 0; round < 5; round++) {
      const key = context.key(`replaced-${round}`)
      const old = await context.put('old', key)
      const outcomes = await together(8, async (index) => (
        index === 4 ? context.second.put(key, chunks('new'), context.later)
          : context.blobs.renew(key, 900_000)
      ))
      const written = outcomes[4]
      for (const outcome of outcomes) {
        assert.ok(outcome?.etag === old.etag || outcome?.etag === written?.etag)
      }
      assert.deepEqual(await context.blobs.stat(key), written)
      assert.equal(await context.text(key), 'new')
    }
  },

  'every call after close rejects with a StoreUnavailableError, and close resolves again': async (context) => {
    const { blobs } = context
    await blobs.put(context.key(), chunks('x'), context.later)
    await blobs.close()
    await reject(context, isStoreUnavailable, {
      put: () => blobs.put(context.key('new'), chunks('x'), context.later),
      stat: () => blobs.stat(context.key()),
      open: () => blobs.open(context.key()),
      renew: () => blobs.renew(context.key(), 1000),
      delete: () => blobs.delete(context.key()),
    })
    await context.soon(blobs.close(), 'a second close() resolves')
  },

  'shared blobs show what another process writes, and close ends only one of them': async (context) => {
    const advice = 'the factory must return `second`, blobs on the same data, if and only if `shared` is true'
    assert.equal(context.second !== context.blobs, context.blobs.shared, advice)
    if (!context.blobs.shared) return
    const info = await context.put('abc')
    assert.deepEqual(await context.second.stat(context.key()), info)
    const range = { start: 1, etag: info.etag }
    assert.equal(await context.text(context.key(), range, context.second), 'bc')
    await context.second.put(context.key(), chunks('def'), context.later)
    assert.equal(await context.text(), 'def')
    await context.blobs.close()
    assert.equal(await context.text(context.key(), {}, context.second), 'def')
    assert.equal(await context.second.delete(context.key()), true)
  },
}
