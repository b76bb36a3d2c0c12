import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { OutgoingBody } from '../../../../src/http/body/outgoing.js'
import { closeUnread, Source, type Chunk } from '../../../../src/http/body/source.js'
import { deferred } from '../../../kit/wait.js'

/** A body whose steps are given by hand, and which counts how often it was closed. */
function bodyOf(next: () => Promise<IteratorResult<Chunk>>) {
  const told = { closed: 0 }
  const iterator: AsyncIterator<Chunk> = {
    next,
    return: async () => {
      told.closed++
      return { done: true, value: undefined }
    },
  }
  return { told, body: { [Symbol.asyncIterator]: () => iterator } }
}

const END: IteratorResult<Chunk> = { done: true, value: undefined }

describe('a body source', () => {
  test('is closed once, even if close is called several times', () => {
    const { told, body } = bodyOf(async () => END)
    const source = new Source(body)
    source.close()
    source.close()
    assert.equal(told.closed, 1)
    closeUnread(body)
    assert.equal(told.closed, 2)
  })

  test('is already closed once it has ended or failed', async () => {
    const ended = bodyOf(async () => END)
    const source = new Source(ended.body)
    await source.next()
    source.close()
    const failed = bodyOf(async () => { throw new Error('gone') })
    const broken = new Source(failed.body)
    await assert.rejects(broken.next(), /gone/)
    broken.close()
    assert.deepEqual([ended.told.closed, failed.told.closed], [0, 0])
  })

  test('is closed when its reader stops before its end', async () => {
    const { told, body } = bodyOf(async () => ({ done: false, value: 'a' }))
    const source = new Source(body)
    await source.next()
    source.close()
    assert.equal(told.closed, 1)
  })

  test('causes no unhandled rejection if it fails later without a reader', async () => {
    const { promise, reject } = deferred<IteratorResult<Chunk>>()
    const source = new OutgoingBody(bodyOf(() => promise).body, {})
    assert.equal(await source.begin(), false)
    source.close()
    reject(new Error('gone'))
    await setImmediate()
  })
})

describe('the first chunk of an outgoing body', () => {
  test('arrives in time, and is returned again by the next call', async () => {
    const source = new OutgoingBody(bodyOf(async () => ({ done: false, value: 'a' })).body, {})
    assert.equal(await source.begin(), true)
    assert.equal(await source.next(), 'a')
  })

  test('makes begin() reject if the source fails before the time limit', async () => {
    const source = new OutgoingBody(bodyOf(async () => { throw new Error('gone') }).body, {})
    await assert.rejects(source.begin(), /gone/)
  })

  test('is not awaited by an event stream', async () => {
    const source = new OutgoingBody(bodyOf(() => new Promise(() => {})).body, { 'content-type': 'text/event-stream' })
    assert.equal(await source.begin(), false)
  })

  test('may be late: the wait ends after its time, and the chunk can still be awaited afterwards', async () => {
    mock.timers.enable({ apis: ['setTimeout'] })
    try {
      const { promise, resolve } = deferred<IteratorResult<Chunk>>()
      const source = new OutgoingBody(bodyOf(() => promise).body, {})
      const seen: (string | boolean | undefined)[] = []
      const inTime = source.begin().then((told) => { seen.push(told) })
      mock.timers.tick(999)
      await Promise.resolve()
      assert.equal(seen.length, 0)
      mock.timers.tick(1)
      await inTime
      assert.equal(String(seen), 'false')
      const settled = source.next().then((chunk) => { seen.push(String(chunk)) })
      await setImmediate()
      assert.equal(String(seen), 'false')
      resolve({ done: false, value: 'a' })
      await settled
      assert.equal(String(seen), 'false,a')
    } finally {
      mock.timers.reset()
    }
  })
})

describe('an outgoing body', () => {
  const chunksOf = (...chunks: unknown[]) => new OutgoingBody(
    (async function* () { yield* chunks as Chunk[] })(), { 'content-length': '3' },
  )

  test('passes on chunks that are not empty, up to the promised length', async () => {
    const source = chunksOf('', 'é', new Uint8Array(0), Uint8Array.of(1))
    assert.equal(await source.begin(), true)
    assert.deepEqual(
      [await source.next(), await source.next(), await source.next()],
      ['é', Uint8Array.of(1), undefined],
    )
  })

  test('rejects a chunk beyond the promised length', async () => {
    const source = chunksOf('ab', 'cd')
    assert.equal(await source.next(), 'ab')
    await assert.rejects(source.next(), /longer than its Content-Length of 3/)
  })

  test('rejects an end before the promised length', async () => {
    const source = chunksOf('ab')
    await source.next()
    await assert.rejects(source.next(), /2 bytes long, and its Content-Length is 3/)
  })

  test('rejects a chunk that is not bytes', async () => {
    await assert.rejects(chunksOf(7).begin(), { name: 'TypeError', message: /not number/ })
  })
})
