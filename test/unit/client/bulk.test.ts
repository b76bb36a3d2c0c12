import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  isBulkFailed, type BulkFailedError, type BulkItem, type BulkReport, type ClientOptions,
} from '../../../src/client/index.js'
import { fakeServer, json, lost, type Seen } from '../kit/fake-server.js'

interface User { email?: string, name: string }

const users = (count: number): User[] =>
  Array.from({ length: count }, (_, at) => ({ name: `user ${at}`, ...(at % 7 !== 3 && { email: `u${at}@x.test` }) }))

/** A response of a bulk endpoint: 201 for all, 207 for some, 422 for none. */
function report(items: readonly User[], onlyFailed = false): Response {
  const outcomes: BulkItem[] = items.map(({ email, name }, index) =>
    email === undefined
      ? {
        index,
        status: 400,
        error: {
          code: 'invalid_input',
          message: 'No.',
          details: [{ pointer: `/${index}/email`, message: 'is required' }],
        },
      }
      : { index, status: 201, id: name },
  )
  const failed = outcomes.filter(({ status }) => status >= 400)
  const summary = { total: items.length, succeeded: items.length - failed.length, failed: failed.length }
  const body = { summary, items: onlyFailed ? failed : outcomes }
  if (failed.length === 0) return json(body, 201)
  return failed.length < items.length ? json(body, 207) : json({ error: 'None.', code: 'bulk_refused', ...body }, 422)
}

function site(
  limits: { items?: number; bytes?: number } = {},
  before?: (request: Seen, at: number) => Response | undefined | Promise<Response | undefined>,
  options?: ClientOptions,
) {
  return fakeServer(async (request, at) => {
    const early = await before?.(request, at)
    if (early) return early
    const items = JSON.parse(request.body) as User[]
    if (items.length > (limits.items ?? Infinity) || request.body.length > (limits.bytes ?? Infinity))
      return json({ error: 'Too much.', code: 'body_too_large' }, 413)
    return report(items, request.url.includes('only=failed'))
  }, options)
}

const sizes = (seen: readonly Seen[]) => seen.map(({ body }) => (JSON.parse(body) as unknown[]).length)

/** What one request with everything would have said. */
async function whole(items: readonly User[]) {
  const { summary, items: outcomes } = await report(items).json() as BulkReport
  return { summary, items: outcomes }
}

describe('client.bulk', () => {
  test('returns the same report for any division into requests', async () => {
    const all = users(50)
    for (const options of [
      {},
      { maxItems: 7 },
      { maxItems: 1 },
      { maxBodyBytes: 300 },
      { maxItems: 7, concurrency: 5 },
    ]) {
      const { client, seen } = site()
      assert.deepEqual(await client.bulk('/bulk', all, options), await whole(all))
      assert.deepEqual(seen.flatMap(({ body }) => JSON.parse(body) as unknown[]).length, 50)
      if (options.maxBodyBytes !== undefined) assert.ok(seen.length > 5 && seen.every(({ body }) => body.length <= 300))
    }
  })

  test('sends each request with its own key, which a retry repeats', async () => {
    const { client, seen } = fakeServer(({ body, headers }, at) => {
      if (at === 0) return lost()
      const key = { 'idempotency-key': headers['idempotency-key'] ?? '' }
      return body === '[]'
        ? json({ error: 'No items.', code: 'empty_batch' }, 400, key)
        : report(JSON.parse(body) as User[])
    })
    await client.bulk('/bulk', users(4), { maxItems: 2, idempotencyKey: 'mine' })
    const keys = seen.map(({ headers }) => headers['idempotency-key'])
    assert.match(keys.splice(1, 1)[0] ?? '', /^[0-9a-f]{32}$/, 'the question has a key of its own')
    assert.deepEqual(keys, ['mine-0-2', 'mine-0-2', 'mine-2-2'])
    const other = site()
    await other.client.bulk('/bulk', users(4), { maxItems: 2 })
    assert.match(other.seen[0]?.headers['idempotency-key'] ?? '', /^[0-9a-f]{32}-0-2$/)
    const none = site()
    await none.client.bulk('/bulk', users(2), { idempotencyKey: false })
    assert.equal(none.seen[0]?.headers['idempotency-key'], undefined)
  })

  test('sends this request again in smaller ones after a 413, and makes later requests as small', async () => {
    const { client, seen } = site({ items: 10 })
    const all = users(60)
    assert.deepEqual(await client.bulk('/bulk', all, { maxItems: 30 }), await whole(all))
    assert.deepEqual(sizes(seen), [30, 15, 8, 7, 15, 8, 7, 8, 8, 8, 6])
    const large = site({ bytes: 200 })
    assert.deepEqual(await large.client.bulk('/bulk', users(20)), await whole(users(20)))
  })

  test('reports an item that is too large alone, and sends the other items', async () => {
    const all = users(3)
    all[1] = { name: 'x'.repeat(500), email: 'x' }
    const { client } = site({ bytes: 200 })
    const { summary, items } = await client.bulk('/bulk', all)
    assert.deepEqual(summary, { total: 3, succeeded: 2, failed: 1 })
    assert.deepEqual(items[1], { index: 1, status: 413, error: { code: 'body_too_large', message: 'Too much.' } })
  })

  test('reads reports without a success, and reports that only have failures', async () => {
    const bad = Array.from({ length: 4 }, () => ({ name: 'no email' }))
    const { client } = site()
    assert.deepEqual((await client.bulk('/bulk', bad, { maxItems: 2 })).summary, { total: 4, succeeded: 0, failed: 4 })
    const { summary, items } = await client.bulk('/bulk?only=failed', users(20), { maxItems: 6 })
    assert.deepEqual(summary, { total: 20, succeeded: 17, failed: 3 })
    assert.deepEqual(items.map(({ index }) => index), [3, 10, 17])
  })

  test('sends updates with another property and method', async () => {
    const { client, seen } = fakeServer(({ body }) => report(JSON.parse(body).updates))
    await client.bulk('/update', users(2), { method: 'PATCH', items: '/updates' })
    assert.equal(seen[0]?.method, 'PATCH')
    assert.deepEqual(JSON.parse(seen[0]?.body ?? ''), { updates: users(2) })
  })

  test('sends items deep in the body, and the pointers of errors count items over all requests', async () => {
    const { client, seen } = fakeServer(({ body }) => {
      const { length } = JSON.parse(body)['a/b'].users as unknown[]
      const details = [
        { pointer: `/a~1b/users/${length - 1}/email`, message: 'is required' },
        { pointer: '/other', message: 'is odd' },
      ]
      const items = [{ index: length - 1, status: 400, error: { code: 'invalid_input', message: 'No.', details } }]
      return json({ error: 'No.', summary: { total: length, succeeded: length - 1, failed: 1 }, items }, 207)
    })
    const { items } = await client.bulk('/bulk', users(5), { items: '/a~1b/users', maxItems: 2 })
    assert.deepEqual(seen.map(({ body }) => JSON.parse(body ?? '')['a/b'].users.length), [2, 2, 1])
    assert.deepEqual(items.map(({ index, error }) => [index, ...error?.details?.map(({ pointer }) => pointer) ?? []]), [
      [1, '/a~1b/users/1/email', '/other'], [3, '/a~1b/users/3/email', '/other'], [4, '/a~1b/users/4/email', '/other'],
    ])
    await assert.rejects(client.bulk('/bulk', users(1), { items: 'users' }), {
      name: 'TypeError',
      message: /JSON pointer/,
    })
  })

  test('makes each request a task with background: true', async () => {
    const bodies: User[][] = []
    const { client, seen } = fakeServer(async ({ method, url, body }) => {
      if (method === 'POST')
        return json({ taskId: String(bodies.push(JSON.parse(body)) - 1) }, 202, {
          location: `/status/${bodies.length - 1}`,
        })
      return json({
        status: 'completed',
        result: { message: 'Done.', ...((await report(bodies[Number(url.at(-1))] ?? []).json()) as object) },
      })
    })
    assert.deepEqual(await client.bulk('/bulk', users(10), { maxItems: 5, background: true }), await whole(users(10)))
    assert.equal(seen[0]?.headers['prefer'], 'respond-async')
  })

  test('rejects with the report so far if a request fails as a whole', async () => {
    const { client, seen } = site({}, (_, at) => at === 2 ? json({ error: 'No.', code: 'forbidden' }, 403) : undefined)
    const error = await client.bulk('/bulk', users(50), { maxItems: 10 }).then(
      () => assert.fail(),
      (error: unknown) => error,
    )
    assert.ok(isBulkFailed(error))
    assert.equal((error.cause as { code: string }).code, 'forbidden')
    assert.equal(error.report.summary.total, 20)
    assert.equal(seen.length, 3)
    const many = site({}, (_, at) => at === 2 ? json({ error: 'No.' }, 403) : undefined)
    await assert.rejects(many.client.bulk('/bulk', users(50), { maxItems: 1, concurrency: 2 }), isBulkFailed)
    assert.ok(many.seen.length <= 5, String(many.seen.length))
  })

  test('rejects after an abort, and for a response that is not a report', async () => {
    const controller = new AbortController()
    const stopping = site({}, (_, at) => {
      if (at === 1) controller.abort(new Error('enough'))
      return undefined
    })
    await assert.rejects(stopping.client.bulk('/bulk', users(50), { maxItems: 10, signal: controller.signal }),
      (error: BulkFailedError) => (error.cause as Error).message === 'enough')
    await assert.rejects(
      fakeServer(() => json({ message: 'fine' })).client.bulk('/bulk', [1]),
      (error: BulkFailedError) => (error.cause as { code: string }).code === 'bad_answer',
    )
  })

  test('limits concurrent requests, and reports progress', async () => {
    let running = 0
    let most = 0
    const { client } = site({}, async () => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => { setImmediate(resolve) })
      running--
      return undefined
    })
    const heard: number[] = []
    await client.bulk('/bulk', users(30), {
      maxItems: 3,
      concurrency: 3,
      onProgress: ({ done, total }) => {
        heard.push(done / total)
      },
    })
    assert.equal(most, 3)
    assert.equal(heard.at(-1), 1)
    assert.deepEqual([...heard].sort((a, b) => a - b), heard)
  })

  test('divides a request while other requests run, and completes it', async () => {
    let release = (): void => undefined
    const held = new Promise<void>((resolve) => { release = resolve })
    const { client } = site({ items: 4 }, async (_, at) => {
      if (at === 0) await held
      if (at === 2) release()
      return undefined
    })
    assert.deepEqual(await client.bulk('/bulk', users(16), { maxItems: 8, concurrency: 2 }), await whole(users(16)))
  })

  test('sends nothing for an empty list, and rejects invalid options', async () => {
    const { client, seen } = site()
    assert.deepEqual(await client.bulk('/bulk', []), { summary: { total: 0, succeeded: 0, failed: 0 }, items: [] })
    assert.equal(seen.length, 0)
    for (const options of [{ maxItems: 0 }, { maxBodyBytes: 0.5 }, { concurrency: NaN }])
      await assert.rejects(client.bulk('/bulk', [1], options), TypeError)
  })
})
