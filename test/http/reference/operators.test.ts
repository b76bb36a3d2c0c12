// What operators, and others, get from the routes of operators. The kit compares each response with
// the OpenAPI document.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { useReference, type Ask } from '../kit/reference.js'

const client = useReference()
const admin = { token: 'admin-1' }
const idOf = (location: string | null) => String(location).split('/').at(-1) ?? ''

const badPosts: readonly (readonly [status: number, what: Ask])[] = [
  [400, { body: 'x' }],
  [400, { body: { a: 1 } }],
  [400, { body: '{"__proto__":1}' }],
  [400, { body: '['.repeat(5000) }],
  [400, { headers: { 'idempotency-key': 'a b' } }],
  [400, { body: '{}', headers: { 'content-digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:` } }],
  [401, { token: null }],
  [403, { token: 'reader-1' }],
  [403, { headers: { 'sec-fetch-site': 'cross-site' } }],
  [413, { body: JSON.stringify({ x: 'x'.repeat(1_100_000) }) }],
  [415, { body: 'x', headers: { 'content-type': 'text/plain' } }],
  [415, { body: '{}', headers: { 'content-encoding': 'gzip' } }],
]

test('a retry and a repeated callback reject every invalid request, and repeat the outcome of a key', async () => {
  const { headers } = await client.submit('wait', { ms: 0, fail: true })
  const id = idOf(headers.get('location'))
  await client.ended(`/api/status/${id}`)
  for (const [path, token] of [[`/api/status/${id}`, 'writer-1'], [`/admin/tasks/${id}`, 'admin-1']] as const) {
    for (const below of ['retry', 'callback']) {
      for (const [status, what] of badPosts) {
        const got = await client.ask('POST', `${path}/${below}`, { token, ...what })
        assert.equal(got.status, status, `${path}/${below} ${JSON.stringify(what).slice(0, 80)}`)
      }
      const keyed = {
        token,
        headers: { 'idempotency-key': `${token} ${below}`.replaceAll(' ', '-'), 'prefer': 'wait=20' },
      }
      const [first, again] = [
        await client.ask('POST', `${path}/${below}`, keyed),
        await client.ask('POST', `${path}/${below}`, keyed),
      ]
      assert.deepEqual(
        [first.status, again.status, again.headers.get('idempotent-replayed')],
        below === 'retry' ? [422, 422, 'true'] : [409, 409, 'true'],
      )
    }
  }
  const later = await client.ask('POST', '/api/long-running-task', {
    body: { task: 'wait', data: { ms: 0 }, startAt: new Date(Date.now() + 3_600_000).toISOString() },
    headers: { prefer: 'respond-async' },
  })
  const path = `/admin/tasks/${idOf(later.headers.get('location'))}`
  assert.equal((await client.ask('DELETE', path, admin)).status, 200)
  const keyed = { ...admin, headers: { 'idempotency-key': 'again', 'prefer': 'wait=20' } }
  const [done, again] = [
    await client.ask('POST', `${path}/retry`, keyed),
    await client.ask('POST', `${path}/retry`, keyed),
  ]
  assert.deepEqual([done.status, done.json, again.text], [200, again.json, done.text])
})

test('a retry of many tasks rejects every invalid request, and has a report', async () => {
  for (const [status, what] of [...badPosts, [403, { token: 'writer-1' }] as const]) {
    const got = await client.ask('POST', '/admin/tasks/retry', { ...admin, ...what })
    assert.equal(got.status, status, JSON.stringify(what).slice(0, 80))
  }
  for (const query of ['status=completed', 'task=none', 'owner=', 'from=now', 'limit=1']) {
    assert.equal((await client.ask('POST', `/admin/tasks/retry?${query}`, admin)).json.code, 'invalid_query', query)
  }
  const keyed = { ...admin, headers: { 'idempotency-key': 'all', 'prefer': 'wait=20' } }
  const [accepted, again] = [
    await client.ask('POST', '/admin/tasks/retry', keyed),
    await client.ask('POST', '/admin/tasks/retry', keyed),
  ]
  assert.deepEqual(
    [accepted.status, again.status, again.headers.get('location')],
    [202, 202, accepted.headers.get('location')],
  )
  const { json } = await client.ended(String(accepted.headers.get('location')), admin)
  assert.equal(json.status, 'completed')
  assert.equal((await client.ask('PATCH', '/admin/tasks/retry', admin)).status, 405)
})

test('a cancel and a deletion of many tasks are for operators, and each has a report', async () => {
  const { headers } = await client.submit('wait', { ms: 60_000 })
  const id = idOf(headers.get('location'))
  for (const [path, query, report] of [
    ['/admin/tasks/cancel', '?task=wait', { cancelled: 1, failed: 0, failures: [] }],
    ['/admin/tasks/forget', '?status=cancelled&task=wait', { forgotten: 1, failed: 0, failures: [] }],
  ] as const) {
    for (const [status, what] of [...badPosts, [403, { token: 'writer-1' }] as const]) {
      assert.equal((await client.ask('POST', path + query, { ...admin, ...what })).status, status)
    }
    assert.equal((await client.ask('POST', `${path}?limit=1`, admin)).json.code, 'invalid_query')
    const accepted = await client.ask('POST', path + query, admin)
    assert.equal(accepted.status, 202)
    const { json } = await client.ended(String(accepted.headers.get('location')), admin)
    assert.deepEqual(json.result, report)
  }
  assert.equal((await client.ask('GET', `/api/status/${id}`)).status, 404)
})

test('a pool is paused and resumed by operators only', async () => {
  const path = '/admin/pause?pool=default'
  for (const method of ['PUT', 'DELETE']) {
    for (const [token, status] of [[null, 401], ['writer-1', 403], ['admin-1', 204]] as const) {
      assert.equal((await client.ask(method, path, { token })).status, status)
    }
    const { json } = await client.ask('GET', '/admin/pools', admin)
    assert.equal((json as { items: { isPaused: boolean }[] }).items[0]?.isPaused, method === 'PUT')
  }
  assert.equal((await client.ask('PUT', '/admin/pause?pool=none', admin)).json.code, 'invalid_query')
})

test('lists, pools and the overview are for operators only', async () => {
  for (const path of [
    '/admin/tasks', '/admin/overview', '/admin/pools', '/admin/tasks/unknown',
    '/admin/tasks/unknown/files/a',
  ]) {
    const statuses = await Promise.all(
      [null, 'reader-1', 'writer-1'].map(async (token) => (await client.ask('GET', path, { token })).status),
    )
    assert.deepEqual(statuses, [401, 403, 403], path)
    assert.equal((await client.ask('GET', `${path}?x=1`, admin)).json.code, 'invalid_query', path)
    assert.equal((await client.ask('PUT', path, admin)).status, 405, path)
  }
  assert.equal((await client.ask('GET', '/admin/tasks', { ...admin, headers: { accept: 'text/html' } })).status, 406)
})
