import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { retryDelay } from '../../../src/tasks/definition/define.js'

const never = () => { throw new Error('no random number is needed') }

describe('retryDelay', () => {
  test('returns fixed or exponential delays', () => {
    assert.deepEqual([1, 2, 3].map((n) => retryDelay({ type: 'fixed', delayMs: 70 }, n)), [70, 70, 70])
    assert.deepEqual([1, 2, 3, 4].map((n) => retryDelay({ type: 'exponential', delayMs: 70 }, n)), [70, 140, 280, 560])
  })

  test('is at most an hour, or the maximum of the option, however often a task failed', () => {
    assert.equal(retryDelay({ type: 'exponential', delayMs: 1000 }, 5000), 3_600_000)
    assert.equal(retryDelay({ type: 'exponential', delayMs: 1000, maxDelayMs: 1500 }, 2), 1500)
    assert.equal(retryDelay({ type: 'fixed', delayMs: 1000, maxDelayMs: 0 }, 1), 0)
    assert.equal(retryDelay({ type: 'exponential', delayMs: 0 }, 5000), 0)
  })

  test('reduces the bounded delay by the share of jitter', () => {
    const backoff = { type: 'fixed', delayMs: 1000, jitter: 0.5 } as const
    assert.deepEqual([0, 0.5, 1].map((random) => retryDelay(backoff, 1, () => random)), [1000, 750, 500])
    assert.equal(retryDelay({ ...backoff, maxDelayMs: 100, jitter: 1 }, 1, () => 0.25), 75)
    assert.throws(() => retryDelay(backoff, 1, never))
  })
})
