import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { AsyncPieces } from '../../../src/ndjson/record-text.js'
import { RecordText } from '../../../src/ndjson/record-text.js'

type Item = object | readonly object[]
type Pieces = AsyncPieces<object>
type Step = Awaited<ReturnType<Pieces['next']>>

/** Whatever has nothing else to wait for has gone on by then. */
const turn = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })
const NOT_YET = 'not yet'
const soon = <T>(promise: Promise<T>): Promise<T | typeof NOT_YET> =>
  Promise.race([promise, turn().then(() => NOT_YET as typeof NOT_YET)])
const shown = (step: Step | typeof NOT_YET) =>
  step === NOT_YET
    ? step
    : step.done === true
      ? 'done'
      : { text: Buffer.from(step.value.bytes).toString(), flush: step.value.flush }

/** A clock that goes on when it is told to. Timers that `mock.timers` makes can't be refreshed on Node 20. */
class Clock {
  private now = 0
  private readonly running = new Map<object, { at: number, run: () => void }>()

  constructor(t: TestContext) {
    t.mock.method(globalThis, 'setTimeout', (run: () => void, ms: number) => {
      const timer = {
        unref: () => timer,
        refresh: () => {
          this.running.set(timer, { at: this.now + ms, run })
          return timer
        },
      }
      return timer.refresh()
    })
    t.mock.method(globalThis, 'clearTimeout', (timer: object) => { this.running.delete(timer) })
    t.mock.method(performance, 'now', () => this.now)
  }

  get timers(): number {
    return this.running.size
  }

  pass(ms: number): void {
    this.now += ms
    for (const [timer, { at, run }] of this.running) {
      if (at > this.now) continue
      this.running.delete(timer)
      run()
    }
  }
}

/** A source that gives what it is told to, when it is told to. */
class Feed implements AsyncIterable<Item> {
  closed = 0
  private answer: ((result: IteratorResult<Item>) => void) | undefined

  [Symbol.asyncIterator](): AsyncIterator<Item> {
    return {
      next: () => new Promise((resolve) => { this.answer = resolve }),
      return: async () => {
        this.closed++
        return { done: true, value: undefined }
      },
    }
  }

  async give(...items: readonly unknown[]): Promise<void> {
    for (const value of items) {
      assert.ok(this.answer, 'it is asked')
      this.answer({ done: false, value: value as Item })
      this.answer = undefined
      await turn()
    }
  }

  async end(): Promise<void> {
    this.answer?.({ done: true, value: undefined })
    await turn()
  }
}

const piecesOf = (source: AsyncIterable<Item>): Pieces =>
  new AsyncPieces<object>(source, new RecordText<object>(JSON.stringify, 'lines'))
const [one, two] = [{ a: 1 }, { a: 2 }]
const [ONE, TWO] = ['{"a":1}\n', '{"a":2}\n']
/** A record that fills a piece by itself. */
const large = (id: number) => ({ id, pad: 'x'.repeat(65_536) })
const lineOf = (record: object): string => `${JSON.stringify(record)}\n`

describe('a record that does not fill a piece', () => {
  test('waits 50 ms for further records, each time', async (t) => {
    const [clock, feed] = [new Clock(t), new Feed()]
    const pieces = piecesOf(feed)
    for (let round = 0; round < 2; round++) {
      const step = pieces.next()
      await feed.give(one)
      clock.pass(49)
      await feed.give(two)
      assert.equal(await soon(step), NOT_YET)
      clock.pass(1)
      assert.deepEqual(shown(await soon(step)), { text: ONE + TWO, flush: true })
    }
  })

  test('is delivered at once to a later call of next, even if the source has nothing more', async (t) => {
    const [clock, feed] = [new Clock(t), new Feed()]
    const pieces = piecesOf(feed)
    const first = pieces.next()
    await feed.give(one)
    clock.pass(50)
    await first
    await feed.give(two)
    clock.pass(50)
    assert.deepEqual(shown(await soon(pieces.next())), { text: TWO, flush: true })
    const third = pieces.next()
    assert.equal(await soon(third), NOT_YET)
    await feed.give(one)
    clock.pass(50)
    assert.deepEqual(shown(await soon(third)), { text: ONE, flush: true })
  })

  test('is delivered when the source ends, and no timer is left', async (t) => {
    const [clock, feed] = [new Clock(t), new Feed()]
    const pieces = piecesOf(feed)
    const first = pieces.next()
    await feed.give(large(1), one)
    assert.equal(clock.timers, 1)
    await feed.end()
    assert.equal(clock.timers, 0)
    assert.deepEqual(shown(await first), { text: lineOf(large(1)), flush: false })
    assert.deepEqual([shown(await pieces.next()), shown(await pieces.next())], [{ text: ONE, flush: false }, 'done'])
  })
})

describe('full pieces', () => {
  test('are not flushed, not even the first one', async (t) => {
    const [_, feed] = [new Clock(t), new Feed()]
    const pieces = piecesOf(feed)
    for (const id of [1, 2]) {
      const step = pieces.next()
      await feed.give(large(id))
      assert.deepEqual(shown(await soon(step)), { text: lineOf(large(id)), flush: false })
    }
  })

  test('contain a part of a long list each', async () => {
    const list = Array.from({ length: 5000 }, (_, id) => ({ id, pad: 'x'.repeat(100) }))
    const sizes: number[] = []
    async function* source(): AsyncGenerator<object[]> { yield list }
    for await (const { bytes } of piecesOf(source())) sizes.push(bytes.byteLength)
    assert.equal(sizes.reduce((sum, size) => sum + size), list.map(lineOf).join('').length)
    assert.ok(sizes.length > 1 && sizes.every((size) => size < 66_000), sizes.join())
  })

  test('are prepared one at a time before the reader needs them', async (t) => {
    new Clock(t)
    const record = { pad: 'x'.repeat(1000) }
    let given = 0
    const source: AsyncIterable<object> = {
      [Symbol.asyncIterator]: () => ({ next: async () => ({ done: false, value: { ...record, at: given++ } }) }),
    }
    const pieces = piecesOf(source)
    let read = 0
    for (let round = 0; round < 3; round++) {
      const { value } = await pieces.next() as { value: { bytes: Uint8Array } }
      read += Buffer.from(value.bytes).toString().split('\n').length - 1
      await turn()
      const ahead = given - read
      assert.ok(ahead > 60 && ahead < 66, `${given} given, ${read} read`)
    }
  })

  test('are returned once and are never empty, even after the flush was overdue', async (t) => {
    const [clock, feed] = [new Clock(t), new Feed()]
    const pieces = piecesOf(feed)
    const first = pieces.next()
    await feed.give(large(1))
    await first
    // Small ones start the clock; the large one fills the piece, and nobody asks for it.
    await feed.give(one, large(2))
    clock.pass(50)
    assert.deepEqual(shown(await soon(pieces.next())), { text: ONE + lineOf(large(2)), flush: true })
    const third = pieces.next()
    assert.equal(await soon(third), NOT_YET)
    await feed.give(large(3))
    assert.deepEqual(shown(await soon(third)), { text: lineOf(large(3)), flush: false })
  })

  test('let the event loop continue after 10 ms, and not earlier', async (t) => {
    for (const [step, due] of [[0, false], [20, true]] as const) {
      let now = 0
      const time = t.mock.method(performance, 'now', () => now += step)
      let [turns, over, pieces] = [0, false, 0]
      const count = (): void => {
        if (over) return
        turns++
        setImmediate(count)
      }
      setImmediate(count)
      async function* source(): AsyncGenerator<object> { for (let id = 0; id < 9; id++) yield large(id) }
      try {
        for await (const _ of piecesOf(source())) pieces++
      } finally {
        over = true
        time.mock.restore()
      }
      assert.equal(pieces, 9)
      assert.ok(due ? turns >= pieces - 1 : turns === 0, `${turns} turns`)
    }
  })
})

describe('the end of the records', () => {
  test('comes after a record that cannot be serialised, which is reported once and closes the source', async () => {
    for (const wrong of [7, [one, null], { toJSON: () => { throw new TypeError('no') } }]) {
      const feed = new Feed()
      const pieces = piecesOf(feed)
      const step = assert.rejects(pieces.next(), TypeError)
      assert.equal(feed.closed, 0)
      await feed.give(wrong)
      await step
      assert.equal(feed.closed, 1)
    }
    const feed = new Feed()
    const pieces = piecesOf(feed)
    const step = assert.rejects(pieces.next(), TypeError)
    await feed.give(7)
    await step
    assert.equal(shown(await pieces.next()), 'done')
  })

  test('comes with return, which ends the pending step, closes the source once, and leaves no timer', async (t) => {
    const [clock, feed] = [new Clock(t), new Feed()]
    const pieces = piecesOf(feed)
    const step = pieces.next()
    await feed.give(one)
    assert.equal(clock.timers, 1)
    assert.deepEqual([shown(await pieces.return()), shown(await soon(step))], ['done', 'done'])
    await pieces.return()
    assert.deepEqual([clock.timers, feed.closed], [0, 1])
  })

  test('comes if return is called before the first read, and then a source is closed through its iterator', async () => {
    const feed = new Feed()
    await piecesOf(feed).return()
    assert.equal(feed.closed, 1)
    let cancelled = 0
    const stream = new ReadableStream<object>({ cancel: () => { cancelled++ } })
    await piecesOf(stream).return()
    assert.equal(cancelled, 1)
  })
})
