// The writer of partial results: fences, replies that are lost, entries that are evicted, and limits.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { WorkerClosingError } from '../../../src/engine/runs.js'
import { isHttpError } from '../../../src/http/errors.js'
import {
  logKey, logRecord, removeAll, type Log, type LogPart,
} from '../../../src/partial/partial-log.js'
import { parsePosition, readAfter, toId, type Page, type Position } from '../../../src/partial/partial-reader.js'
import { PartialWriter, resultText, type PartialLimits } from '../../../src/partial/partial-writer.js'
import { StoreUnavailableError, type Store } from '../../../src/stores/store.js'
import { Spy, SpyStore } from '../kit/tasks.js'
import { keepAlive, pause } from '../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const LIMITS: PartialLimits = { keepMs: 60_000, maxResults: 100, maxBytes: 1_000_000, gatherMs: 20 }
const task = { id: 'task', external: 'resource' }
const KEY = logKey(task)

function open(store: Store, attempt: number, { limits = LIMITS, signal = new AbortController().signal } = {}) {
  return PartialWriter.open(store, { task, attempt, caller: 'owner ann', signal }, limits)
}

/** Reads everything after a position, as a client does. */
async function read(store: Store, position?: Position, hasRun = false) {
  const texts: string[] = []
  let page: Page | undefined
  let isGap = false
  do {
    page = await readAfter(store, task, page?.position ?? position, hasRun)
    isGap ||= page.gap !== undefined
    texts.push(...page.results.map(({ text }) => text))
  } while (page.isMore)
  return { texts, isGap, position: page.position }
}

async function emit(writer: PartialWriter, ...texts: readonly string[]): Promise<void> {
  for (const text of texts) await writer.emit(text)
  await writer.settled()
}

const numbers = (from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, at) => String(from + at))
const replaced = (error: unknown): boolean => isHttpError(error) && error.code === 'attempt_replaced'

describe('the run that may write', () => {
  test('excludes an earlier run once a later run has begun', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    await emit(first, '1')
    const second = await open(store, 2)
    await first.emit('"late"')
    await assert.rejects(first.settled(), replaced)
    await assert.rejects(first.emit('"later"'), replaced)
    await emit(second, '2')
    assert.deepEqual((await read(store)).texts, ['1', '2'])
    await assert.rejects(open(store, 1), replaced)
  })

  test('is the run that was not stopped, of two runs with one attempt, in any order of their begins', async () => {
    const { store } = memory()
    const stopped = new AbortController()
    const first = await open(store, 1, { signal: stopped.signal })
    await emit(first, '1')
    stopped.abort(new WorkerClosingError())
    const second = await open(store, 1)
    await first.emit('"late"')
    await assert.rejects(first.settled(), replaced)
    await assert.rejects(open(store, 1, { signal: stopped.signal }), WorkerClosingError)
    await emit(second, '2')
    assert.deepEqual((await read(store)).texts, ['1', '2'])
  })

  test('leaves the results to the next run if it is stopped while it begins to write', async () => {
    const { store } = memory()
    const stopped = new AbortController()
    let second: PartialWriter | undefined
    // The next run begins after the first one has read that there is nothing yet.
    class Slow extends SpyStore {
      override async create(...call: Parameters<SpyStore['create']>) {
        stopped.abort(new Error('given back'))
        second = await open(store, 1)
        return super.create(...call)
      }
    }
    await assert.rejects(open(new Slow(store, new Spy()), 1, { signal: stopped.signal }), /given back/)
    await emit(second as unknown as PartialWriter, '2')
    assert.deepEqual((await read(store)).texts, ['2'])
  })

  test('does not fail if an earlier run writes after the entry was evicted', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    await emit(first, '1')
    const second = await open(store, 2)
    await store.delete(KEY)
    await emit(first, '"late"')
    await emit(second, '2')
    assert.deepEqual((await read(store)).texts, ['1', '2'])
    await first.emit('"later"')
    await assert.rejects(first.settled(), replaced)
  })

  test('continues if the store has lost its last write', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    await emit(writer, '1')
    const earlier = await store.get(KEY)
    await emit(writer, '2')
    const now = await store.get(KEY)
    await store.replace(KEY, earlier?.value ?? '', now?.revision ?? '', { ttlMs: 60_000 })
    await emit(writer, '3')
    assert.deepEqual((await read(store)).texts, ['1', '2', '3'])
  })

  test('writes nothing more if it was stopped and its task was removed', async () => {
    const { store } = memory()
    const stopped = new AbortController()
    const writer = await open(store, 1, { signal: stopped.signal })
    await emit(writer, '1')
    stopped.abort(new WorkerClosingError())
    await removeAll(store, task)
    await writer.emit('2')
    await assert.rejects(writer.settled(), replaced)
    assert.equal(await store.get(KEY), undefined)
  })

  test('does not use a part of an earlier run after the entry was evicted', async () => {
    const { store } = memory()
    await emit(await open(store, 1), ...numbers(101, 115))
    await store.delete(KEY)
    const second = await open(store, 1)
    await emit(second, ...numbers(1, 15))
    assert.deepEqual((await read(store)).texts, numbers(1, 15))
    assert.deepEqual(await second.stored(), { count: 15, texts: numbers(1, 15) })
  })
})

describe('a partial-results store with faults', () => {
  test('has the same content when it loses the reply to any call', async () => {
    const calls = new Spy()
    const { store: inner } = memory()
    const run = async (store: Store): Promise<void> => emit(await open(store, 1), ...numbers(1, 45))
    await run(new SpyStore(inner, calls))
    assert.deepEqual((await read(inner)).texts, numbers(1, 45))
    for (let lost = 1; lost <= calls.writes.length; lost++) {
      for (const fault of ['before', 'after'] as const) {
        const { store } = memory()
        const spy = new Spy()
        let writes = 0
        spy.fault = (call) => /^(create|replace)/.test(call) && ++writes === lost ? fault : undefined
        await run(new SpyStore(store, spy))
        assert.deepEqual((await read(store)).texts, numbers(1, 45), `call ${String(lost)} lost ${fault} it`)
      }
    }
  })

  test('shows a later run the stored results after the store was unavailable for a moment', async () => {
    const { store } = memory()
    await emit(await open(store, 1), ...numbers(1, 15))
    const calls = new Spy()
    let reads = 0
    calls.fault = (call) => call.startsWith('get') && ++reads % 2 === 1 ? 'before' : undefined
    const second = await open(new SpyStore(store, calls), 2)
    assert.equal((await second.stored()).texts.length, 15)
    assert.ok(reads >= 4)
  })

  test('gets the write again when it is full and other entries may be deleted', async () => {
    const { store } = memory()
    let writes = 0
    class Full extends SpyStore {
      override async replace(...call: Parameters<SpyStore['replace']>) {
        if (++writes === 1) throw new StoreUnavailableError('full', { reason: 'full' })
        return super.replace(...call)
      }
    }
    await emit(await open(new Full(store, new Spy(), true), 1), '1')
    assert.deepEqual((await read(store)).texts, ['1'])
  })
})

describe('readers of partial results', () => {
  test('are notified once of the eviction of all results of a final task', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    await emit(writer, '1')
    const { position } = await read(store)
    await store.delete(KEY)
    assert.deepEqual(await read(store, position), { texts: [], isGap: false, position }, 'it may be written again')
    for (const start of [undefined, position, parsePosition('none-0')]) {
      const gone = await read(store, start, true)
      assert.deepEqual(gone, { texts: [], isGap: true, position: { by: 'gone', last: 0 } })
      assert.equal((await read(store, gone.position, true)).isGap, false)
    }
    await emit(writer, '2')
    assert.deepEqual(await read(store, position), { texts: ['2'], isGap: false, position: { ...position, last: 2 } })
  })

  test('have a position before all results if a task has not emitted yet, without a gap', async () => {
    const { store } = memory()
    const { position, isGap } = await read(store)
    assert.deepEqual([toId(position), isGap], ['none-0', false])
    await emit(await open(store, 1), '1')
    assert.deepEqual(await read(store, position).then(({ texts, isGap }) => [texts, isGap]), [['1'], false])
  })

  test('see no gap if they have no results, even if several runs began before the first result', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    const { position } = await read(store)
    assert.deepEqual([position.last, await read(store, position).then(({ isGap }) => isGap)], [0, false])
    await open(store, 2)
    assert.equal((await read(store, position)).isGap, false)
    const third = await open(store, 3)
    await emit(third, '1')
    assert.deepEqual(await read(store, position).then(({ texts, isGap }) => [texts, isGap]), [['1'], false])
    await assert.rejects(first.emit('2').then(() => first.settled()), replaced)
  })

  test('see a gap of a run that found no results, for any number of results', async () => {
    const { store } = memory()
    await emit(await open(store, 1), '1', '2', '3')
    const { position } = await read(store)
    await store.delete(KEY)
    await emit(await open(store, 1), ...numbers(1, 50))
    const again = await read(store, position)
    assert.deepEqual([again.texts, again.isGap], [numbers(1, 50), true])
    assert.equal((await read(store)).isGap, false)
  })

  test('see a gap where a part was evicted', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    await emit(writer, ...numbers(1, 35))
    const { parts } = await logRecord(store, task).read() as Log
    const [first, evicted] = parts as [LogPart, LogPart]
    const last = evicted.first + evicted.count - 1
    assert.equal(await store.delete(`${KEY}/${evicted.id}`), true)
    const { position, isMore } = await readAfter(store, task, undefined, false)
    assert.deepEqual([position.last, isMore], [first.count, true])
    const { gap, results } = await readAfter(store, task, position, false)
    assert.deepEqual([gap, results[0]?.text], [{ ...position, last }, String(last + 1)])
    assert.equal((await readAfter(store, task, { ...position, last: 25 }, false)).gap, undefined)
    assert.deepEqual(await writer.stored(), { count: 35, texts: numbers(last + 1, 35) })
  })

  test('accept only positions of this store', () => {
    for (const text of ['', '1', '-1', 'a-', 'a-1x', 'A-1', `a-${'1'.repeat(16)}`, 'a'.repeat(17) + '-1', 'a-1\n']) {
      assert.equal(parsePosition(text), undefined, JSON.stringify(text))
    }
    for (const position of [
      { by: '0f3a', last: 12 },
      { by: '0f3a', last: 12, version: 3 },
    ])
      assert.deepEqual(parsePosition(toId(position)), position)
  })
})

describe('a reader of results that the store has lost', () => {
  test('sees a gap, although the next run has written as many results again', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    await emit(first, '1', '2', '3')
    const known = await read(store)
    const kept = await store.get(KEY)
    await emit(first, '4', '5', '6')
    const { position } = await read(store)
    const now = await store.get(KEY)
    await store.replace(KEY, kept?.value ?? '', now?.revision ?? '', { ttlMs: 60_000 })
    const lost = await read(store, position)
    assert.deepEqual([lost.texts, lost.isGap], [['1', '2', '3'], true])
    const second = await open(store, 2)
    assert.equal((await second.stored()).count, 3)
    await emit(second, '"4b"', '"5b"', '"6b"', '"7b"')
    const again = await read(store, position)
    assert.deepEqual([again.texts, again.isGap], [['1', '2', '3', '"4b"', '"5b"', '"6b"', '"7b"'], true])
    const others = await read(store, known.position)
    assert.deepEqual([others.texts, others.isGap], [['"4b"', '"5b"', '"6b"', '"7b"'], false])
  })

  test('continues after many runs, and sees a gap after too many', async () => {
    const { store } = memory()
    const positions: Position[] = []
    for (let attempt = 1; attempt <= 103; attempt++) {
      await emit(await open(store, attempt), String(attempt))
      positions.push((await read(store)).position)
    }
    assert.deepEqual(await read(store, positions[50]).then(({ texts, isGap }) => [texts, isGap]), [
      numbers(52, 103),
      false,
    ])
    assert.equal((await read(store, positions[0])).isGap, true)
  })
})

describe('clear() of partial results', () => {
  test('deletes all results, and is a gap even for readers that have all of them', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    await emit(writer, ...numbers(1, 25))
    const { position } = await read(store)
    assert.equal((await read(store, position)).isGap, false)
    await writer.clear()
    const cleared = await read(store, position)
    assert.deepEqual([cleared.texts, cleared.isGap, cleared.position.last], [[], true, 0])
    assert.equal((await read(store, cleared.position)).isGap, false)
    assert.deepEqual(await writer.stored(), { count: 0, texts: [] })
    await emit(writer, '"new"')
    assert.deepEqual(await writer.stored(), { count: 1, texts: ['"new"'] })
    assert.deepEqual([(await read(store)).texts, (await read(store)).isGap], [['"new"'], false])
  })

  test('resolves once all results are deleted, even beside another clear and pending results', async () => {
    const { store } = memory()
    class Slow extends SpyStore {
      override async replace(...call: Parameters<SpyStore['replace']>) {
        await pause(5)
        return super.replace(...call)
      }
    }
    const writer = await open(new Slow(store, new Spy()), 1)
    await emit(writer, '1')
    void writer.emit('2')
    await pause(22)
    await Promise.race([writer.clear(), writer.clear()])
    assert.deepEqual((await read(store)).texts, [])
  })

  test('is not a gap if there are no results', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    const { position } = await read(store)
    await writer.clear()
    await emit(writer, '1')
    assert.deepEqual([(await read(store, position)).texts, (await read(store, position)).isGap], [['1'], false])
  })

  test('deletes results that were emitted before it, and keeps results that are emitted at the same time', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    const all: Promise<void>[] = []
    for (let round = 1; round <= 20; round++) {
      for (let at = 0; at < 7; at++) all.push(writer.emit(`"${String(round)}.${String(at)}"`))
      if (round % 3 === 0) all.push(writer.clear())
      if (round % 4 === 0) await all.at(-1)
    }
    await Promise.all(all)
    await writer.settled()
    const expected = [19, 20].flatMap((round) => numbers(0, 6).map((at) => `"${String(round)}.${at}"`))
    assert.deepEqual((await read(store)).texts, expected)
    assert.equal((await writer.stored()).count, expected.length)
  })
})

describe('writes of partial results', () => {
  /** A store whose writes take some time, and which counts them. */
  function slowStore(ms: number) {
    const { store } = memory()
    const spy = new Spy()
    class Slow extends SpyStore {
      override async replace(...call: Parameters<SpyStore['replace']>) {
        await pause(ms)
        return super.replace(...call)
      }
    }
    return { store: new Slow(store, spy), writes: () => spy.writes.length }
  }

  test('are awaited by settled() if they were emitted before the call, but not after it', async () => {
    const { store } = slowStore(10)
    const writer = await open(store, 1)
    const more = setInterval(() => void writer.emit('"more"'), 2)
    await writer.emit('1')
    await writer.settled()
    clearInterval(more)
    assert.equal((await read(store)).texts[0], '1')
    await writer.settled()
  })

  test('begin at once if a caller awaits them', async (t) => {
    const { store } = memory()
    const writer = await open(store, 1)
    const waits: number[] = []
    t.mock.method(globalThis, 'setTimeout', (work: () => void, ms: number) => {
      waits.push(ms)
      return setTimeout(work, ms)
    })
    for (const text of numbers(1, 20)) await emit(writer, text)
    assert.equal((await read(store)).texts.length, 20)
    assert.ok(waits.every((ms) => ms < 20))
  })

  test('are gathered while no caller awaits them, even with a fast store', async () => {
    const { store, writes } = slowStore(1)
    const writer = await open(store, 1)
    const before = writes()
    const began = performance.now()
    for (let at = 0; at < 100; at++) {
      await writer.emit(String(at))
      await pause(2)
    }
    await writer.settled()
    assert.ok(writes() - before <= (performance.now() - began) / 20 + 20, `${writes() - before} writes`)
  })
})

describe('the limits of partial results', () => {
  test('count, in a later run, the results that were dropped before', async () => {
    const { store } = memory()
    await emit(await open(store, 1), ...numbers(1, 250))
    const { count, texts } = await (await open(store, 2)).stored()
    assert.equal(count, 250)
    assert.ok(texts.length <= 110)
    assert.deepEqual(texts, numbers(251 - texts.length, 250))
    assert.equal((await read(store)).isGap, true)
  })

  test('keep about maxResults and maxBytes, for any sizes and times of the results', async () => {
    for (const together of [false, true]) {
      const { store } = memory()
      const writer = await open(store, 1, { limits: { ...LIMITS, maxResults: 10_000, maxBytes: 65_536 } })
      const emitting: Promise<void>[] = []
      for (let at = 0; at < 50; at++) {
        emitting.push(writer.emit(JSON.stringify('x'.repeat(10_000))))
        if (!together) await emitting.at(-1)
      }
      await Promise.all(emitting)
      await writer.settled()
      const { texts } = await read(store)
      assert.ok(texts.length >= 4 && texts.length <= 9, `${String(texts.length)} are kept`)
    }
  })

  test('reject values that are not JSON or too large', () => {
    assert.throws(() => resultText(undefined), TypeError)
    assert.throws(() => resultText(() => 1), TypeError)
    assert.throws(() => resultText(Promise.resolve('row')), TypeError)
    assert.throws(() => resultText({ rows: new Map([[1, 2]]) }), TypeError)
    assert.throws(() => resultText('x'.repeat(70_000)), TypeError)
    assert.equal(resultText('line\nbreak'), '"line\\nbreak"')
  })
})
