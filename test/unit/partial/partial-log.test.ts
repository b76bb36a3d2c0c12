// The writer of partial results: fences, replies that are lost, entries that are evicted, and limits.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { isHttpError } from '../../../src/http/errors.js'
import { logKey, PartialWriter, readAfter, removeAll, resultText, type Limits } from '../../../src/partial/partial-log.js'
import type { Store } from '../../../src/stores/store.js'
import { Spy, SpyStore } from '../kit/tasks.js'
import { keepAlive } from '../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const LIMITS: Limits = { keepMs: 60_000, maxResults: 100, maxBytes: 1_000_000 }
const name = 'resource'
function open(store: Store, attempt: number, { limits = LIMITS, signal = new AbortController().signal } = {}) {
  return PartialWriter.open(store, { name, attempt, owner: 'ann', signal }, limits)
}
async function valuesAfter(store: Store, after = 0): Promise<string[]> {
  const { results, last, isMore } = await readAfter(store, name, after)
  return [...results.map(({ text }) => text), ...isMore ? await valuesAfter(store, last) : []]
}
const replaced = (error: unknown): boolean => isHttpError(error) && error.code === 'attempt_replaced'

describe('the log of partial results', () => {
  test('an earlier run can write nothing once a later one has begun', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    await first.emit('1')
    await first.settled()
    const second = await open(store, 2)
    await first.emit('"late"')
    await assert.rejects(first.settled(), replaced)
    await assert.rejects(first.emit('"later"'), replaced)
    await second.emit('2')
    await second.settled()
    assert.deepEqual(await valuesAfter(store), ['1', '2'])
    await assert.rejects(open(store, 1), replaced)
  })

  test('a lost reply to any call changes nothing', async () => {
    const calls = new Spy()
    const { store: inner } = memory()
    const quiet = new SpyStore(inner, calls)
    const run = async (store: Store): Promise<void> => {
      const writer = await open(store, 1)
      for (let at = 1; at <= 45; at++) await writer.emit(String(at))
      await writer.settled()
    }
    await run(quiet)
    const expected = Array.from({ length: 45 }, (_, at) => String(at + 1))
    assert.deepEqual(await valuesAfter(inner), expected)
    for (let lost = 1; lost <= calls.writes.length; lost++) {
      for (const fault of ['before', 'after'] as const) {
        const { store } = memory()
        const spy = new Spy()
        let writes = 0
        spy.fault = (call) => /^(create|replace)/.test(call) && ++writes === lost ? fault : undefined
        await run(new SpyStore(store, spy))
        assert.deepEqual(await valuesAfter(store), expected, `call ${String(lost)} lost ${fault} it`)
      }
    }
  })

  test('goes on after its entry was evicted; readers are told what is missing', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    for (const text of ['1', '2', '3']) await writer.emit(text)
    await writer.settled()
    await removeAll(store, name)
    assert.deepEqual(await readAfter(store, name, 3), { results: [], last: 3, isMore: false, from: undefined })
    await writer.emit('4')
    await writer.settled()
    assert.deepEqual(await valuesAfter(store, 3), ['4'])
  })

  test('a later run that finds nothing begins behind all numbers of the earlier ones, so that readers see a gap', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    for (const text of ['1', '2', '3']) await first.emit(text)
    await first.settled()
    await removeAll(store, name)
    const second = await open(store, 2)
    await second.emit('"again"')
    await second.settled()
    const { results, from } = await readAfter(store, name, 3)
    assert.deepEqual(results, [{ id: 1e9 + 1, text: '"again"' }])
    assert.equal(from, 1e9 + 1)
  })

  test('of two runs with one attempt, the one that was not stopped writes, in whatever order they begin', async () => {
    const { store } = memory()
    const stopped = new AbortController()
    const first = await open(store, 1, { signal: stopped.signal })
    await first.emit('1')
    await first.settled()
    stopped.abort(new Error('given back'))
    const second = await open(store, 1)
    await first.emit('"late"')
    await assert.rejects(first.settled(), replaced)
    await assert.rejects(open(store, 1, { signal: stopped.signal }), /given back/)
    await second.emit('2')
    await second.settled()
    assert.deepEqual(await valuesAfter(store), ['1', '2'])
  })

  test('a run that is stopped while it takes over leaves the results to the next one', async () => {
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
    await second?.emit('2')
    await second?.settled()
    assert.deepEqual(await valuesAfter(store), ['2'])
  })

  test('a part of an earlier run whose entry was evicted is not taken for one of a later run', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    for (let at = 1; at <= 15; at++) await first.emit(`"old ${String(at)}"`)
    await first.settled()
    await store.delete(logKey(name))
    const second = await open(store, 1)
    for (let at = 1; at <= 15; at++) await second.emit(String(at))
    await second.settled()
    const expected = Array.from({ length: 15 }, (_, at) => String(at + 1))
    assert.deepEqual(await valuesAfter(store), expected)
    assert.deepEqual(await second.stored(), { count: 15, texts: expected })
  })

  test('a stopped run whose task was removed writes nothing more', async () => {
    const { store } = memory()
    const stopped = new AbortController()
    const writer = await open(store, 1, { signal: stopped.signal })
    await writer.emit('1')
    await writer.settled()
    stopped.abort()
    await removeAll(store, name)
    await writer.emit('2')
    await assert.rejects(writer.settled(), replaced)
    assert.equal(await store.get(logKey(name)), undefined)
  })

  test('an evicted part is a gap', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    for (let at = 1; at <= 35; at++) await writer.emit(String(at))
    await writer.settled()
    const { parts } = JSON.parse((await store.get(logKey(name)))?.value.split('\n')[0] ?? '') as { parts: { writer: string }[] }
    assert.equal(await store.delete(`${logKey(name)}/${String(parts[1]?.writer)}.11`), true)
    assert.deepEqual(await writer.stored(), { count: 35, texts: Array.from({ length: 15 }, (_, at) => String(at + 21)) })
    const { last: before, isMore } = await readAfter(store, name, 0)
    assert.deepEqual([before, isMore], [10, true])
    const { results, from, last } = await readAfter(store, name, 10)
    assert.deepEqual([from, last, results[0]], [21, 30, { id: 21, text: '21' }])
    assert.equal((await readAfter(store, name, 25)).from, undefined)
  })

  test('clear drops all, keeps counting, and is a gap for readers, also for one that has all', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    for (let at = 1; at <= 25; at++) await writer.emit(String(at))
    await writer.settled()
    assert.equal((await readAfter(store, name, 25)).from, undefined)
    await writer.clear()
    assert.deepEqual(await readAfter(store, name, 25), { results: [], last: 26, isMore: false, from: 27 })
    assert.deepEqual(await readAfter(store, name, 7), { results: [], last: 26, isMore: false, from: 27 })
    assert.deepEqual(await readAfter(store, name, 26), { results: [], last: 26, isMore: false, from: undefined })
    assert.deepEqual(await writer.stored(), { count: 0, texts: [] })
    await writer.emit('"new"')
    assert.deepEqual(await writer.stored(), { count: 1, texts: ['"new"'] })
    assert.deepEqual(await readAfter(store, name, 0), { results: [{ id: 27, text: '"new"' }], last: 27, isMore: false, from: 27 })
  })

  test('clear of nothing is no gap', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    await writer.clear()
    await writer.emit('1')
    await writer.settled()
    await writer.clear()
    await writer.clear()
    await writer.emit('2')
    await writer.settled()
    assert.deepEqual((await readAfter(store, name, 0)).results, [{ id: 3, text: '2' }])
  })

  test('clear drops what was emitted before it, and keeps what is emitted beside it', async () => {
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
    const expected = [19, 20].flatMap((round) => Array.from({ length: 7 }, (_, at) => `"${String(round)}.${String(at)}"`))
    assert.deepEqual(await valuesAfter(store), expected)
    assert.equal((await writer.stored()).count, expected.length)
  })

  test('a later run knows how many there were, also of those that were dropped', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    for (let at = 1; at <= 250; at++) await first.emit(String(at))
    await first.settled()
    const second = await open(store, 2)
    const { count, texts } = await second.stored()
    assert.equal(count, 250)
    assert.ok(texts.length <= 110)
    assert.deepEqual(texts, Array.from({ length: texts.length }, (_, at) => String(251 - texts.length + at)))
  })

  test('a later run reads what is stored when the store was away for a moment', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    for (let at = 1; at <= 15; at++) await first.emit(String(at))
    await first.settled()
    const calls = new Spy()
    let reads = 0
    calls.fault = (call) => call.startsWith('get') && ++reads % 2 === 1 ? 'before' : undefined
    const second = await open(new SpyStore(store, calls), 2)
    assert.equal((await second.stored()).texts.length, 15)
    assert.ok(reads >= 4)
  })

  test('keeps about maxResults and maxBytes', async () => {
    const { store } = memory()
    const writer = await open(store, 1, { limits: { ...LIMITS, maxBytes: 65_536 } })
    for (let at = 0; at < 50; at++) await writer.emit(JSON.stringify('x'.repeat(10_000)))
    await writer.settled()
    const kept = await valuesAfter(store)
    assert.ok(kept.length >= 4 && kept.length <= 9, `${String(kept.length)} are kept`)
  })

  test('rejects what is not JSON, and what is too large', () => {
    assert.throws(() => resultText(undefined), TypeError)
    assert.throws(() => resultText(() => 1), TypeError)
    assert.throws(() => resultText('x'.repeat(70_000)), TypeError)
    assert.equal(resultText('line\nbreak'), '"line\\nbreak"')
  })
})
