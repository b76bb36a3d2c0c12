import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
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
  test('is closed once, however often close is called', () => {
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

  test('causes no unhandled rejection if it fails late, without a reader', async () => {
    const { promise, reject } = deferred<IteratorResult<Chunk>>()
    const source = new Source(bodyOf(() => promise).body)
    void source.firstWithin(1000)
    source.close()
    reject(new Error('gone'))
    await setImmediate()
  })
})

describe('the first chunk of a body source', () => {
  test('arrives in time, and is returned again by the next call', async () => {
    const source = new Source(bodyOf(async () => ({ done: false, value: 'a' })).body)
    assert.equal(await source.firstWithin(1000), true)
    assert.deepEqual(await source.next(), { done: false, value: 'a' })
  })

  test('rejects the next call if it fails in time', async () => {
    const source = new Source(bodyOf(async () => { throw new Error('gone') }).body)
    assert.equal(await source.firstWithin(1000), true)
    await assert.rejects(source.peek(), /gone/)
    await assert.rejects(source.next(), /gone/)
  })

  test('may be late: the wait ends after its time, and the chunk can still be awaited', async () => {
    mock.timers.enable({ apis: ['setTimeout'] })
    try {
      const { promise, resolve } = deferred<IteratorResult<Chunk>>()
      const source = new Source(bodyOf(() => promise).body)
      const seen: (string | boolean)[] = []
      const inTime = source.firstWithin(1000).then((told) => { seen.push(told) })
      mock.timers.tick(999)
      await Promise.resolve()
      assert.equal(seen.length, 0)
      mock.timers.tick(1)
      await inTime
      assert.equal(String(seen), 'false')
      const settled = source.peek().then(() => { seen.push('settled') })
      await setImmediate()
      assert.equal(String(seen), 'false')
      resolve({ done: false, value: 'a' })
      await settled
      assert.deepEqual(await source.next(), { done: false, value: 'a' })
    } finally {
      mock.timers.reset()
    }
  })
})
