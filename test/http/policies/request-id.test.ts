import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import { toFetch } from '../../../adapters/fetch/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { guard } from '../../../src/http/boundary.js'
import { compose, type Handler } from '../../../src/http/exchange.js'
import { requestId, requestIdOf } from '../../../src/policies/request-id.js'
import { cors } from '../../../src/resources/cors.js'
import { fakeRequest } from '../../unit/http/fake-request.js'

const failing: Handler = () => ({
  status: 200, headers: { 'content-type': 'text/plain', 'etag': '"a"', 'cache-control': 'public' },
  body: (async function* (): AsyncGenerator<string> { yield await Promise.reject(new Error('source')) })(),
})
const onError = (): void => {}

describe('fields of policies are on every answer', () => {
  for (const [name, status, inner] of [['declined', 404, () => undefined], ['failing before its head is out', 500, failing]] as const) {
    test(`of a handler that is ${name}: node and fetch`, async () => {
      const handler = compose<unknown>(requestId(), cors({ origins: '*' }), inner)
      const server = createServer(toNode(handler, { onError }))
      await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
      const headers = { origin: 'https://a.example' }
      const answers = [await fetch(url, { headers }), await toFetch(handler, { onError })(new Request(url, { headers }))]
      server.close()
      for (const answer of answers) {
        await answer.arrayBuffer()
        assert.equal(answer.status, status)
        assert.match(answer.headers.get('x-request-id') ?? '', /^[\w-]{16,}$/)
        assert.equal(answer.headers.get('access-control-allow-origin'), '*')
        assert.deepEqual([answer.headers.get('etag'), answer.headers.get('cache-control'), answer.headers.get('content-type')], [null, 'no-store', 'application/json'])
      }
    })
  }

  test('a request that the host answers has none', async () => {
    const handler = compose<unknown>(requestId(), () => undefined)
    const server = createServer((req, res) => { toNode(handler)(req, res, () => { res.end('host') }) })
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
    const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    server.close()
    assert.equal(await answer.text(), 'host')
    assert.equal(answer.headers.get('x-request-id'), null)
  })

  test('onError can read the id that the answer has', async () => {
    let told: string | undefined
    const handler = compose<unknown>(requestId(), () => { throw new Error('x') })
    const answer = await guard(handler, { onError: (_, request) => { told = requestIdOf(request) } })(fakeRequest())
    assert.ok(told !== undefined)
    assert.equal(answer?.headers['x-request-id'], told)
  })
})
