import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { readConfig } from '../../../examples/reference-server/config.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import { Client, TOKENS } from '../kit/reference.js'
import { Wire } from '../kit/wire.js'

const client = new Client('')
let server: RunningServer | undefined
before(async () => {
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    tokens: parseTokens(TOKENS),
    rateLimit: 1000,
    readMs: 300,
    headMs: 300,
  })
  client.url = server.url
})
after(() => server?.stop())

describe('a client that stops sending', () => {
  for (const begun of ['GET /users HTT', 'GET /users HTTP/1.1\r\nHost: x\r\nX-Slow: ']) {
    test(`SPEC 8.3: gets a 408 within the headers ${JSON.stringify(begun)}, loses its connection, and delays no other client`, async () => {
      const wire = new Wire(Number(new URL(client.url).port), begun)
      assert.equal((await client.ask('GET', '/users')).status, 200)
      assert.match(await wire.end(), /^HTTP\/1\.1 408 Request Timeout\r\n[^]*"code":"request_timeout"/)
    })
  }

  for (const [path, type, begun] of [
    ['/api/long-running-task', 'application/json', '{"task":'],
    ['/api/users', 'application/json', '{"name":'],
    ['/api/users/bulk', 'application/json', '[{"name":'],
    ['/upload-ndjson', 'application/x-ndjson', '{"id":1,"name":"Ann","email":"ann@example.com"}\n{"id":'],
  ] as const) {
    for (const prefer of ['', 'Prefer: respond-async\r\n']) {
      test(`SPEC 8.3: gets a 408 for ${path} ${prefer.trim()}, loses its connection, and delays no other client`, async () => {
        const wire = new Wire(
          Number(new URL(client.url).port),
          `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer writer-1\r\n` +
            `Content-Type: ${type}\r\nContent-Length: 100000\r\n${prefer}\r\n${begun}`,
        )
        assert.equal((await client.ask('GET', '/users')).status, 200)
        await wire.until(/\r\n\r\n.*"code":"request_timeout"/s)
        assert.match(wire.text, /^HTTP\/1\.1 408 Request Timeout\r\n/)
        assert.match(wire.text, /\r\nconnection: close\r\n/i)
        await wire.end()
      })
    }
  }
})

describe('RATE_LIMIT', () => {
  test('is a number of requests per minute, and 600 by default', () => {
    assert.deepEqual(
      [readConfig({}).rateLimit, readConfig({ RATE_LIMIT: '' }).rateLimit, readConfig({ RATE_LIMIT: '7' }).rateLimit],
      [600, 600, 7],
    )
    for (const RATE_LIMIT of ['0', '-1', '1.5', '1e3', '0x10', ' 1', 'many', '01', '1000000000']) {
      assert.throws(
        () => readConfig({ RATE_LIMIT }),
        { name: 'ConfigError', message: /^RATE_LIMIT must be a whole number of requests a minute above 0, not "/ },
        RATE_LIMIT,
      )
    }
  })
})
