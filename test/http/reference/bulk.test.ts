import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { BulkItem, BulkReport } from 'longhaul/bulk'
import { useReference } from '../kit/reference.js'

interface User { id: number, name: string, email: string, role: string }

let made = 0
const person = (): { name: string, email: string } => ({ name: `Bulk ${++made}`, email: `bulk-${made}@example.com` })

describe('bulk on the reference server', () => {
  const client = useReference()

  const users = async (): Promise<Map<number, User>> => {
    const { text } = await client.ask('GET', '/bulk-data', { token: 'reader-1' })
    return new Map(text.trimEnd().split('\n').map((line) => JSON.parse(line) as User).map((user) => [user.id, user]))
  }
  const create = (body: unknown, headers: Record<string, string> = {}, query = '') =>
    client.ask('POST', `/api/users/bulk${query}`, { body, headers })
  const update = (updates: unknown, headers: Record<string, string> = {}) =>
    client.ask('PATCH', '/api/users/bulk-update', { body: { updates }, headers })

  test('SPEC 1.2, 2.1, 2.2, 4.3: POST /api/users/bulk creates users from an array of name and email', async () => {
    const before = await users()
    const sent = [person(), person(), person()]
    const { status, json, headers } = await create(sent)
    assert.deepEqual([status, headers.get('content-type')], [201, 'application/json'])
    const { summary, items = [] } = json as BulkReport
    assert.deepEqual(summary, { total: 3, succeeded: 3, failed: 0 })
    const now = await users()
    assert.equal(now.size, before.size + 3)
    assert.deepEqual(
      items.map(({ id }) => now.get(id as number)),
      sent.map((its, at) => ({ ...its, id: items[at]?.id, role: 'viewer' })),
    )
  })
  test('SPEC 2.1, 4.3.1, 4.3.2, 7.4: POST /api/users/bulk reports the outcome of each item separately', async () => {
    const before = await users()
    const [one, two] = [person(), person()]
    const { status, json } = await create([
      one,
      { name: 'No email' },
      one,
      { name: 'Taken', email: before.get(1)?.email },
      two,
    ])
    const { items } = json as BulkReport
    assert.equal(status, 207)
    assert.deepEqual(
      items?.map((item) => [item.status, item.error?.code, item.error?.details?.[0]?.pointer]),
      [
        [201, undefined, undefined],
        [400, 'invalid_input', '/1/email'],
        [409, 'duplicate_item', undefined],
        [409, 'conflict', '/3/email'],
        [201, undefined, undefined],
      ],
    )
    assert.equal((await users()).size, before.size + 2)
    const none = await create([{ name: 'No email' }])
    assert.deepEqual([none.status, none.json.code], [422, 'batch_failed'])
  })
  test('SPEC 2.3, 4.4, 4.4.1: PATCH /api/users/bulk-update changes all roles or none', async () => {
    const good = await update([{ userId: 1, role: 'admin' }, { userId: 2, role: 'editor' }])
    assert.deepEqual([good.status, (good.json as BulkReport).summary], [200, { total: 2, succeeded: 2, failed: 0 }])
    const before = await users()
    assert.deepEqual([before.get(1)?.role, before.get(2)?.role], ['admin', 'editor'])
    const bad = await update([
      { userId: 1, role: 'viewer' },
      { userId: 10_000_000, role: 'viewer' },
      { userId: 2, role: 'king' },
    ])
    assert.deepEqual([bad.status, bad.json.code], [422, 'batch_failed'])
    assert.deepEqual((bad.json as BulkReport).items?.map((item) => item.status), [424, 404, 422])
    const missing = await update([{ userId: 1, role: 'viewer' }, { userId: 10_000_000, role: 'viewer' }])
    assert.deepEqual(
      (missing.json as BulkReport).items?.map((item) => [item.status, item.error?.code]),
      [
        [424, 'not_applied'],
        [404, 'not_found'],
      ],
    )
    assert.deepEqual(await users(), before)
  })
  test('SPEC 4.4.2: PATCH /api/users/bulk-update with Prefer: handling=lenient changes the roles of the valid items', async () => {
    const updates = (role: string) => [
      { userId: 1, role },
      { userId: 10_000_000, role },
      { userId: 2, role: 'king' },
      { userId: 3, role },
    ]
    const lenient = await update(updates('editor'), { prefer: 'handling=lenient' })
    assert.deepEqual(
      [lenient.status, (lenient.json as BulkReport).items?.map((item) => item.status)],
      [207, [200, 404, 422, 200]],
    )
    assert.equal(lenient.headers.get('preference-applied'), 'handling=lenient')
    assert.match(lenient.headers.get('vary') ?? '', /\bPrefer\b/)
    assert.deepEqual([(await users()).get(1)?.role, (await users()).get(3)?.role], ['editor', 'editor'])
    const accepted = await update(updates('admin'), { prefer: 'respond-async, handling=lenient' })
    assert.deepEqual(
      [accepted.status, accepted.headers.get('preference-applied')],
      [202, 'respond-async, handling=lenient'],
    )
    const { json } = await client.ended(accepted.headers.get('location') ?? '')
    assert.deepEqual(
      (json as { result?: BulkReport }).result?.items?.map((item) => item.status),
      [200, 404, 422, 200],
    )
    assert.deepEqual([(await users()).get(1)?.role, (await users()).get(3)?.role], ['admin', 'admin'])
  })
  test('SPEC 8.1: a body that is too large or of another type is rejected', async () => {
    const size = (await users()).size
    assert.equal((await create('x', { 'content-type': 'application/x-ndjson' })).status, 415)
    assert.equal((await create([])).json.code, 'empty_batch')
    assert.equal((await create({ updates: [] })).status, 400)
    assert.equal((await client.ask('GET', '/api/users/bulk')).status, 405)
    const large = await fetch(`${client.url}/api/users/bulk`, {
      method: 'POST',
      headers: { 'authorization': 'Bearer writer-1', 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: gzipSync(`[${' '.repeat(40_000_000)}1]`),
    })
    assert.equal(large.status, 413)
    await large.arrayBuffer()
    assert.equal((await users()).size, size)
  })
  test('a retry with an Idempotency-Key creates nothing', async () => {
    const sent = [person(), {}]
    const headers = { 'idempotency-key': '"bulk-1"' }
    const first = await create(sent, headers)
    const size = (await users()).size
    const again = await create(sent, headers)
    assert.deepEqual([again.status, again.text, again.headers.get('idempotent-replayed')], [207, first.text, 'true'])
    assert.equal((await users()).size, size)
  })
  test('Prefer: respond-async makes a bulk request a task, whose items its owner can read', async () => {
    const accepted = await create([person(), {}, person()], { prefer: 'respond-async' })
    assert.equal(accepted.status, 202)
    const location = accepted.headers.get('location') ?? ''
    const { status, result } = (await client.ended(location)).json as { status: string, result: BulkReport }
    assert.deepEqual([status, result.summary], ['completed', { total: 3, succeeded: 2, failed: 1 }])
    const failed = await client.ask('GET', `${location}/items?only=failed`)
    assert.equal(failed.headers.get('content-type'), 'application/x-ndjson')
    assert.deepEqual((JSON.parse(failed.text) as BulkItem).index, 1)
    const stranger = await client.ask('GET', `${location}/items`, { token: 'writer-2' })
    const nobody = await client.ask('GET', '/api/status/none/items', { token: 'writer-2' })
    assert.deepEqual([stranger.status, stranger.text], [404, nobody.text])
    const changed = await update([{ userId: 3, role: 'admin' }], { prefer: 'respond-async' })
    await client.ended(changed.headers.get('location') ?? '')
    assert.equal((await users()).get(3)?.role, 'admin')
  })
  test('a large array is streamed', async () => {
    const size = (await users()).size
    const { status, json } = await create(
      Array.from({ length: 20_000 }, () => ({ ...person(), role: 'viewer' })),
      {},
      '?only=failed',
    )
    assert.deepEqual([status, json], [201, { summary: { total: 20_000, succeeded: 20_000, failed: 0 }, items: [] }])
    assert.equal((await users()).size, size + 20_000)
  })
  test('SPEC 5.1, 5.2, 5.3: only writers may create users', async () => {
    for (const [method, path] of [['POST', '/api/users/bulk'], ['PATCH', '/api/users/bulk-update']] as const) {
      assert.equal((await client.ask(method, path, { token: null, body: [] })).status, 401)
      assert.equal((await client.ask(method, path, { token: 'reader-1', body: [] })).status, 403)
    }
  })
})
