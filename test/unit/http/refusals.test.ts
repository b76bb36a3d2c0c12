import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { guard, reportErrorsTo } from '../../../src/http/boundary.js'
import { httpError } from '../../../src/http/errors.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import { fakeRequest } from '../kit/request.js'

/** Sends requests that fail with an error. Time passes only by `advance`. */
function site(t: TestContext) {
  let now = 1000
  t.mock.method(performance, 'now', () => now)
  const heard: Error[] = []
  const onError = (error: unknown): void => { heard.push(error as Error) }
  const fail = (error: unknown, times = 1): void => {
    const handle = guard(() => { throw error }, { onError })
    for (let n = 0; n < times; n++) void handle(fakeRequest())
  }
  return { fail, heard, advance: (ms: number) => { now += ms } }
}

const stacks = (errors: readonly Error[]) => errors.map(({ stack }) => stack)

describe('rejections in the log', () => {
  test('are one line for each code and minute, with their number since the previous line', (t) => {
    const { fail, heard, advance } = site(t)
    fail(httpError('queue_full'), 500)
    fail(httpError('overloaded'), 2)
    assert.deepEqual(stacks(heard), [
      'HttpError: 503 queue_full: Too much work is waiting already.',
      'HttpError: 503 overloaded: The server has too much to do now.',
    ])
    advance(59_999)
    fail(httpError('queue_full'))
    assert.equal(heard.length, 2)
    advance(1)
    fail(httpError('queue_full'), 3)
    assert.equal(
      heard[2]?.stack,
      'HttpError: 503 queue_full: Too much work is waiting already. (500 more in the 60 s before)',
    )
    advance(3_600_000)
    fail(httpError('overloaded'))
    assert.equal(
      heard[3]?.stack,
      'HttpError: 503 overloaded: The server has too much to do now. (1 more in the 3660 s before)',
    )
    assert.equal(heard.length, 4)
  })

  test('include a full store, even with its cause', (t) => {
    const { fail, heard } = site(t)
    const full = new StoreUnavailableError('Redis failed: OOM', { reason: 'full', cause: new Error('OOM') })
    fail(full, 10)
    assert.deepEqual(stacks(heard), ['HttpError: 503 store_full: Redis failed: OOM'])
  })

  test('do not include failures, which are logged each time', (t) => {
    const { fail, heard } = site(t)
    const failures = [
      new Error('x'), httpError('bad_gateway'), new StoreUnavailableError('away'),
      httpError('service_unavailable', { cause: new Error('y') }),
    ]
    for (const error of failures) fail(error, 2)
    assert.deepEqual(heard, failures.flatMap((error) => [error, error]))
  })

  test('are counted for each listener', (t) => {
    const { fail, heard } = site(t)
    const listened: unknown[] = []
    t.after(reportErrorsTo((error, { request }) => { listened.push(error, request?.path) }))
    fail(httpError('shutting_down'), 5)
    assert.equal(heard.length, 1)
    assert.equal(listened.length, 2)
    assert.equal(listened[1], '/things')
  })
})
