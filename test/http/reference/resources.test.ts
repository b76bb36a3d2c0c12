import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { ConfigError, readConfig } from '../../../examples/reference-server/config.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { Client, TOKENS, type Ask } from '../kit/reference.js'
import { ask, Wire } from '../kit/wire.js'

// SPEC 4.1 and 4.2 on the reference server, wherever its users are.

const file = await sqliteUrl()

interface User { id: number, name: string, email: string, role: string }

function resourcesSuite(database: () => Promise<string>): void {
  const client = new Client('')
  let server: RunningServer | undefined
  before(async () => {
    server = await startServer({
      host: '127.0.0.1',
      port: 0,
      tokens: parseTokens(TOKENS),
      rateLimit: 100_000,
      database: await database(),
      trace: true,
    })
    client.url = server.url
  })
  after(() => server?.stop())

  const ask = (method: string, path: string, what: Ask = {}) => client.ask(method, path, what)
  const create = async (email: string): Promise<User> => (await ask('POST', '/api/users', { body: { email } })).json

  test('SPEC 1.2, 2.1, 4.2: GET /api/users returns users in batches of up to 1,000', async () => {
    const { status, headers, json } = await ask('GET', '/api/users', { token: 'reader-1' })
    assert.deepEqual(
      [status, json.items.length, json.start, json.batch_size, json.next],
      [200, 100, 0, 100, '/api/users?start=100&batch_size=100'],
    )
    assert.ok(json.total >= 1000)
    assert.match(headers.get('link') ?? '', /rel="next"/)
    for (const user of json.items as User[]) {
      assert.deepEqual(
        Object.entries(user).map(([name, value]) => [name, typeof value]),
        [
          ['id', 'number'],
          ['name', 'string'],
          ['email', 'string'],
          ['role', 'string'],
        ],
      )
    }
    const batch = await ask('GET', '/api/users?batch_size=3&start=10')
    assert.deepEqual((batch.json.items as User[]).map(({ id }) => id), [11, 12, 13])
    const part = await ask('GET', '/api/users', { headers: { range: 'items=10-12' } })
    assert.deepEqual(
      [part.status, part.headers.get('content-range'), part.json.items],
      [206, `items 10-12/${json.total as number}`, batch.json.items],
    )
    assert.deepEqual(
      [
        (await ask('GET', '/api/users?start=1000000')).json.items,
        (await ask('GET', '/api/users', { headers: { range: 'items=1000000-' } })).status,
      ],
      [[], 416],
    )
    assert.equal((await ask('GET', '/api/users?batch_size=0')).status, 400)
    assert.equal(
      (await ask('GET', '/api/users?batch_size=2', { headers: { accept: 'application/x-ndjson' } })).text.split('\n')
        .length,
      3,
    )
  })
  test('SPEC 1.1, 4.1.POST, 4.1.GET, 4.1.HEAD: POST creates a user at its Location, GET and HEAD read it', async () => {
    const { status, headers, json } = await ask('POST', '/api/users', {
      body: { name: 'Ann', email: 'ann@resources.example', role: 'editor' },
    })
    assert.deepEqual(
      [status, json],
      [201, { id: json.id, name: 'Ann', email: 'ann@resources.example', role: 'editor' }],
    )
    const location = headers.get('location') ?? ''
    assert.equal(location, `/api/users/${json.id as number}`)
    const read = await ask('GET', location, { token: 'reader-1' })
    assert.deepEqual([read.status, read.json, read.headers.get('etag')], [200, json, headers.get('etag')])
    const head = await ask('HEAD', location)
    assert.deepEqual(
      [head.status, head.text, head.headers.get('etag'), head.headers.get('content-length')],
      [200, '', headers.get('etag'), read.headers.get('content-length')],
    )
    assert.equal((await ask('GET', location, { headers: { 'if-none-match': headers.get('etag') ?? '' } })).status, 304)
    assert.deepEqual(
      [
        (await ask('GET', '/api/users/999999999')).status,
        (await ask('GET', '/api/users/x')).status,
        (await ask('GET', '/api/users/01')).status,
      ],
      [404, 404, 404],
    )
    assert.notEqual((await create('ann-2@resources.example')).id, (await create('ann-3@resources.example')).id)
  })
  test('POST with an Idempotency-Key creates one user for each caller, however often it is sent', async () => {
    const send = (token?: string) =>
      ask('POST', '/api/users', {
        body: { email: `once-${token ?? 'own'}@resources.example` },
        headers: { 'idempotency-key': '"once"' },
        ...(token !== undefined && { token }),
      })
    const [first, again] = [await send(), await send()]
    assert.deepEqual(
      [first.status, again.status, again.text, again.headers.get('idempotent-replayed')],
      [201, 201, first.text, 'true'],
    )
    assert.equal(again.headers.get('location'), first.headers.get('location'))
    const other = await send('admin-1')
    assert.deepEqual([other.status, other.headers.get('idempotent-replayed')], [201, null])
  })
  test('SPEC 1.5, 2.1, 4.1.POST, 7.400: a user without email and malformed JSON get a 400', async () => {
    const { status, json } = await ask('POST', '/api/users', { body: { name: 'Nobody' } })
    assert.deepEqual(
      [status, json.code, json.details],
      [400, 'invalid_input', [{ pointer: '/email', message: 'is required' }]],
    )
    for (const body of [
      '{',
      '[]',
      { email: 5 },
      { email: 'a@b', age: 5 },
      { email: 'no-at' },
      { email: 'a\u0000@b' },
      { email: 'a@b', name: '\ud800' },
    ]) {
      assert.equal((await ask('POST', '/api/users', { body })).status, 400, JSON.stringify(body))
    }
  })
  test('SPEC 7.409: an email that is taken is a conflict', async () => {
    const { id } = await create('taken@resources.example')
    for (const [method, path, body] of [
      ['POST', '/api/users', { email: 'TAKEN@resources.example' }],
      ['PATCH', '/api/users/1', { email: 'taken@resources.example' }],
      ['PUT', '/api/users/1', { email: 'taken@resources.example' }],
    ] as const) {
      const { status, json } = await ask(method, path, { body })
      assert.deepEqual([status, json.code, json.details[0].pointer], [409, 'conflict', '/email'], method)
    }
    assert.equal(
      (await ask('PATCH', `/api/users/${id}`, { body: { email: 'Taken@resources.example' } })).status,
      200,
      'its own',
    )
  })
  test('SPEC 4.1.PUT: PUT replaces a user or creates it, and a repeated PUT does the same', async () => {
    const path = '/api/users/70001'
    const made = await ask('PUT', path, { body: { email: 'put@resources.example', name: 'Put' } })
    assert.deepEqual(
      [made.status, made.headers.get('location'), made.json],
      [201, path, { id: 70001, name: 'Put', email: 'put@resources.example', role: 'viewer' }],
    )
    for (const again of [1, 2]) {
      const replaced = await ask('PUT', path, { body: { id: 70001, email: 'put@resources.example' } })
      assert.deepEqual([replaced.status, replaced.json.name], [200, ''], String(again))
    }
    assert.equal(
      (await ask('PUT', path, { body: { email: 'put@resources.example' }, headers: { prefer: 'return=minimal' } }))
        .status,
      204,
    )
    assert.equal((await ask('PUT', path, { body: { id: 5, email: 'put@resources.example' } })).status, 400)
  })
  test('SPEC 4.1.PATCH: PATCH changes the named properties only', async () => {
    const user = await create('patch@resources.example')
    const path = `/api/users/${user.id}`
    const { status, json, headers } = await ask('PATCH', path, {
      body: { role: 'admin' },
      headers: { 'content-type': 'application/merge-patch+json' },
    })
    assert.deepEqual([status, json], [200, { ...user, role: 'admin' }])
    assert.deepEqual(
      [
        (await ask('PATCH', path, { body: { role: 'king' } })).status,
        (await ask('PATCH', path, { body: { role: 'editor' }, headers: { prefer: 'return=minimal' } })).status,
      ],
      [422, 204],
    )
    const other = await ask('PATCH', path, { body: [], headers: { 'content-type': 'application/json-patch+json' } })
    assert.deepEqual(
      [other.status, other.headers.get('accept-patch')],
      [415, 'application/merge-patch+json, application/json'],
    )
    assert.equal(
      (await ask('PATCH', path, { body: { name: 'late' }, headers: { 'if-match': headers.get('etag') ?? '' } })).status,
      412,
    )
    assert.equal((await ask('GET', path)).json.name, '')
  })
  test('SPEC 4.1.DELETE: DELETE removes a user for good', async () => {
    const { id } = await create('delete@resources.example')
    assert.deepEqual(
      [
        (await ask('DELETE', `/api/users/${id}`)).status,
        (await ask('GET', `/api/users/${id}`)).status,
        (await ask('DELETE', `/api/users/${id}`)).status,
      ],
      [204, 404, 404],
    )
  })
  test('if many requests change one version at the same time, one of them succeeds', async () => {
    const user = await create('race@resources.example')
    const path = `/api/users/${user.id}`
    const etag = (await ask('GET', path)).headers.get('etag') ?? ''
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, at) =>
        ask('PATCH', path, { body: { name: `n${at}` }, headers: { 'if-match': etag } }),
      ),
    )
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array.from({ length: 7 }, () => 412)])
    const made = await Promise.all(
      Array.from({ length: 8 }, (_, at) =>
        ask('PUT', '/api/users/80001', {
          body: { email: `made-${at}@resources.example` },
          headers: { 'if-none-match': '*' },
        }),
      ),
    )
    assert.deepEqual(made.map(({ status }) => status).sort(), [201, ...Array.from({ length: 7 }, () => 412)])
  })
  test('SPEC 4.1.OPTIONS: OPTIONS and preflights need no credentials, and list the allowed methods', async () => {
    const { status, headers } = await ask('OPTIONS', '/api/users/1', { token: null })
    assert.deepEqual(
      [status, headers.get('allow'), headers.get('accept-patch')],
      [200, 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS, TRACE', 'application/merge-patch+json, application/json'],
    )
    const preflight = await ask('OPTIONS', '/api/users', {
      token: null,
      headers: {
        'origin': 'https://app.example.com',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type',
      },
    })
    assert.deepEqual(
      [
        preflight.status,
        ...['origin', 'methods', 'headers'].map((name) => preflight.headers.get(`access-control-allow-${name}`)),
      ],
      [200, '*', 'GET, HEAD, POST, OPTIONS', 'authorization, content-type'],
    )
    assert.deepEqual(
      (await ask('GET', '/api/users', { token: null, headers: { origin: 'https://app.example.com' } })).headers.get(
        'access-control-allow-origin',
      ),
      '*',
    )
  })
  test('SPEC 5.1, 5.2, 5.3: only readers can read, and only writers can write', async () => {
    for (const [method, path] of [
      ['GET', '/api/users'],
      ['POST', '/api/users'],
      ['GET', '/api/users/1'],
      ['PUT', '/api/users/1'],
      ['PATCH', '/api/users/1'],
      ['DELETE', '/api/users/1'],
    ] as const) {
      const body = method === 'GET' ? {} : { body: { email: 'x@resources.example' } }
      assert.equal((await ask(method, path, { token: null, ...body })).status, 401, method)
      assert.equal((await ask(method, path, { token: 'stranger', ...body })).status, 401, method)
      if (method !== 'GET') assert.equal((await ask(method, path, { token: 'reader-1', ...body })).status, 403, method)
    }
    assert.equal((await ask('GET', '/api/users/1')).status, 200)
  })
  test('SPEC 7.405, 7.501: other methods are rejected', async () => {
    const { status, headers } = await ask('DELETE', '/api/users')
    assert.deepEqual([status, headers.get('allow')], [405, 'GET, HEAD, POST, OPTIONS, TRACE'])
    assert.equal((await ask('SEARCH', '/api/users')).status, 501)
  })
  test('uploads, exports and versions see the same users', async () => {
    const { id } = await create('everywhere@resources.example')
    assert.equal(
      (
        await client.ask('POST', '/upload-ndjson', {
          body: `{"id":${id},"name":"Uploaded"}`,
          headers: { 'content-type': 'application/x-ndjson' },
        })
      ).json.summary.succeeded,
      1,
    )
    assert.equal((await ask('GET', `/api/users/${id}`)).json.name, 'Uploaded')
    assert.match((await ask('GET', '/bulk-data')).text, /"name":"Uploaded"/)
    assert.equal((await ask('GET', '/v2/users')).json.items[0].id, 1)
  })
}

describe('users in memory', () => resourcesSuite(async () => 'memory'))

describe('users in a file of SQLite', () => resourcesSuite(async () => file))

describe('users in a PostgreSQL', () => {
  let postgres: PostgresServer | undefined
  before(async () => { postgres = await startPostgres() })
  resourcesSuite(async () => postgres?.url ?? '')
  after(() => postgres?.stop())
})

describe('the reference server and the methods TRACE and CONNECT', () => {
  let server: RunningServer | undefined
  let other: RunningServer | undefined
  let port = 0
  let target = ''
  before(async () => {
    const common = { host: '127.0.0.1', port: 0, tokens: parseTokens(TOKENS) }
    other = await startServer(common)
    target = new URL(other.url).host
    server = await startServer({ ...common, trace: true, connectAllow: [target, '127.0.0.1:1'] })
    port = Number(new URL(server.url).port)
  })
  after(async () => { await Promise.all([server?.stop(), other?.stop()]) })

  const connect = async (authority: string, token: string | null): Promise<string> => {
    const wire = new Wire(
      port,
      `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${token === null ? '' : `Authorization: Bearer ${token}\r\n`}\r\n`,
    )
    await wire.until(/\r\n\r\n/)
    wire.socket.destroy()
    return wire.text
  }

  test('SPEC 1.1, 4.1.TRACE: TRACE echoes a request without its secrets, if it is switched on', async () => {
    const headers = { 'authorization': 'Bearer reader-1', 'cookie': 'a=b', 'x-hop': '1' }
    const { status, headers: told, body } = await ask(port, 'TRACE', '/api/users/1?x=y', { headers })
    assert.deepEqual([status, told['content-type']], [200, 'message/http'])
    assert.match(body, /^TRACE \/api\/users\/1\?x=y HTTP\/1\.1\r\n/)
    assert.match(body, /x-hop: 1/)
    assert.doesNotMatch(body, /reader-1|a=b/)
    assert.equal((await ask(port, 'TRACE', '/api/users/1')).status, 401)
    assert.equal((await ask(Number(new URL(other?.url ?? '').port), 'TRACE', '/api/users/1', { headers })).status, 405)
  })
  test('SPEC 1.1, 4.1.CONNECT, 7.502: CONNECT opens a tunnel to an allowed target for a writer', async () => {
    const wire = new Wire(
      port,
      `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Bearer writer-1\r\n\r\n`,
    )
    await wire.until(/^HTTP\/1\.1 200 [^]*\r\n\r\n$/)
    wire.socket.write(
      `GET /api/users?batch_size=1 HTTP/1.1\r\nHost: ${target}\r\nAuthorization: Bearer reader-1\r\nConnection: close\r\n\r\n`,
    )
    assert.match(await wire.end(), /"total":1200/)
    assert.match(await connect(target, null), /^HTTP\/1\.1 401 [^]*www-authenticate: Bearer/)
    assert.match(await connect(target, 'reader-1'), /^HTTP\/1\.1 403 /)
    assert.match(await connect('127.0.0.1:2', 'writer-1'), /^HTTP\/1\.1 403 /)
    assert.match(await connect('127.0.0.1:1', 'writer-1'), /^HTTP\/1\.1 502 [^]*x-request-id: /)
  })
  test('SPEC 1.1, 4.1.TRACE, 4.1.CONNECT: all nine methods work with the demo tokens by default', async () => {
    const demo = await startServer({ ...readConfig({ PORT: '0' }) })
    try {
      const demoPort = Number(new URL(demo.url).port)
      const answers: [string, number][] = []
      const send = async (method: string, path: string, body?: object): Promise<void> => {
        const headers = {
          'authorization': 'Bearer demo-writer',
          'x-any': 'thing',
          ...(body && { 'content-type': 'application/json' }),
        }
        const { status, body: text } = await ask(demoPort, method, path, {
          headers,
          ...(body && { body: JSON.stringify(body) }),
        })
        if (method === 'TRACE') assert.match(text, /x-any: thing\r\n/)
        if (method === 'TRACE') assert.doesNotMatch(text, /demo-writer/)
        answers.push([method, status])
      }
      await send('GET', '/api/users/1')
      await send('HEAD', '/api/users/1')
      await send('OPTIONS', '/api/users/1')
      await send('TRACE', '/api/users/1')
      await send('POST', '/api/users', { email: 'nine@example.com' })
      await send('PUT', '/api/users/7000', { email: 'seven@example.com' })
      await send('PATCH', '/api/users/7000', { name: 'Seven' })
      await send('DELETE', '/api/users/7000')
      assert.deepEqual(answers, [
        ['GET', 200],
        ['HEAD', 200],
        ['OPTIONS', 200],
        ['TRACE', 200],
        ['POST', 201],
        ['PUT', 201],
        ['PATCH', 200],
        ['DELETE', 204],
      ])
      for (const host of ['127.0.0.1', 'localhost']) {
        const own = `${host}:${demoPort}`
        const wire = new Wire(
          demoPort,
          `CONNECT ${own} HTTP/1.1\r\nHost: ${own}\r\nProxy-Authorization: Bearer demo-writer\r\n\r\n`,
        )
        await wire.until(/^HTTP\/1\.1 200 [^]*\r\n\r\n$/)
        wire.socket.write(
          `GET /api/users/1 HTTP/1.1\r\nHost: ${own}\r\nAuthorization: Bearer demo-reader\r\nConnection: close\r\n\r\n`,
        )
        assert.match(await wire.end(), /"id":1/)
      }
      const elsewhere = new Wire(
        demoPort,
        'CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Bearer demo-writer\r\n\r\n',
      )
      assert.match(await elsewhere.end(), /^HTTP\/1\.1 403 [^]*There is no tunnel to this target/)
    } finally {
      await demo.stop()
    }
  })
  test('without CONNECT_ALLOW there are no tunnels', async () => {
    const closed = new Wire(Number(new URL(other?.url ?? '').port), 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n')
    assert.match(await closed.end(), /^HTTP\/1\.1 501 /)
  })
})

test('DATABASE, TRACE and CONNECT_ALLOW are read, and invalid values are rejected', () => {
  const { database, trace, connectAllow } = readConfig({ AUTH_TOKENS: TOKENS })
  assert.deepEqual([database, trace, connectAllow], ['memory', false, []])
  const demo = readConfig({})
  assert.deepEqual([demo.trace, demo.connectAllow], [true, 'self'])
  const off = readConfig({ TRACE: 'off', CONNECT_ALLOW: '' })
  assert.deepEqual([off.trace, off.connectAllow], [false, []])
  const set = readConfig({ DATABASE: 'postgres://a:b@c:5432/d', TRACE: 'on', CONNECT_ALLOW: 'a:1, [::1]:2' })
  assert.deepEqual([set.database, set.trace, set.connectAllow], ['postgres://a:b@c:5432/d', true, ['a:1', '[::1]:2']])
  for (const env of [
    { DATABASE: 'mysql://x' },
    { DATABASE: 'postgres:x y' },
    { TRACE: 'yes' },
    { CONNECT_ALLOW: 'example.com' },
  ]) {
    assert.throws(() => readConfig(env), ConfigError, JSON.stringify(env))
  }
})
