import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { after, describe, test, type TestContext } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { StoredRecord } from '../../../src/stores/stored-record.js'
import { Watch, waitUntil, type Reading, type Watchable } from '../../../src/stores/watched.js'
import { deferred, keepAlive, within } from '../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const LONG = { timeoutMs: 600_000 }

function setUp() {
  const store = new MemoryStore()
  const record = (): StoredRecord<number> => (
    new StoredRecord(store, 'count', { options: () => ({ ttlMs: 60_000 }) })
  )
  const set = (value: number) => record().change(() => value)
  return { store, record, set }
}

/** Lets no timer of an interval end within a test. */
function withoutRereads(t: TestContext): void {
  const real = setInterval
  t.mock.method(globalThis, 'setInterval', (work: () => void) => real(work, 600_000))
}

describe('waiting for a value', () => {
  test('ends with the accepted change, and leaves no watch', async (t) => {
    withoutRereads(t)
    const { store, record, set } = setUp()
    const signal = new AbortController().signal
    const waiting = waitUntil(record(), (count) => count === 2, { ...LONG, signal })
    await set(1)
    await set(2)
    assert.equal(await within(waiting), 2)
    assert.deepEqual([store.usage().watches, getEventListeners(signal, 'abort').length], [0, 0])
  })

  test('ends without a notice, because the value is read again', async (t) => {
    const real = setInterval
    t.mock.method(globalThis, 'setInterval', (work: () => void) => real(work, 5))
    const { record, set } = setUp()
    const watched = record()
    const deaf = { read: () => watched.read(), watch: () => () => undefined }
    const waiting = waitUntil(deaf, (count) => count === 2, LONG)
    await set(1)
    await set(2)
    assert.equal(await within(waiting), 2)
  })

  test('returns the last value when its time is over or its signal aborts', async (t) => {
    withoutRereads(t)
    const { store, record, set } = setUp()
    await set(1)
    assert.equal(await within(waitUntil(record(), () => false, { timeoutMs: 0 })), 1)
    assert.equal(await within(waitUntil(record(), () => false, { timeoutMs: 5 })), 1)
    const controller = new AbortController()
    const waiting = waitUntil(record(), () => false, { ...LONG, signal: controller.signal })
    controller.abort()
    assert.equal(await within(waiting), 1)
    const { signal } = controller
    assert.equal(await within(waitUntil(record(), () => false, { ...LONG, signal })), 1)
    assert.equal(store.usage().watches, 0)
  })

  test('fails with the error of a read or of the watch', async () => {
    const fails = () => Promise.reject(new Error('away'))
    const sources: Watchable<number>[] = [
      { read: fails, watch: () => () => undefined }, { read: () => 1, watch: fails },
    ]
    for (const source of sources) await assert.rejects(within(waitUntil(source, () => false, LONG)), /away/)
  })
})

describe('a watch', () => {
  test('makes one read at a time, and one more read for all notices during a read', async (t) => {
    withoutRereads(t)
    const gates = [deferred(), deferred()]
    let reads = 0
    let notice = (): void => undefined
    const watch = new Watch({
      read: async () => {
        await gates[reads++]?.promise
        return reads
      },
      watch: (listener) => {
        notice = listener
        return () => undefined
      },
    }, () => undefined)
    await watch.opened
    notice()
    await new Promise(setImmediate)
    for (let n = 0; n < 3; n++) notice()
    const refreshed = watch.refresh()
    await new Promise(setImmediate)
    assert.equal(reads, 1)
    gates[0]?.resolve()
    gates[1]?.resolve()
    await within(refreshed)
    assert.equal(reads, 2)
    watch.close()
  })

  test('continues after a read that fails', async (t) => {
    withoutRereads(t)
    let isAway = true
    const seen: Reading<number>[] = []
    const watch = new Watch({
      read: () => {
        if (isAway) throw new Error('away')
        return 1
      },
      watch: () => () => undefined,
    }, (reading) => seen.push(reading))
    await watch.refresh()
    isAway = false
    await watch.refresh()
    watch.close()
    assert.deepEqual(seen.map((reading) => 'value' in reading && reading.value), [false, 1])
  })

  test('reads and reports nothing once it is closed, even if it was opened only then', async () => {
    const opening = deferred<() => void>()
    let [reads, ended] = [0, 0]
    const watch = new Watch({ read: () => ++reads, watch: () => opening.promise }, () => {
      assert.fail('It is closed')
    })
    watch.close()
    opening.resolve(() => { ended++ })
    await within(watch.opened)
    await watch.refresh()
    assert.deepEqual([reads, ended], [0, 1])
  })
})
