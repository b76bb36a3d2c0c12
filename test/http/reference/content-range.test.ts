// Content-Range in requests (RFC 9110 section 14.5), at the reference server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { useReference } from '../kit/reference.js'

const client = useReference()
const headers = { 'content-type': 'application/json', 'content-range': 'bytes 0-9/100' }

test('PUT with Content-Range gets a 400, and the record stays', async () => {
  const before = await client.ask('GET', '/api/users/1')
  const put = await client.ask('PUT', '/api/users/1', {
    headers,
    body: JSON.stringify({ name: 'Part', email: 'part@example.com' }),
  })
  assert.deepEqual([put.status, put.json.code], [400, 'invalid_header'])
  assert.equal((await client.ask('GET', '/api/users/1')).text, before.text)
})

for (const [method, path, type, body] of [
  ['POST', '/api/users', 'application/json', '{"name":"A","email":"a@example.com"}'],
  ['PATCH', '/api/users/1', 'application/json', '{"name":"A"}'],
  ['POST', '/upload-ndjson', 'application/x-ndjson', '{"id":90,"name":"A"}\n'],
] as const) {
  test(`${method} ${path} with Content-Range gets a 400`, async () => {
    const { status, json } = await client.ask(method, path, { headers: { ...headers, 'content-type': type }, body })
    assert.deepEqual([status, json.code], [400, 'invalid_header'])
  })
}
