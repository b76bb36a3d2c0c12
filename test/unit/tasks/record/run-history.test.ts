// The history of runs.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { historyAfter, historyOfFinal } from '../../../../src/tasks/record/details.js'
import type { PastAttempt } from '../../../../src/wire/task.js'

const CREATED = 1_700_000_000_000
type Run = Parameters<typeof historyAfter>[0]

const error = { code: 'broken', message: 'It broke.' }
const processing = (attempt: number, attempts?: readonly PastAttempt[]): Run => ({
  status: 'processing', attempt, startedAt: CREATED + 1, runStartedAt: CREATED + attempt, finishedAt: undefined,
  details: { attempts },
})
const numbers = (attempts: readonly PastAttempt[] | undefined) => attempts?.map(({ attempt }) => attempt)
const end = (status: 'completed' | 'failed' | 'cancelled', attempt: number) => ({
  status,
  attempt,
  finishedAt: CREATED + 9,
})
const waits = (attempt: number) => ({ status: 'queued' as const, attempt, finishedAt: undefined })

describe('the history of runs', () => {
  test('is missing while the task itself shows the only run', () => {
    for (const state of ['completed', 'failed', 'cancelled'] as const) {
      assert.equal(historyAfter(processing(1), end(state, 1), state === 'failed' ? error : undefined), undefined)
    }
  })

  test('has each run that is followed by another run, with its times and its error', () => {
    const { endedAt, ...rest } = historyAfter(processing(1), waits(1), error)?.[0] ?? {}
    assert.deepEqual(rest, { attempt: 1, startedAt: new Date(CREATED + 1).toISOString(), error })
    assert.ok(Math.abs(Date.parse(endedAt ?? '') - Date.now()) < 60_000)
  })

  test('has the last run once the task has ended after several', () => {
    const first = historyAfter(processing(1), waits(1), error)
    const done = historyAfter(processing(2, first), end('completed', 2), undefined)
    assert.deepEqual(numbers(done), [1, 2])
    assert.equal('error' in (done?.[1] ?? {}), false)
    assert.equal(done?.[1]?.startedAt, new Date(CREATED + 2).toISOString(), 'the start of the second run')
    const cancelled = historyAfter(processing(2, first), end('cancelled', 2), undefined)
    assert.deepEqual([numbers(cancelled), cancelled?.[1]?.error?.code], [[1, 2], 'task_cancelled'])
  })

  test('says that a run was interrupted if the task runs again although the run has no end', () => {
    const attempts = historyAfter(processing(1), { status: 'processing', attempt: 2, finishedAt: undefined }, undefined)
    assert.deepEqual(attempts?.map((each) => [each.attempt, each.error?.code]), [[1, 'task_interrupted']])
  })

  test('keeps the last ten runs, and 500 characters of each message', () => {
    let attempts: readonly PastAttempt[] | undefined
    for (let n = 1; n <= 15; n++) {
      attempts = historyAfter(processing(n, attempts), waits(n), { code: 'x', message: 'y'.repeat(2000) })
    }
    assert.deepEqual(numbers(attempts), [6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
    assert.ok((attempts?.[0]?.error?.message.length ?? 0) <= 500)
  })
})

describe('the history of a task that is retried', () => {
  const failed = (attempt: number, attempts?: readonly PastAttempt[]): Run => ({
    ...processing(attempt), status: 'failed', finishedAt: CREATED + 9, details: { attempts, error },
  })

  test('contains the failed run once, and continues to count', () => {
    const first = historyOfFinal(failed(1))
    assert.deepEqual([numbers(first), first?.[0]?.endedAt], [[1], new Date(CREATED + 9).toISOString()])
    const second = historyAfter(processing(2, first), end('failed', 2), error)
    assert.deepEqual(numbers(second), [1, 2])
    assert.deepEqual(numbers(historyOfFinal(failed(2, second))), [1, 2])
  })

  test('says that a run was cancelled', () => {
    const [run] = historyOfFinal({ ...failed(1), status: 'cancelled', details: {} }) ?? []
    assert.deepEqual(run?.error, { code: 'task_cancelled', message: 'The task was cancelled.' })
  })

  test('is missing if the task was cancelled before its first run', () => {
    assert.equal(historyOfFinal({ ...failed(0), status: 'cancelled', details: {} }), undefined)
  })
})
