import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { bulkCreate } from '../../../src/bulk/create.js'
import { guard } from '../../../src/http/boundary.js'
import { HttpError, httpError } from '../../../src/http/errors.js'
import { warn, aboutTask } from '../../../src/runtime/warning.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import { fakeRequest } from '../kit/request.js'

async function heard(work: () => unknown): Promise<string> {
  const warned = once(process, 'warning') as Promise<[Error]>
  await work()
  const [{ name, message }] = await warned
  assert.equal(name, 'LonghaulError')
  return message
}

describe('the report of a failure without an onError', () => {
  test('shows an error with the stacks of all its causes', async () => {
    const error = new Error('no user', { cause: new TypeError('no row', { cause: new Error('ECONNREFUSED') }) })
    const text = await heard(() => { warn(error) })
    assert.match(
      text,
      /^Error: no user\n {4}at [^]*\n\[cause\] TypeError: no row\n {4}at [^]*\n\[cause\] Error: ECONNREFUSED\n {4}at /,
    )
    const circle = new Error('circle')
    circle.cause = new Error('back', { cause: circle })
    assert.equal((await heard(() => { warn(circle) })).match(/\[cause\]/g)?.length, 5)
    assert.match(await heard(() => { warn(new Error('x', { cause: 'a text' })) }), /\n\[cause\] a text$/)
  })

  test('shows a rejection in one line without a stack, but with its cause', async () => {
    assert.equal(
      await heard(() => {
        warn(httpError('queue_full'))
      }),
      'HttpError: 503 queue_full: Too much work is waiting already.',
    )
    assert.equal(
      await heard(() => {
        warn(new StoreUnavailableError('There is no room', { reason: 'full' }))
      }),
      'StoreUnavailableError: There is no room',
    )
    const text = await heard(() => { warn(new HttpError(502, 'bad_gateway', { cause: new Error('reset') })) })
    assert.match(text, /^HttpError: 502 bad_gateway: bad_gateway\n\[cause\] Error: reset\n {4}at /)
    assert.match(await heard(() => { warn(httpError('internal_error')) }), /\n {4}at /)
  })

  test('names the request, and never its query', async () => {
    const text = await heard(() => guard(() => { throw new Error('x') })(fakeRequest()))
    assert.match(text, /^POST \/things: Error: x\n/)
  })

  test('names a task by its id, name and attempt', async () => {
    assert.match(
      await heard(() => {
        warn(new Error('x'), aboutTask({ taskId: 'id-1', name: 'report', attempt: 2 }))
      }),
      /^Task id-1 \(report, attempt 2\): Error: x\n/,
    )
  })
})

describe('a client that has disconnected', () => {
  const gone = (reason?: unknown) => Object.assign(fakeRequest(), { signal: AbortSignal.abort(reason) })

  test('causes no report of an error with the reason of its request, direct or as a cause', async () => {
    const request = gone()
    const seen: unknown[] = []
    const wrapped = new Error('stopped', { cause: request.signal.reason })
    for (const error of [request.signal.reason as Error, wrapped]) {
      await guard(() => { throw error }, { onError: (told) => seen.push(told) })(request)
    }
    assert.deepEqual(seen, [])
  })

  test('does not prevent the report of another failure', async () => {
    const seen: unknown[] = []
    const error = new Error('disk')
    await guard(() => { throw error }, { onError: (told) => seen.push(told) })(gone())
    const abort = new DOMException('of something else', 'AbortError')
    await guard(() => { throw abort }, { onError: (told) => seen.push(told) })(gone())
    await guard(() => { throw abort }, { onError: (told) => seen.push(told) })(fakeRequest())
    assert.deepEqual(seen, [error, abort, abort])
  })

  test('causes no report of a bulk repository that stops', async () => {
    const controller = new AbortController()
    const seen: unknown[] = []
    const handler = bulkCreate<{ id: number }, object>({
      repository: {
        create: async (_, { signal }) => {
          controller.abort()
          signal.throwIfAborted()
          return { id: 1 }
        },
      },
      onError: (error) => seen.push(error),
    })
    await handler(
      Object.assign(fakeRequest({ body: '[{}]', headers: { 'content-type': 'application/json' } }), {
        signal: controller.signal,
      }),
    )
    assert.deepEqual(seen, [])
  })
})
