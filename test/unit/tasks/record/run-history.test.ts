// The history of runs, and the record of a task that is retried.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decode, encode } from '../../../../src/tasks/record/codec.js'
import {
  change, retried, toTaskText, type TaskChange, type TaskRecord,
} from '../../../../src/tasks/record/record.js'
import type { AttemptView } from '../../../../src/tasks/record/run-history.js'

const CREATED = 1_700_000_000_000
const queued: TaskRecord = {
  id: 'a1', name: 'export', owner: 'ann', state: 'queued', job: 'j1', attempt: 0, version: 1,
  createdAt: CREATED, startedAt: undefined, finishedAt: undefined, expiresAt: CREATED + 1000,
  progress: undefined, result: undefined, error: undefined, errorStatus: undefined,
  claim: undefined, slot: undefined, callback: undefined, work: '{"input":1}',
}
const error = { code: 'broken', message: 'It broke.', details: [{ pointer: '', message: 'x' }] }

/** The record after several changes, each written and read as a store does. */
function after(from: TaskRecord, ...changes: TaskChange[]): TaskRecord {
  return changes.reduce((record, to) => {
    const next = change(record, to)
    assert.ok(next, JSON.stringify(to))
    return decode(next.id, encode(next))
  }, from)
}

const begin = (attempt: number): TaskChange => ({ state: 'processing', attempt, startedAt: CREATED + 1 })
const failure: TaskChange = { state: 'failed', error, errorStatus: 500, finishedAt: CREATED + 9 }
const numbers = (record: TaskRecord) => record.attempts?.map(({ attempt }) => attempt)
const shown = (record: TaskRecord) => (
  (JSON.parse(toTaskText(record)) as { attempts?: readonly AttemptView[] }).attempts
)

describe('the history of runs', () => {
  test('is absent while the record itself shows the only run', () => {
    assert.equal(shown(after(queued, begin(1))), undefined)
    assert.equal(shown(after(queued, begin(1), { state: 'completed', result: '{}' })), undefined)
    assert.equal(shown(after(queued, begin(1), failure)), undefined)
  })

  test('has each run that another one follows, with its times and its error', () => {
    const waits = after(queued, begin(1), { state: 'queued', runError: error })
    const { endedAt, ...rest } = shown(waits)?.[0] ?? {}
    assert.deepEqual(rest, {
      attempt: 1, startedAt: new Date(CREATED + 1).toISOString(),
      error: { code: 'broken', message: 'It broke.' },
    })
    assert.ok(Math.abs(Date.parse(endedAt ?? '') - Date.now()) < 60_000)
  })

  test('has the last run too, once the task has ended after several', () => {
    const again = after(queued, begin(1), { state: 'queued', runError: error }, begin(2))
    assert.deepEqual(numbers(again), [1])
    const done = after(again, { state: 'completed', result: '{}', finishedAt: CREATED + 9 })
    assert.deepEqual(numbers(done), [1, 2])
    const [first, last] = done.attempts ?? []
    assert.equal('error' in (last ?? {}), false)
    assert.notEqual(last?.startedAt, first?.startedAt, 'the start of the second run')
    const cancelled = after(again, { state: 'cancelled', finishedAt: CREATED + 9 })
    assert.deepEqual([numbers(cancelled), cancelled.attempts?.[1]?.error], [[1, 2], undefined])
  })

  test('says that a run was interrupted if the queue runs the task again without its end', () => {
    const { attempts } = after(queued, begin(1), begin(2))
    assert.deepEqual(attempts?.map((each) => [each.attempt, each.error?.code]), [[1, 'task_interrupted']])
  })

  test('keeps the last ten runs, and 500 characters of each message', () => {
    const long = { code: 'x', message: 'y'.repeat(2000) }
    let record = queued
    for (let n = 1; n <= 15; n++) record = after(record, begin(n), { state: 'queued', runError: long })
    assert.deepEqual(numbers(record), [6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
    assert.ok((record.attempts?.[0]?.error?.message.length ?? 0) <= 500)
    assert.ok(encode(record).length < 10_000)
  })
})

describe('a record that is retried', () => {
  const to = { job: 'j2', holder: undefined, slot: 'slot:x', expiresAt: CREATED + 5000 }

  test('waits for a run of another job, and nothing of its end is left', () => {
    const failed = after(queued, begin(1), { progress: { done: 3 } }, { ...failure, errorFields: { 'retry-after': '1' } })
    const record = retried({ ...failed, startAt: CREATED + 1 }, to)
    assert.deepEqual(
      [record.state, record.job, record.slot, record.expiresAt, record.version, record.attempt],
      ['queued', 'j2', 'slot:x', CREATED + 5000, failed.version + 1, 1],
    )
    const { error: gone, errorStatus, errorFields, finishedAt, progress, startAt } = record
    assert.deepEqual(
      [gone, errorStatus, errorFields, finishedAt, progress, startAt], Array(6).fill(undefined),
    )
    assert.deepEqual([record.work, record.startedAt], ['{"input":1}', CREATED + 1])
  })

  test('has the run that failed in its history once, and counts on', () => {
    const failed = after(queued, begin(1), failure)
    const second = after(retried(failed, to), begin(2), failure)
    assert.deepEqual(numbers(second), [1, 2])
    const third = after(retried(second, to), begin(3), { state: 'completed', result: '{}' })
    assert.deepEqual(numbers(third), [1, 2, 3])
    assert.equal(third.attempts?.[0]?.endedAt, new Date(CREATED + 9).toISOString())
  })

  test('has no history if it was cancelled before its first run', () => {
    assert.equal(retried(after(queued, { state: 'cancelled', finishedAt: CREATED }), to).attempts, undefined)
  })

  test('calls back again at its new end', () => {
    const callback = { url: 'https://x.example/', state: 'failed', attempts: 7, fault: 'status' } as const
    const record = retried({ ...after(queued, begin(1), failure), callback }, to)
    assert.deepEqual(record.callback, { url: callback.url, state: 'waiting', attempts: 0 })
    assert.equal(after(record, begin(2), failure).callback?.state, 'pending')
  })
})

test('the work is kept until the task is completed', () => {
  for (const each of [[begin(1)], [begin(1), failure], [{ state: 'cancelled' }]] as TaskChange[][]) {
    assert.equal(after(queued, ...each).work, '{"input":1}')
  }
  assert.equal(after(queued, begin(1), { state: 'completed', result: '{}' }).work, undefined)
})
