// What every answer of the reference server says, from outside.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { useReference } from '../kit/reference.js'
import { Wire } from '../kit/wire.js'

describe('X-Request-Id and the RateLimit headers are on every response', () => {
  const client = useReference()
  const ID = /^[\w-]{16,}$/

  const requests: readonly (readonly [
    status: number,
    method: string,
    path: string,
    init?: { readonly token?: string | null; readonly headers?: Record<string, string>; readonly body?: unknown },
  ])[] = [
    [200, 'GET', '/'],
    [200, 'GET', '/openapi.json'],
    [200, 'GET', '/api/users'],
    [200, 'HEAD', '/api/users'],
    [206, 'GET', '/api/users', { headers: { range: 'items=0-1' } }],
    [304, 'GET', '/api/users', { headers: { 'if-none-match': '*' } }],
    [200, 'GET', '/bulk-data'],
    [206, 'GET', '/api/files/large-file', { headers: { range: 'bytes=0-1' } }],
    [202, 'POST', '/start-job', { body: { ms: 1 } }],
    [200, 'OPTIONS', '/api/users'],
    [400, 'GET', '/api/users?batch_size=x'],
    [400, 'POST', '/start-job', { body: '{' }],
    [401, 'GET', '/api/users', { token: null }],
    [401, 'GET', '/api/users', { token: 'nobody-s' }],
    [403, 'POST', '/start-job', { token: 'reader-1', body: {} }],
    [404, 'GET', '/nothing/here/at/all'],
    [404, 'GET', '/nothing', { token: null }],
    [404, 'DELETE', '/api'],
    [404, 'GET', '/job-status/nothing'],
    [404, 'GET', '/v9/users'],
    [405, 'DELETE', '/api/users'],
    [405, 'PUT', '/start-job', { body: {} }],
    [406, 'GET', '/api/users/1', { headers: { accept: 'text/html' } }],
    [413, 'POST', '/start-job', { body: JSON.stringify({ x: 'x'.repeat(1_100_000) }) }],
    [415, 'POST', '/start-job', { body: 'x', headers: { 'content-type': 'text/plain' } }],
    [416, 'GET', '/api/files/large-file', { headers: { range: 'bytes=99999999999-' } }],
    [422, 'POST', '/api/long-running-task', { body: { task: 'export-users', data: { role: 'none' } } }],
  ]
  const seen = new Set<string>()
  for (const [status, method, path, what = {}] of requests) {
    test(`${status} ${method} ${path}${what.token === null ? ', without credentials' : ''}`, async () => {
      const response = await client.open(method, path, what)
      await response.arrayBuffer()
      assert.equal(response.status, status)
      const id = response.headers.get('x-request-id') ?? ''
      assert.match(id, ID)
      assert.ok(!seen.has(id), 'two requests have one id')
      seen.add(id)
      assert.equal(response.headers.get('ratelimit-policy'), '"default";q=600;w=60')
      assert.match(response.headers.get('ratelimit') ?? '', /^"default";r=\d+;t=\d+$/)
    })
  }

  const raw = {
    'a request that is none': [400, 'garbage\r\n\r\n'],
    'a method that no parser knows': [501, 'BREW / HTTP/1.1\r\nhost: x\r\n\r\n'],
    'headers that are too large': [431, `GET / HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`],
    'an expectation': [417, 'GET / HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\n\r\n'],
    'a tunnel': [501, 'CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n'],
    'a method that nobody has': [501, 'PROPFIND /api/users HTTP/1.1\r\nhost: x\r\n\r\n'],
  } as const
  for (const [name, [status, text]] of Object.entries(raw)) {
    test(`${status} for ${name}`, async () => {
      const wire = new Wire(Number(new URL(client.url).port), text)
      await wire.until(/\r\n\r\n/)
      assert.match(wire.text, new RegExp(`^HTTP/1.1 ${status} `))
      assert.match(wire.text, /\r\nx-request-id: [\w-]{16,}\r\n/i)
      assert.match(wire.text, /\r\nratelimit-policy: "default";q=600;w=60\r\n/i)
      assert.match(wire.text, /\r\nratelimit: "default";r=\d+;t=\d+\r\n/i)
      wire.socket.destroy()
    })
  }
})
