import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import createError from 'http-errors'
import { guard } from '../../../src/http/boundary.js'
import { httpError } from '../../../src/http/errors.js'
import { describe as describeHandler, type Handler, type HttpResponse } from '../../../src/http/exchange.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import { fakeRequest } from '../kit/request.js'

const request = fakeRequest()
const response: HttpResponse = { status: 200, headers: {} }

function thrower(error: unknown): Handler {
  return () => {
    throw error
  }
}

/** Both ways of failing give the same answer; what onError was told comes back. */
async function told(error: unknown): Promise<{ status: number | undefined; seen: unknown[] }> {
  const seen: unknown[] = []
  const onError = (failure: unknown, from: unknown): void => {
    assert.equal(from, request)
    seen.push(failure)
  }
  const direct = guard(thrower(error), { onError })(request)
  assert.ok(!(direct instanceof Promise))
  const later = await guard(async () => thrower(error)(request), { onError })(request)
  assert.deepEqual(later, direct)
  assert.equal(seen.length % 2, 0)
  return { status: direct?.status, seen: seen.slice(seen.length / 2) }
}

describe('guard', () => {
  test('is synchronous if the handler is synchronous, and passes declined requests on', async () => {
    assert.equal(guard(() => response)(request), response)
    assert.equal(guard(() => undefined)(request), undefined)
    assert.equal(await guard(async () => response)(request), response)
    assert.equal(await guard(async () => undefined)(request), undefined)
  })

  test('responds to an error for clients, and does not report it', async () => {
    for (const error of [httpError('not_found'), httpError('unprocessable'), createError(404)]) {
      const { status, seen } = await told(error)
      assert.ok(status !== undefined && status < 500)
      assert.deepEqual(seen, [])
    }
    // A method that nobody knows is the client's doing too: it must not be able to fill the log of the host.
    assert.deepEqual(await told(httpError('not_implemented')), { status: 501, seen: [] })
    const cause = httpError('not_implemented', { cause: new Error('x') })
    assert.deepEqual(await told(cause), { status: 501, seen: [cause] })
  })

  test('SPEC 7.3: masks every other failure for the client and reports it completely', async () => {
    const cases: [unknown, number][] = [
      [new Error('x'), 500],
      ['text', 500],
      [undefined, 500],
      [null, 500],
      [httpError('bad_gateway'), 502],
      [httpError('internal_error'), 500],
      [httpError('malformed_json', { cause: new Error('y') }), 400],
      [new StoreUnavailableError('down'), 503],
      [createError(503), 503],
      [{ status: 404 }, 500],
    ]
    for (const [error, expected] of cases) assert.deepEqual(await told(error), { status: expected, seen: [error] })
  })

  test('treats a value that is not a response as a failure of the handler', async () => {
    for (const value of [null, 'text', 7, {}, { status: '200' }]) {
      for (const handler of [() => value, async () => value]) {
        const seen: unknown[] = []
        const answer = await guard(handler as unknown as Handler, { onError: (error) => seen.push(error) })(request)
        assert.equal(answer?.status, 500)
        assert.equal((seen[0] as Error).name, 'TypeError')
      }
    }
  })

  test('responds with 500 to a response whose properties throw, at once or later', async () => {
    const trap = Object.defineProperty({}, 'status', {
      get: thrower(httpError('gone')) as () => unknown,
    }) as HttpResponse
    assert.equal((guard(() => trap)(request) as HttpResponse).status, 410)
    assert.equal((await guard(async () => trap)(request))?.status, 410)
  })

  test('awaits promise-like objects of any kind', async () => {
    const thenable = (settle: (resolve: (value: unknown) => void, reject: (error: unknown) => void) => void): Handler =>
      (() => ({ then: settle })) as never
    assert.equal(await guard(thenable((resolve) => { resolve(response) }))(request), response)
    assert.equal((await guard(thenable((_, reject) => { reject(httpError('gone')) }))(request))?.status, 410)
    const trap = Object.defineProperty({}, 'then', { get: thrower(httpError('gone')) as () => unknown })
    assert.equal((guard(() => trap as never)(request) as HttpResponse).status, 410)
  })

  test('ignores an onError that throws or rejects, and causes a warning', async () => {
    const failing = [
      () => { throw new Error('logger broke') },
      async () => { throw new Error('logger broke') },
    ]
    for (const onError of failing) {
      const warned = once(process, 'warning') as Promise<[Error]>
      const answer = guard(thrower(new Error('x')), { onError })(request) as HttpResponse
      assert.equal(answer.status, 500)
      const [warning] = await warned
      assert.equal(warning.name, 'LonghaulError')
      assert.match(warning.message, /logger broke/)
    }
  })

  test('reports a failure without onError as a process warning with its stack, whatever was thrown', async () => {
    const trap = (): never => {
      throw new Error('trap')
    }
    const unprintable = new Proxy({}, { get: trap, getPrototypeOf: trap })
    for (const [error, expected] of [
      [new Error('lost'), /Error: lost\n {4}at /],
      ['text', /^POST \/things: text$/],
      [unprintable, /cannot be shown/],
    ] as const) {
      const warned = once(process, 'warning') as Promise<[Error]>
      assert.equal((guard(thrower(error))(request) as HttpResponse).status, 500)
      assert.match((await warned)[0].message, expected)
    }
  })

  test('keeps the description of the handler', () => {
    const operations = [{ method: 'GET', openapi: {} }]
    assert.equal(guard(describeHandler(() => response, operations)).operations, operations)
    assert.equal(guard(() => response).operations, undefined)
  })
})
