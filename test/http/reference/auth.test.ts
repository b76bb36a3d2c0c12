import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { ConfigError, demoTokens, readConfig } from '../../../examples/reference-server/config.js'
import { useReference } from '../kit/reference.js'
import { Wire } from '../kit/wire.js'

const client = useReference()

const PROTECTED: readonly [method: string, path: string][] = [
  ['POST', '/api/long-running-task'], ['POST', '/start-job'],
  ['GET', '/api/status/x'], ['HEAD', '/api/status/x'], ['DELETE', '/api/status/x'],
  ['GET', '/job-status/x'], ['HEAD', '/job-status/x'], ['DELETE', '/job-status/x'],
  ['GET', '/users'], ['GET', '/v1/users'], ['GET', '/v2/users']
]

describe('access to the reference server', () => {
  for (const [method, path] of PROTECTED) {
    test(`SPEC 5.2, 7.401: ${method} ${path} without valid credentials gets a 401`, async () => {
      const nobody = await client.ask(method, path, { token: null })
      assert.equal(nobody.status, 401)
      assert.equal(nobody.headers.get('www-authenticate'), 'Bearer realm="longhaul"')
      if (method !== 'HEAD') assert.equal(nobody.json.code, 'unauthorized')

      for (const authorization of [
        'Bearer nope', 'Bearer', 'Bearer  ', 'Basic d3JpdGVyLTE6', 'writer-1', 'Bearer writer-1 x',
        'Bearer writer-', 'Bearer writer-11',
      ]) {
        const stranger = await client.ask(method, path, { token: null, headers: { authorization } })
        assert.equal(stranger.status, 401, authorization)
        const error = authorization.startsWith('Bearer') ? ', error="invalid_token"' : ''
        assert.equal(stranger.headers.get('www-authenticate'), `Bearer realm="longhaul"${error}`)
      }
    })
  }

  for (const [method, path] of PROTECTED.filter(([method]) => method !== 'GET' && method !== 'HEAD')) {
    test(`SPEC 5.3, 7.403: ${method} ${path} by a reader gets a 403, again and again`, async () => {
      for (let time = 0; time < 2; time++) {
        const refused = await client.ask(method, path, { token: 'reader-1' })
        assert.equal(refused.status, 403)
        assert.equal(refused.json.code, 'forbidden')
        assert.match(refused.json.error, /writer/)
      }
    })
  }

  test('ignores the case of the scheme, and allows an admin what a writer may do', async () => {
    assert.equal(
      (await client.ask('GET', '/api/status/x', { token: null, headers: { authorization: 'bearer reader-1' } })).status,
      404,
    )
    assert.equal((await client.submit('wait', { ms: 0 }, { token: 'admin-1' })).status, 202)
    assert.equal((await client.ask('GET', '/api/status/x', { token: 'reader-1' })).status, 404)
  })

  test('is rejected before the body is read and without a 100 Continue', async () => {
    for (const [authorization, status] of [['', 401], ['Authorization: Bearer reader-1\r\n', 403]] as const) {
      const wire = new Wire(
        Number(new URL(client.url).port),
        'POST /start-job HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n' +
          `Content-Type: application/json\r\nContent-Length: 1000000\r\n${authorization}\r\n`,
      )
      await wire.until(/\r\n\r\n/)
      assert.match(wire.text, new RegExp(`^HTTP/1.1 ${status} `))
      wire.socket.destroy()
    }
  })
})

describe('the owner of a task', () => {
  test('another user gets the same bytes as for an unknown task', async () => {
    for (const resource of ['/api/status', '/job-status']) {
      const path = `${resource}/${(await client.submit('wait', { ms: 60_000 })).json.taskId}`
      const unknown = `${resource}/AAAAAAAAAAAAAAAAAAAAAA`
      for (const token of ['writer-2', 'admin-1', 'reader-1']) {
        const [foreign, missing] = [
          await client.ask('GET', path, { token }),
          await client.ask('GET', unknown, { token }),
        ]
        assert.equal(foreign.status, 404)
        assert.equal(foreign.text, missing.text)
        assert.deepEqual(withoutDate(foreign.headers), withoutDate(missing.headers))
      }
      for (const headers of [{ prefer: 'wait=20' }, { accept: 'text/event-stream' }]) {
        assert.equal((await client.ask('GET', path, { token: 'writer-2', headers })).status, 404)
      }
      assert.equal((await client.ask('DELETE', path, { token: 'writer-2' })).status, 404)
      assert.equal((await client.ask('GET', path)).status, 200)
      assert.equal((await client.ask('DELETE', path)).status, 200)
    }
  })

  test('another owner with the same Idempotency-Key gets another task', async () => {
    const headers = { 'idempotency-key': 'mine' }
    const mine = await client.submit('wait', { ms: 0 }, { headers })
    const yours = await client.submit('wait', { ms: 0 }, { headers, token: 'writer-2' })
    assert.equal(yours.status, 202)
    assert.notEqual(yours.json.taskId, mine.json.taskId)
  })
})

describe('invalid settings stop the start', () => {
  test('AUTH_TOKENS is checked for tokens, subjects and roles', () => {
    assert.deepEqual(parseTokens('s3cret=alice:writer, dG9rZW4===bob@example.com:reader'), [
      { token: 's3cret', subject: 'alice', role: 'writer' },
      { token: 'dG9rZW4==', subject: 'bob@example.com', role: 'reader' }
    ])
    assert.deepEqual(parseTokens('a=ann:reader,b=bea:admin'), [
      { token: 'a', subject: 'ann', role: 'reader' },
      { token: 'b', subject: 'bea', role: 'admin' },
    ])
  })

  for (const [text, why] of [
    ['', /entry 1 is not token=subject:role/],
    ['a', /entry 1/],
    ['a=ann', /entry 1/],
    ['a=ann:reader,', /entry 2/],
    ['a=ann:king', /entry 1 has no role of reader, writer, admin/],
    ['a=:reader', /entry 1/],
    ['=ann:reader', /entry 1/],
    ['a b=ann:reader', /entry 1/],
    ['a=ann:reader,a=bea:writer', /the same token/],
  ] as const) {
    test(`AUTH_TOKENS=${text} is rejected, and no token is shown`, () => {
      assert.throws(
        () => readConfig({ AUTH_TOKENS: text }),
        (error) => {
          assert.ok(error instanceof ConfigError)
          assert.match(error.message, /^AUTH_TOKENS: /)
          assert.match(error.message, why)
          return true
        },
      )
    })
  }

  test('a rejection shows no secret', () => {
    assert.throws(
      () => readConfig({ AUTH_TOKENS: 'hunter2=ann' }),
      (error: Error) => !error.message.includes('hunter2'),
    )
  })

  test('PORT and HOST are checked', () => {
    assert.deepEqual([readConfig({}).port, readConfig({}).host], [3000, '127.0.0.1'])
    assert.deepEqual([readConfig({ PORT: '0' }).port, readConfig({ PORT: '65535', HOST: '::1' }).host], [0, '::1'])
    for (const PORT of ['65536', '-1', '3000.5', '0x10', 'http', ' 1', '999999']) {
      assert.throws(() => readConfig({ PORT }), {
        name: 'ConfigError',
        message: /^PORT must be a whole number from 0 to 65535 \(0 picks a free one\)/,
      })
    }
  })

  test('the demo tokens are used if AUTH_TOKENS is unset, and rejected in production', () => {
    assert.deepEqual(demoTokens(readConfig({}).tokens), ['demo-reader', 'demo-writer', 'demo-admin'])
    assert.deepEqual(demoTokens(readConfig({ AUTH_TOKENS: 'a=ann:reader' }).tokens), [])
    assert.throws(() => readConfig({ NODE_ENV: 'production' }), { name: 'ConfigError', message: /set AUTH_TOKENS/ })
    assert.throws(() => readConfig({ NODE_ENV: 'production', AUTH_TOKENS: 'demo-writer=writer:writer' }), {
      name: 'ConfigError',
    })
    assert.equal(readConfig({ NODE_ENV: 'production', AUTH_TOKENS: 'a=ann:reader' }).tokens.length, 1)
  })
})

function withoutDate(headers: Headers): [string, string][] {
  return [...headers].filter(([name]) => !['date', 'x-request-id', 'ratelimit'].includes(name))
}
