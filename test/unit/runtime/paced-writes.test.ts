import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { PacedWrites } from '../../../src/runtime/paced-writes.js'
import { deferred, eventually, keepAlive, within } from '../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const HOUR = 3_600_000

/** Writes that wait until the test lets them end. */
function setUp(pauseMs: number) {
  const writes: ReturnType<typeof deferred<void>>[] = []
  const paced = new PacedWrites(async () => {
    const end = deferred()
    writes.push(end)
    await end.promise
  }, () => pauseMs)
  const end = async (at: number) => {
    writes[at]?.resolve()
    await new Promise(setImmediate)
  }
  return { writes, paced, end }
}

describe('paced writes', () => {
  test('begin at once, one at a time', async () => {
    const { writes, paced, end } = setUp(1)
    for (let n = 0; n < 3; n++) paced.request()
    assert.equal(writes.length, 1)
    await end(0)
    await eventually(() => writes.length === 2)
    await end(1)
  })

  test('wait for the pause, unless one is urgent', async () => {
    const { writes, paced, end } = setUp(HOUR)
    paced.request()
    paced.request()
    await end(0)
    assert.equal(writes.length, 1)
    paced.request(true)
    assert.equal(writes.length, 2)
    await end(1)
    await paced.close()
  })

  test('are made without a pause if a write in progress gets an urgent request', async () => {
    const { writes, paced, end } = setUp(HOUR)
    paced.request()
    paced.request(true)
    await end(0)
    assert.equal(writes.length, 2)
    await end(1)
    await paced.close()
  })

  test('are made at once by a flush, which ends when they are done', async () => {
    const { writes, paced, end } = setUp(HOUR)
    paced.request()
    paced.request()
    const flushing = paced.flush(() => writes.length === 2)
    await end(0)
    await within(flushing)
    assert.equal(writes.length, 2)
    await end(1)
    await paced.close()
  })

  test('end with close, which waits for the write in progress', async () => {
    const { writes, paced, end } = setUp(0)
    paced.request()
    paced.request(true)
    const closing = paced.close()
    await end(0)
    await within(closing)
    paced.request(true)
    assert.equal(writes.length, 1)
  })
})
