import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import { toFetch } from '../../../adapters/fetch/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { guard } from '../../../src/http/boundary.js'
import { compose, type Handler } from '../../../src/http/exchange.js'
import { requestId, requestIdOf } from '../../../src/policies/request-id.js'
import { cors } from '../../../src/resources/cors.js'
import { fakeRequest } from '../../unit/kit/request.js'
import { listen } from '../../kit/listen.js'

const failing: Handler = () => ({
  status: 200, headers: { 'content-type': 'text/plain', 'etag': '"a"', 'cache-control': 'public' },
  body: (async function* (): AsyncGenerator<string> { yield await Promise.reject(new Error('source')) })(),
})
const onError = (): void => {}

describe('the headers of policies are on every response', () => {
  for (const [name, status, inner] of [
    ['declines', 404, () => undefined],
    ['fails before its headers are sent', 500, failing],
  ] as const) {
    test(`from a handler that ${name}, in node and in fetch`, async () => {
      const handler = compose<unknown>(requestId(), cors({ origins: '*' }), inner)
      const server = createServer(toNode(handler, { onError }))
      const { url, close } = await listen(server)
      const headers = { origin: 'https://a.example' }
      const answers = [
        await fetch(url, { headers }),
        await toFetch(handler, { onError })(new Request(url, { headers })),
      ]
      await close()
      for (const answer of answers) {
        await answer.arrayBuffer()
        assert.equal(answer.status, status)
        assert.match(answer.headers.get('x-request-id') ?? '', /^[\w-]{16,}$/)
        assert.equal(answer.headers.get('access-control-allow-origin'), '*')
        assert.deepEqual(
          [answer.headers.get('etag'), answer.headers.get('cache-control'), answer.headers.get('content-type')],
          [null, 'no-store', 'application/json'],
        )
      }
    })
  }

  test('except for a request to which the application responds', async () => {
    const handler = compose<unknown>(requestId(), () => undefined)
    const server = createServer((req, res) => { toNode(handler)(req, res, () => { res.end('host') }) })
    const { url, close } = await listen(server)
    const answer = await fetch(url)
    await close()
    assert.equal(await answer.text(), 'host')
    assert.equal(answer.headers.get('x-request-id'), null)
  })

  test('with the id that onError can read', async () => {
    let told: string | undefined
    const handler = compose<unknown>(requestId(), () => { throw new Error('x') })
    const answer = await guard(handler, { onError: (_, request) => { told = requestIdOf(request) } })(fakeRequest())
    assert.ok(told !== undefined)
    assert.equal(answer?.headers['x-request-id'], told)
  })
})
