import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import {
  createTasks, defineTask, httpError, json, router, stream, taskEndpoints, type Handler, type HttpRequest,
} from '../../../src/index.js'
import { readBytes } from '../../../src/http/index.js'
import { requestId } from '../../../src/policies/index.js'
import { compose } from '../../../src/http/exchange.js'
import { inject } from '../../../src/testing/index.js'

const echo: Handler = async (request) => {
  const body = Buffer.from(await readBytes(request, { maxBodyBytes: 100 })).toString()
  const { method, path, headers, mountPath, params } = request
  return json(200, { method, path, mountPath, params, query: [...request.query], headers, body })
}
type Seen = Pick<HttpRequest, 'method' | 'path' | 'mountPath' | 'headers'> & {
  readonly query: unknown
  readonly body: string
}

const seenBy = async (request: Parameters<typeof inject<unknown>>[1]): Promise<Seen> =>
  (await inject(echo, request)).json<Seen>()

async function* pieces(...texts: string[]): AsyncGenerator<string, void, undefined> {
  for (const text of texts) yield await Promise.resolve(text)
}

describe('inject: the request', () => {
  test('has method, path, query and headers', async () => {
    const seen = await seenBy({ method: 'DELETE', path: '/a/b?c=d&e', headers: { 'X-One': '1' }, mountPath: '/a' })
    assert.deepEqual(
      [seen.method, seen.path, seen.mountPath, seen.query],
      [
        'DELETE',
        '/a/b',
        '/a',
        [
          ['c', 'd'],
          ['e', ''],
        ],
      ],
    )
    assert.equal(seen.headers['x-one'], '1')
  })

  test('gets a mount path in front of a path that has none', async () => {
    assert.equal((await seenBy({ path: '/b', mountPath: '/a' })).path, '/a/b')
  })

  test('sends a value as JSON', async () => {
    const seen = await seenBy({ method: 'POST', path: '/', body: { a: [1] } })
    assert.equal(seen.body, '{"a":[1]}')
    assert.equal(seen.headers['content-type'], 'application/json')
    assert.equal(seen.headers['content-length'], '9')
  })

  test('keeps the content type that a test names', async () => {
    const headers = { 'Content-Type': 'application/merge-patch+json' }
    const seen = await seenBy({ method: 'PATCH', path: '/', headers, body: {} })
    assert.equal(seen.headers['content-type'], 'application/merge-patch+json')
  })

  test('sends texts, bytes and streams as they are', async () => {
    for (const body of ['{"a"', Buffer.from('{"a"'), pieces('{', '"a"')]) {
      const seen = await seenBy({ method: 'POST', path: '/', body })
      assert.deepEqual([seen.body, seen.headers['content-type']], ['{"a"', undefined])
    }
  })

  test('keeps the limit of a body', async () => {
    assert.equal((await inject(echo, { method: 'POST', path: '/', body: 'x'.repeat(101) })).status, 413)
  })

  test('checks a Content-Digest', async () => {
    const digest = createHash('sha256').update('one').digest('base64')
    const headers = { 'content-digest': `sha-256=:${digest}:` }
    assert.equal((await inject(echo, { method: 'POST', path: '/', headers, body: 'one' })).status, 200)
    assert.equal((await inject(echo, { method: 'POST', path: '/', headers, body: 'two' })).status, 400)
  })

  test('has the context of the application', async () => {
    const mine: Handler<{ readonly user: string }> = ({ context }) => json(200, context.user)
    assert.equal(await (await inject(mine, { path: '/', context: { user: 'ann' } })).json(), 'ann')
    // @ts-expect-error A handler that reads the context gets one.
    await inject(mine, { path: '/' })
  })

  test('rejects a path without a slash', async () => {
    await assert.rejects(inject(echo, { path: 'tasks' }), /path must be a string that starts with "\/"/)
  })

  test('rejects a body that cannot be sent', async () => {
    await assert.rejects(inject(echo, { path: '/', body: () => 1 }), /body must be JSON/)
  })
})

describe('inject: the response', () => {
  test('has its length, even for HEAD, whose body is left out', async () => {
    const answer = await inject(() => json(200, 'é'), { method: 'HEAD', path: '/' })
    assert.equal(answer.headers['content-length'], '4')
    assert.equal(await answer.text(), '')
  })

  test('can be read more than once', async () => {
    const answer = await inject(() => stream(200, pieces('{"a', '":1}')), { path: '/' })
    assert.deepEqual([await answer.text(), await answer.json()], ['{"a":1}', { a: 1 }])
  })

  test('is a 404 if the handler declines, with the headers of policies', async () => {
    const answer = await inject(compose(requestId(), () => undefined), { path: '/' })
    assert.equal(answer.status, 404)
    assert.equal(typeof answer.headers['x-request-id'], 'string')
  })

  test('is the error that clients get, and onError receives masked errors', async () => {
    const errors: unknown[] = []
    const onError = (error: unknown) => errors.push(error)
    assert.equal((await inject(() => { throw httpError('forbidden') }, { path: '/', onError })).status, 403)
    assert.deepEqual(errors, [])
    const fault = new Error('password=123')
    const answer = await inject(() => { throw fault }, { path: '/', onError })
    assert.equal(answer.status, 500)
    assert.doesNotMatch(await answer.text(), /password/)
    assert.deepEqual(errors, [fault])
  })

  test('gets a 500 for a header that no server could send', async () => {
    const broken: Handler = () => ({ status: 200, headers: { 'x-bad': 'a\nb' } })
    assert.equal((await inject(broken, { path: '/', onError: () => undefined })).status, 500)
  })

  test('is an error if a stream fails at once', async () => {
    async function* broken(): AsyncGenerator<string, void, undefined> {
      await Promise.resolve()
      throw new Error('no source')
    }
    assert.equal((await inject(() => stream(200, broken()), { path: '/', onError: () => undefined })).status, 500)
  })

  test('rejects if a stream fails midway, and onError receives the cause', async () => {
    const errors: unknown[] = []
    const fault = new Error('torn')
    async function* torn(): AsyncGenerator<string, void, undefined> {
      yield await Promise.resolve('a')
      throw fault
    }
    const answer = await inject(() => stream(200, torn()), { path: '/', onError: (error) => errors.push(error) })
    assert.equal(answer.status, 200)
    await assert.rejects(answer.text(), (error: Error) => error.cause === fault)
    assert.deepEqual(errors, [fault])
  })

  test('closes a stream that the test or the client leaves', async () => {
    let closed = 0
    async function* endless(): AsyncGenerator<string, void, undefined> {
      try {
        for (;;) yield await Promise.resolve('data: 1\n\n')
      } finally {
        closed++
      }
    }
    const events = () => stream(200, endless(), { 'content-type': 'text/event-stream' })
    const answer = await inject(events, { path: '/' })
    for await (const chunk of answer.stream()) {
      assert.equal(Buffer.from(chunk).toString(), 'data: 1\n\n')
      break
    }
    assert.equal(closed, 1)
    const client = new AbortController()
    const other = await inject(events, { path: '/', signal: client.signal })
    for await (const _ of other.stream()) client.abort()
    assert.equal(closed, 2)
  })
})

test('inject runs the whole flow of a task', async () => {
  const add = defineTask({ name: 'add', run: () => ({ sum: 3 }) })
  const tasks = createTasks({ ...memory(), definitions: [add] })
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const api = router({ 'POST /sums': submit(add), 'GET|HEAD|DELETE /tasks/{id}': status })
  const accepted = await inject(api, { method: 'POST', path: '/sums', headers: { prefer: 'respond-async' }, body: {} })
  assert.equal(accepted.status, 202)
  const location = String(accepted.headers['location'])
  const shown = await inject(api, { path: location, headers: { prefer: 'wait=5' } })
  assert.equal((await shown.json<{ result: { sum: number } }>()).result.sum, 3)
  await tasks.close()
})
