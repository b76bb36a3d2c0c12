import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { UploadResult } from 'longhaul/ndjson'
import { useReference } from '../kit/reference.js'

interface User { id: number, name: string, email: string, role: string }

const NDJSON = { 'content-type': 'application/x-ndjson' }

describe('NDJSON on the reference server', () => {
  const client = useReference()

  const upload = (body: string, headers: Record<string, string> = {}) =>
    client.ask('POST', '/upload-ndjson', { body, headers: { ...NDJSON, ...headers } })
  const users = async (): Promise<Map<number, User>> => {
    const { text } = await client.ask('GET', '/bulk-data', { token: 'reader-1' })
    return new Map(text.trimEnd().split('\n').map((line) => JSON.parse(line) as User).map((user) => [user.id, user]))
  }

  test('SPEC 1.4, 4.9, 4.9.format.1, 4.9.format.2: GET /bulk-data sends the users, one per line', async () => {
    const { status, headers } = await client.ask('GET', '/bulk-data', { headers: { accept: 'application/x-ndjson' } })
    assert.deepEqual([status, headers.get('content-type')], [200, 'application/x-ndjson'])
    const all = await users()
    assert.ok(all.size >= 1000)
    const first = all.get(1)
    assert.deepEqual(Object.keys(first ?? {}).sort(), ['email', 'id', 'name', 'role'])
  })
  test('SPEC 4.9, 4.9.upload.2: POST /upload-ndjson changes users by id, creates others, and skips bad lines', async () => {
    const before = await users()
    const answer = await upload(
      [
        '{"id":0,"name":"Zero","email":"zero@example.com"}', '{"id":1,"name":"New name"}',
        '{broken', '{"name":"No id","email":"no-id@example.com"}', '{"id":99999,"name":"No email"}',
        '{"id":"7"}',
      ].join('\n'),
    )
    assert.equal(answer.status, 200)
    const { message, summary, items } = answer.json as UploadResult
    assert.equal(typeof message, 'string')
    assert.deepEqual(summary, { total: 6, succeeded: 3, failed: 3 })
    assert.deepEqual(
      items.map(({ line, error }) => [line, error?.code]),
      [
        [3, 'line_malformed'],
        [5, 'invalid_input'],
        [6, 'record_invalid'],
      ],
    )
    const now = await users()
    assert.equal(now.size, before.size + 2)
    assert.deepEqual(now.get(0), { id: 0, name: 'Zero', email: 'zero@example.com', role: 'viewer' })
    assert.deepEqual(now.get(1), { ...before.get(1), name: 'New name' })
    assert.deepEqual([...now.keys()].slice(0, 2), [0, 1])
    assert.ok([...now.values()].some(({ name }) => name === 'No id'))
  })
  test('SPEC 4.9.upload.3: POST /upload-ndjson reads gzip', async () => {
    const body = gzipSync('{"id":2,"name":"From gzip"}\n')
    const response = await fetch(`${client.url}/upload-ndjson`, {
      method: 'POST', body, headers: { ...NDJSON, 'content-encoding': 'gzip', 'authorization': 'Bearer writer-1' },
    })
    assert.equal(response.status, 200)
    assert.equal((await users()).get(2)?.name, 'From gzip')
  })
  test('POST /upload-ndjson sends one result per line to a client that asks for it', async () => {
    const { text } = await upload('{"id":3,"name":"Three"}\nx\n', { accept: 'application/x-ndjson' })
    const [first, second, last] = text.trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>)
    assert.deepEqual(
      [first, second?.['line'], last?.['summary']],
      [{ line: 1, status: 200, id: 3 }, 2, { total: 2, succeeded: 1, failed: 1 }],
    )
  })
  test('POST /upload-ndjson reads the body in the background with Prefer: respond-async', async () => {
    const { status, headers } = await upload('{"id":4,"name":"Later"}\n', { prefer: 'respond-async' })
    assert.equal(status, 202)
    const ended = await client.ended(headers.get('location') ?? '')
    assert.deepEqual((ended.json as { status: string; result: UploadResult }).result.summary, {
      total: 1,
      succeeded: 1,
      failed: 0,
    })
    assert.equal((await users()).get(4)?.name, 'Later')
    assert.equal((await client.ended(headers.get('location') ?? '', { token: 'writer-2' })).status, 404)
  })
  test('SPEC 5.2, 5.3: only readers can read, and only writers can write', async () => {
    for (const [method, path] of [['GET', '/bulk-data'], ['POST', '/upload-ndjson']] as const) {
      assert.equal((await client.ask(method, path, { token: null, headers: NDJSON })).status, 401)
      assert.equal((await client.ask(method, path, { token: 'stranger', headers: NDJSON })).status, 401)
    }
    assert.equal(
      (await client.ask('POST', '/upload-ndjson', { token: 'reader-1', headers: NDJSON, body: '{"id":1}' })).status,
      403,
    )
  })
})
