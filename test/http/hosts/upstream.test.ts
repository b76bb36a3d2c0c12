// What a client is told of a server behind ours that fails: in a handler, in a repository, in a task.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, describe, test } from 'node:test'
import type { AddressInfo } from 'node:net'
import { memory } from '../../../adapters/memory/index.js'
import { attach } from '../../../adapters/node/index.js'
import { httpError, isHttpError, upstreamError } from '../../../src/http/errors.js'
import { json } from '../../../src/http/respond.js'
import { content } from '../../../src/content/content.js'
import { router } from '../../../src/resources/router.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { listen, type Listening } from '../../kit/listen.js'
import { ask } from '../kit/wire.js'

/** Upstreams that fail in a way of their own, and what a client hears. */
const UPSTREAMS: readonly [path: string, status: number, code: string][] = [
  ['nobody', 502, 'bad_gateway'],
  ['cut', 502, 'bad_gateway'],
  ['garbage', 502, 'bad_gateway'],
  ['no-json', 502, 'bad_gateway'],
  ['refusing', 502, 'bad_gateway'],
  ['silent', 504, 'gateway_timeout'],
  ['half', 504, 'gateway_timeout'],
]
let upstream: Listening
let ours: Listening
let stop: () => Promise<void> = async () => {}
const heard: unknown[] = []

/** A user's own code: it calls another server within a time. */
async function call(path: string): Promise<unknown> {
  const port = path === 'nobody' ? await closedPort() : upstream.port
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/${path}`, {
      signal: AbortSignal.timeout(path === 'silent' || path === 'half' ? 150 : 20_000),
    })
    if (!answer.ok) throw new Error(`rates: ${answer.status}`)
    return await answer.json()
  } catch (error) {
    throw upstreamError(error)
  }
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => { server.once('listening', resolve) })
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => { server.close(resolve) })
  return port
}

before(async () => {
  upstream = await listen(createServer((req, res) => {
    const { socket } = req
    if (req.url === '/cut') socket.destroy()
    else if (req.url === '/garbage') socket.end('SSH-2.0-nothing\r\n')
    else if (req.url === '/no-json') res.end('<html>')
    else if (req.url === '/refusing') res.writeHead(500).end()
    else if (req.url === '/half') res.writeHead(200, { 'content-length': '100' }).write('{')
  }))
  const { engine, store } = memory()
  const work = defineTask({ name: 'work', run: async ({ path }: { path: string }) => ({ rates: await call(path) }) })
  const tasks = createTasks({ engine, store, definitions: [work], onError: () => {} })
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' })
  const server = createServer()
  attach(server, router({
    'GET /handler/{path}': async ({ params }) => json(200, await call(params['path'] ?? '')),
    'GET /repository/{path}': content(async ({ params }) => { await call(params['path'] ?? ''); return undefined }),
    'POST /task': submit(work),
    'GET /status/{id}': status,
  }), { onError: (error) => { heard.push(error) } })
  ours = await listen(server)
  stop = async () => {
    await ours.close()
    await tasks.close({ drainMs: 0 })
    await upstream.close()
  }
})
after(() => stop())

describe('an upstream that fails', () => {
  for (const [path, status, code] of UPSTREAMS) {
    test(`SPEC 7.502, 7.504: ${path} gets ${status} ${code}, and only onError receives the reason`, async () => {
      const post = { headers: { 'content-type': 'application/json' }, body: JSON.stringify({ path }) }
      for (const answer of [
        await ask(ours.port, 'GET', `/handler/${path}`),
        await ask(ours.port, 'GET', `/repository/${path}`),
        await ask(ours.port, 'POST', '/task', post),
      ]) {
        heard.splice(0, heard.length - 1)
        assert.equal(answer.status, status)
        assert.deepEqual(Object.keys(JSON.parse(answer.body)), ['error', 'code'])
        assert.equal(JSON.parse(answer.body).code, code)
        assert.doesNotMatch(answer.body, /127\.0\.0\.1|fetch|ECONN|undici|rates/i)
        const [told] = heard
        assert.ok(isHttpError(told) && told.cause !== undefined, 'the whole truth')
      }
      const accepted = await ask(ours.port, 'POST', '/task', {
        ...post,
        headers: { ...post.headers, prefer: 'respond-async' },
      })
      assert.equal(accepted.status, 202)
      const ended = await ask(ours.port, 'GET', accepted.headers.location ?? '', { headers: { prefer: 'wait=20' } })
      const body = JSON.parse(ended.body)
      assert.deepEqual([ended.status, body.status, body.error.code], [200, 'failed', code], 'on the status resource')
      assert.doesNotMatch(ended.body, /127\.0\.0\.1|fetch|ECONN|undici|rates/i)
    })
  }
})

describe('upstreamError', () => {
  const late = (code: string): Error => Object.assign(new Error('no'), { code })

  test('maps a time-out to a 504 at any depth of the causes, and other errors to a 502', () => {
    const rows: [unknown, string][] = [
      [new DOMException('', 'TimeoutError'), 'gateway_timeout'],
      [late('ETIMEDOUT'), 'gateway_timeout'],
      [late('UND_ERR_HEADERS_TIMEOUT'), 'gateway_timeout'],
      [late('UND_ERR_BODY_TIMEOUT'), 'gateway_timeout'],
      [late('UND_ERR_CONNECT_TIMEOUT'), 'gateway_timeout'],
      [late('ESOCKETTIMEDOUT'), 'gateway_timeout'],
      [new TypeError('fetch failed', { cause: late('UND_ERR_CONNECT_TIMEOUT') }), 'gateway_timeout'],
      [late('ECONNREFUSED'), 'bad_gateway'],
      [new DOMException('', 'AbortError'), 'bad_gateway'],
      [new SyntaxError('x'), 'bad_gateway'],
      ['text', 'bad_gateway'],
      [undefined, 'bad_gateway'],
      [null, 'bad_gateway'],
      [{ code: 5 }, 'bad_gateway'],
    ]
    for (const [error, code] of rows) {
      const made = upstreamError(error)
      assert.deepEqual([made.code, made.status], [code, code === 'bad_gateway' ? 502 : 504], String(error))
      assert.ok(made.cause !== undefined, 'for onError')
    }
    const ring: { cause?: unknown } = {}
    ring.cause = ring
    assert.equal(upstreamError(ring).code, 'bad_gateway', 'it ends')
  })

  test('keeps an HttpError, which may have a message of the application', () => {
    const own = httpError('conflict')
    assert.equal(upstreamError(own), own)
    const made = upstreamError(new Error('secret'), {
      message: 'The rates cannot be had.',
      headers: { 'retry-after': '5' },
    })
    assert.deepEqual([made.message, made.headers], ['The rates cannot be had.', { 'retry-after': '5' }])
  })
})
