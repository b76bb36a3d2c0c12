// Redirects and URLs that a server names, with the real `fetch` and two origins: nothing secret reaches the other one.
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { createClient, type Client, type ClientError } from 'longhaul/client'
import { listen } from '../../kit/listen.js'

interface Received {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}
type Serve = (request: Received, response: ServerResponse) => void

const SECRETS = {
  'authorization': 'Bearer s3cret',
  'cookie': 'session=s3cret',
  'proxy-authorization': 'Basic s3cret',
  'x-api-key': 's3cret',
  'x-tenant': 's3cret',
}

async function site(t: TestContext, serve: Serve) {
  const received: Received[] = []
  const running = await listen(createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => { body += text }).on('end', () => {
      const { method = '', url: path = '', headers } = request
      received.push({ method, path, headers, body })
      serve({ method, path, headers, body }, response)
    })
  }))
  t.after(() => running.close())
  return { received, url: `http://127.0.0.1:${running.port}` }
}

const respond = (response: ServerResponse, status: number, headers: Record<string, string>, body: unknown = {}) => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

/** A server that redirects everything to another origin, or to `/final` of its own. */
async function origins(t: TestContext, status: number, options: { own?: boolean } = {}) {
  const other = await site(t, ({ path }, response) => {
    respond(
      response,
      200,
      {},
      path.startsWith('/list') ? { items: [] } : { status: 'completed', result: { message: 'other' } },
    )
  })
  const home = await site(t, ({ path, method }, response) => {
    if (path.startsWith('/final')) respond(response, 200, {}, { message: 'own', method })
    else respond(response, status, { location: options.own === true ? `/final${path}` : `${other.url}${path}` })
  })
  const client = createClient({ baseUrl: home.url, headers: SECRETS, retry: { baseMs: 1, attempts: 3 } })
  return { home, other, client }
}

function assertNoSecret(received: readonly Received[]) {
  for (const { headers, body } of received) {
    assert.doesNotMatch(JSON.stringify(headers), /s3cret/)
    assert.equal(body, '')
  }
}

const writes: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
  submit: (client) => client.submit('/work', { secret: 's3cret' }, { headers: { 'x-call': 's3cret' } }),
  bulk: (client) => client.bulk('/work', [{ secret: 's3cret' }]),
  upload: (client) => client.upload('/work', [{ secret: 's3cret' }]),
  'upload with a key': (client) => client.upload('/work', [{ secret: 's3cret' }], { idempotencyKey: 'k' }),
  uploadFile: (client) => client.uploadFile('/work', new Blob(['s3cret'])).result(),
}

describe('a redirect to another origin', () => {
  for (const status of [307, 308]) {
    for (const [name, write] of Object.entries(writes)) {
      test(`${status} for ${name} is not followed: nothing is sent to the other origin, and the error says why`, async (t) => {
        const { home, other, client } = await origins(t, status)
        const failure = await write(client).then(
          () => assert.fail(),
          (error: unknown) => error as { cause?: ClientError } & ClientError,
        )
        const { code, message } = name === 'bulk' ? (failure.cause as ClientError) : failure
        // A streamed body cannot be sent twice, so its redirect is not even looked at.
        assert.ok(['other_origin', 'redirect_not_followed'].includes(code), code)
        assert.match(message, /redirected/)
        assert.deepEqual(other.received, [])
        assert.equal(home.received.length, 1)
      })
    }
  }

  for (const status of [301, 302, 303]) {
    test(`${status} for a POST is followed by a GET that has neither body nor credentials`, async (t) => {
      const { other, client } = await origins(t, status)
      await client.submit('/work', { secret: 's3cret' }, { headers: { 'x-call': 's3cret' }, idempotencyKey: 's3cret' })
      assert.deepEqual(other.received.map(({ method }) => method), ['GET'])
      assertNoSecret(other.received)
    })
  }

  for (const status of [301, 302, 303, 307, 308]) {
    test(`${status} for reads is followed without credentials`, async (t) => {
      const { other, client } = await origins(t, status)
      await client.resume({ statusUrl: '/status' }).status()
      await client.resume({ statusUrl: '/status' }).result()
      await client.tasks('/list', { headers: { 'x-call': 's3cret' } }).page()
      for await (const record of client.records('/records', { headers: { 'x-call': 's3cret' } })) assert.ok(record)
      const blob = await client.download('/file', { headers: { 'x-call': 's3cret' } }).blob()
      assert.match(await blob.text(), /other/)
      assert.deepEqual(other.received.map(({ path }) => path), ['/status', '/status', '/list', '/records', '/file'])
      assertNoSecret(other.received)
      assert.equal(other.received.at(-1)?.headers['range'], 'bytes=0-')
    })

    test(`${status} for DELETE is not followed, because the request changes something`, async (t) => {
      const { other, client } = await origins(t, status)
      const forgetting = client.resume({ statusUrl: '/status' }).forget()
      // After a 303 the answer is that of a GET, so nothing was deleted.
      if (status === 303) await assert.rejects(forgetting, { code: 'bad_answer' })
      else await assert.rejects(forgetting, { code: 'other_origin', status })
      assert.ok(other.received.every(({ method }) => method === 'GET'))
      assertNoSecret(other.received)
    })
  }

  test('to a URL of its own origin sends no credentials, because the other origin has chosen the URL', async (t) => {
    const other = await site(t, (_, response) => { respond(response, 302, { location: `${home.url}/back` }) })
    const home = await site(t, ({ path }, response) => {
      if (path === '/back') respond(response, 200, {}, { status: 'completed', result: {} })
      else respond(response, 302, { location: other.url })
    })
    const client = createClient({ baseUrl: home.url, headers: SECRETS })
    await client.resume({ statusUrl: '/status' }).status()
    assertNoSecret([...other.received, ...home.received.slice(1)])
    assert.equal(home.received.length, 2)
  })

  test("with credentials in its Location is followed without them, and a user name in the client's own URLs is a TypeError", async (t) => {
    const other = await site(t, (_, response) => {
      respond(response, 200, {}, { status: 'completed', result: {} })
    })
    const { port } = new URL(other.url)
    const home = await site(t, (_, response) => {
      respond(response, 302, { location: `http://ann:s3cret@127.0.0.1:${port}/` })
    })
    const client = createClient({ baseUrl: home.url, headers: SECRETS })
    await client.resume({ statusUrl: '/status' }).status()
    assert.equal(other.received.length, 1)
    assertNoSecret(other.received)
    assert.throws(() => createClient({ baseUrl: 'https://ann:pw@api.example' }), {
      name: 'TypeError',
      message: /user name/,
    })
    await assert.rejects(client.submit('https://ann:pw@api.example/x', {}), { name: 'TypeError', message: /user name/ })
  })
})

describe('a redirect within the origin', () => {
  test('keeps the body and the credentials after 307 and 308, as HTTP requires', async (t) => {
    for (const status of [307, 308]) {
      const { home, client } = await origins(t, status, { own: true })
      assert.deepEqual(await client.run('/work', { a: 1 }), { message: 'own', method: 'POST' })
      const [, last] = home.received
      assert.deepEqual([last?.path, last?.body, last?.headers['x-api-key']], ['/final/work', '{"a":1}', 's3cret'])
    }
  })

  test('turns a POST into a GET after 301, 302 and 303', async (t) => {
    for (const status of [301, 302, 303]) {
      const { home, client } = await origins(t, status, { own: true })
      assert.deepEqual(await client.run('/work', { a: 1 }), { message: 'own', method: 'GET' })
      const [, last] = home.received
      assert.deepEqual(
        [last?.body, last?.headers['content-type'], last?.headers['x-api-key']],
        ['', undefined, 's3cret'],
      )
    }
  })

  test('is followed at most 20 times, and does not send a stream twice', async (t) => {
    const home = await site(t, (_, response) => { respond(response, 307, { location: '/again' }) })
    const client = createClient({ baseUrl: home.url, headers: SECRETS })
    await assert.rejects(client.submit('/work', {}), { code: 'redirect_not_followed', status: 307 })
    assert.equal(home.received.length, 21)
    await assert.rejects(client.upload('/items', [{ a: 1 }]), { code: 'redirect_not_followed' })
    assert.equal(home.received.length, 22)
  })

  test('resolves relative URLs of the response against the last URL', async (t) => {
    const home = await site(t, ({ path }, response) => {
      if (path === '/v2/work') respond(response, 202, { location: 'status/1' }, { taskId: '1' })
      else respond(response, 308, { location: '/v2/work' })
    })
    const client = createClient({ baseUrl: home.url, headers: SECRETS })
    assert.equal((await client.submit('/v1/work', {})).statusUrl, `${home.url}/v2/status/1`)
  })
})

describe('a URL at another origin that the server names', () => {
  test('gets neither credentials nor headers of the call, in the Location of a 202, in a file and in a next page', async (t) => {
    const other = await site(t, ({ path }, response) => {
      if (path === '/list') respond(response, 200, {}, { items: [] })
      else respond(response, 200, {}, { status: 'completed', result: {}, files: [] })
    })
    const home = await site(t, ({ path }, response) => {
      if (path === '/list') respond(response, 200, {}, { items: [], next: `${other.url}/list` })
      else respond(response, 202, { location: `${other.url}/status` }, { taskId: '1' })
    })
    const client = createClient({ baseUrl: home.url, headers: SECRETS })
    const headers = { 'x-call': 's3cret' }
    const task = await client.submit('/work', {}, { headers })
    await task.result()
    await task.file('a', { headers }).blob()
    await client.resume({ statusUrl: '/status' }).file({ url: `${other.url}/file` }, { headers }).blob()
    for await (const item of client.tasks('/list', { headers })) assert.ok(item)
    assert.deepEqual(other.received.map(({ path }) => path), ['/status', '/status/files/a', '/file', '/list'])
    assertNoSecret(other.received)
  })

  test('gets no content of an upload, whether the server or `from` names it', async (t) => {
    const other = await site(t, (_, response) => { respond(response, 204, { 'upload-offset': '0' }) })
    const home = await site(t, (_, response) => {
      respond(response, 201, { 'location': `${other.url}/upload`, 'upload-complete': '?0' })
    })
    const client = createClient({ baseUrl: home.url, headers: SECRETS, retry: { attempts: 1 } })
    await assert.rejects(client.uploadFile('/films', new Blob(['s3cret'])).result(), { code: 'other_origin' })
    assert.throws(() => client.uploadFile('/films', new Blob(['s3cret']), { from: { url: `${other.url}/upload` } }), {
      name: 'TypeError',
      message: /another origin/,
    })
    assert.deepEqual(other.received, [])
  })
})
