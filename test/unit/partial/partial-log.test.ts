// The writer of partial results: fences, replies that are lost, entries that are evicted, and limits.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { isHttpError } from '../../../src/http/errors.js'
import { PartialWriter, readAfter, removeAll, resultText, type Limits } from '../../../src/partial/partial-log.js'
import type { Store } from '../../../src/stores/store.js'
import { retryUntil } from '../../../src/stores/calls.js'
import { Spy, SpyStore } from '../kit/tasks.js'
import { keepAlive } from '../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const LIMITS: Limits = { keepMs: 60_000, maxResults: 100, maxBytes: 1_000_000 }
const taskId = 'task'
const open = (store: Store, attempt: number, limits = LIMITS) => (
  PartialWriter.open(store, { taskId, attempt, owner: 'ann' }, limits, retryUntil(new AbortController().signal))
)
async function valuesAfter(store: Store, after = 0): Promise<string[]> {
  const { results, last, isMore } = await readAfter(store, { id: taskId, owner: 'ann' }, after)
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
    await removeAll(store, taskId)
    assert.deepEqual(await readAfter(store, { id: taskId, owner: 'ann' }, 3), { results: [], last: 3, isMore: false, from: undefined })
    await writer.emit('4')
    await writer.settled()
    assert.deepEqual(await valuesAfter(store, 3), ['4'])
  })

  test('a later run that finds nothing begins behind all numbers of the earlier ones, so that readers see a gap', async () => {
    const { store } = memory()
    const first = await open(store, 1)
    for (const text of ['1', '2', '3']) await first.emit(text)
    await first.settled()
    await removeAll(store, taskId)
    const second = await open(store, 2)
    await second.emit('"again"')
    await second.settled()
    const { results, from } = await readAfter(store, { id: taskId, owner: 'ann' }, 3)
    assert.deepEqual(results, [{ id: 1e9 + 1, text: '"again"' }])
    assert.equal(from, 1e9 + 1)
  })

  test('a task of another owner under the same id has none of them', async () => {
    const { store } = memory()
    const first = await open(store, 3)
    await first.emit('"secret"')
    await first.settled()
    const other = await PartialWriter.open(store, { taskId, attempt: 1, owner: 'bob' }, LIMITS, retryUntil(new AbortController().signal))
    assert.deepEqual(await other.stored(), [])
    assert.deepEqual((await readAfter(store, { id: taskId, owner: 'bob' }, 0)).results, [])
    assert.deepEqual(await valuesAfter(store), [])
    await first.emit('"late"')
    await assert.rejects(first.settled(), replaced)
  })

  test('an evicted part is a gap', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    for (let at = 1; at <= 35; at++) await writer.emit(String(at))
    await writer.settled()
    await store.delete('partial/task/1.11')
    const { last: before, isMore } = await readAfter(store, { id: taskId, owner: 'ann' }, 0)
    assert.deepEqual([before, isMore], [10, true])
    const { results, from, last } = await readAfter(store, { id: taskId, owner: 'ann' }, 10)
    assert.deepEqual([from, last, results[0]], [21, 30, { id: 21, text: '21' }])
    assert.equal((await readAfter(store, { id: taskId, owner: 'ann' }, 25)).from, undefined)
  })

  test('clear drops all, keeps counting, and is a gap for readers', async () => {
    const { store } = memory()
    const writer = await open(store, 1)
    for (let at = 1; at <= 25; at++) await writer.emit(String(at))
    await writer.clear()
    assert.deepEqual(await readAfter(store, { id: taskId, owner: 'ann' }, 25), { results: [], last: 25, isMore: false, from: undefined })
    assert.deepEqual(await readAfter(store, { id: taskId, owner: 'ann' }, 7), { results: [], last: 25, isMore: false, from: 26 })
    await writer.emit('"new"')
    assert.deepEqual(await writer.stored(), ['"new"'])
    assert.deepEqual(await readAfter(store, { id: taskId, owner: 'ann' }, 0), { results: [{ id: 26, text: '"new"' }], last: 26, isMore: false, from: 26 })
  })

  test('keeps about maxResults and maxBytes', async () => {
    const { store } = memory()
    const writer = await open(store, 1, { ...LIMITS, maxBytes: 65_536 })
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
