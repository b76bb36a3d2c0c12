import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isClientError } from '../../../src/client/index.js'
import { BASE, fakeServer, json, lost, script } from '../kit/fake-server.js'

const task = (taskId: string) => ({ taskId, status: 'completed', message: 'Done.', result: { message: 'Done.' } })

describe('client.tasks', () => {
  test('iterates over all pages, and sends the filter once', async () => {
    const { client, seen } = fakeServer(script(
      () => json({ items: [task('3'), task('2')], next: '/v1/tasks?status=failed&cursor=c2' }),
      () => json({ items: [], next: 'tasks?status=failed&cursor=c3' }),
      () => json({ items: [task('1')] }),
    ), { baseUrl: `${BASE}/v1` })
    const ids: unknown[] = []
    const list = client.tasks('/tasks', {
      status: ['failed', 'cancelled'],
      task: 'report',
      from: new Date('2026-01-01T00:00:00+01:00'),
      to: '2026-02-01T00:00:00+01:00',
      order: 'oldest',
      limit: 2,
    })
    for await (const { taskId } of list) ids.push(taskId)
    assert.deepEqual(ids, ['3', '2', '1'])
    const { searchParams, pathname } = new URL(seen[0]?.url ?? '')
    assert.deepEqual(
      [pathname, Object.fromEntries(searchParams)],
      [
        '/v1/tasks',
        {
          status: 'failed,cancelled',
          task: 'report',
          from: '2025-12-31T23:00:00.000Z',
          to: '2026-02-01T00:00:00+01:00',
          order: 'oldest',
          limit: '2',
        },
      ],
    )
    assert.deepEqual(
      seen.slice(1).map(({ url }) => url),
      [`${BASE}/v1/tasks?status=failed&cursor=c2`, `${BASE}/v1/tasks?status=failed&cursor=c3`],
    )
  })

  test('has the next page in each page, and another client can read this page', async () => {
    const replies = script(
      () => json({ items: [task('2')], next: '/tasks?cursor=c' }),
      () => json({ items: [task('1')] }),
    )
    const { client, seen } = fakeServer(replies)
    const { items, next } = await client.tasks('/tasks?version=1', { limit: 1 }).page()
    assert.deepEqual([items.length, next], [1, `${BASE}/tasks?cursor=c`])
    assert.deepEqual(
      await client
        .tasks('/tasks')
        .page(next)
        .then((page) => [page.items[0]?.taskId, 'next' in page]),
      ['1', false],
    )
    assert.deepEqual(seen.map(({ url }) => url), [`${BASE}/tasks?version=1&limit=1`, `${BASE}/tasks?cursor=c`])
  })

  test('finds the status resource of an item by its name, below the list, or by `statusPath`', async () => {
    const job = { id: 'j', state: 'scheduled', statusUrl: '/job-status/j', startAt: '2030-01-01T00:00:00.000Z' }
    const { client, seen } = fakeServer(({ url }) =>
      url.includes('status/') ? json(task('a/b')) : json({ items: [task('a/b'), job] }),
    )
    const [one, two] = (await client.tasks('/api/status').page()).items
    assert.deepEqual([one?.statusUrl, two?.statusUrl], [`${BASE}/api/status/a%2Fb`, `${BASE}/job-status/j`])
    assert.deepEqual([two?.status, two?.startAt], ['scheduled', job.startAt])
    const [other] = (await client.tasks('/list/?x=1', { statusPath: '/api/status/{id}' }).page()).items
    assert.equal(other?.statusUrl, `${BASE}/api/status/a%2Fb`)
    assert.ok(one)
    assert.equal((await client.resume(one).status()).status, 'completed')
    assert.equal(seen.at(-1)?.url, `${BASE}/api/status/a%2Fb`)
  })

  test('repeats a lost page, and rejects with the error of the server', async () => {
    const { client, seen } = fakeServer(script(lost, () => json({}, 503), () => json({ items: [] })))
    assert.deepEqual((await client.tasks('/tasks').page()).items, [])
    assert.equal(seen.length, 3)
    const refused = fakeServer(() => json({ error: 'limit must be …', code: 'invalid_query' }, 400))
    await assert.rejects(
      refused.client.tasks('/tasks', { limit: -1 }).page(),
      (error) => isClientError(error) && error.code === 'invalid_query',
    )
    assert.equal(refused.seen.length, 1)
  })

  test('rejects a response that is not a list of tasks with bad_answer', async () => {
    for (const body of [
      [],
      { items: {} },
      { items: [1] },
      { items: [{ name: 'Ann' }] },
      { items: [{ status: 'completed' }] },
      'text',
      null,
    ]) {
      await assert.rejects(
        fakeServer(() => json(body))
          .client.tasks('/tasks')
          .page(),
        { code: 'bad_answer' },
        JSON.stringify(body),
      )
    }
  })

  test('stops when its signal aborts, and when the reader stops', async () => {
    const endless = fakeServer((_, at) => json({ items: [task(String(at))], next: `/tasks?cursor=${at}` }))
    for await (const { taskId } of endless.client.tasks('/tasks')) if (taskId === '2') break
    assert.equal(endless.seen.length, 3)
    const stop = new AbortController()
    const pages = endless.client
      .tasks('/tasks', { signal: stop.signal, headers: { 'x-a': '1' } })
      [Symbol.asyncIterator]()
    await pages.next()
    assert.equal(endless.seen.at(-1)?.headers['x-a'], '1')
    stop.abort(new Error('enough'))
    await assert.rejects(pages.next(), { message: 'enough' })
  })

  test('sends no credentials to another origin that `next` names', async () => {
    const { client, seen } = fakeServer(script(
      () => json({ items: [], next: 'https://evil.test/tasks' }), () => json({ items: [] }),
    ), { headers: { authorization: 'Bearer secret' } })
    for await (const _ of client.tasks('/tasks')) assert.fail()
    assert.deepEqual(seen.map(({ headers }) => headers['authorization']), ['Bearer secret', undefined])
  })
})
