import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { router } from 'longhaul'
import { inject } from 'longhaul/testing'
import { trace } from '../../../examples/reference-server/trace.js'

const handler = router({ 'TRACE /any': trace })
const send = (headers: Record<string, string>) =>
  inject(handler, { method: 'TRACE', path: '/any', headers, context: { principal: undefined } })

describe('TRACE', () => {
  test('SPEC 4.1.TRACE: shows all headers but credentials', async () => {
    const credentials = [
      'Authorization', 'Cookie', 'Proxy-Authorization', 'X-Api-Key', 'ApiKey',
      'Ocp-Apim-Subscription-Key', 'X-Auth-Token', 'X-Amz-Security-Token', 'X-CSRF-Token',
      'X-XSRF-Token', 'X-Session-Id', 'X-Signature', 'X-Client-Secret', 'X-Password',
      'Cf-Access-Jwt-Assertion', 'X-Ms-Client-Principal', 'Ssl-Client-Cert',
    ].map((name) => [name.toLowerCase(), 's1'])
    const others = {
      'accept': '*/*',
      'x-anything': '1',
      'x-forwarded-for': '192.0.2.1',
      'idempotency-key': '"k"',
      'referer': 'r',
    }
    const response = await send({ ...Object.fromEntries(credentials), ...others })
    assert.deepEqual(
      [response.status, response.headers['content-type'], response.headers['cache-control']],
      [200, 'message/http', 'no-store'],
    )
    const text = await response.text()
    assert.doesNotMatch(text, /s1/)
    for (const [name, value] of Object.entries(others)) assert.ok(text.includes(`\r\n${name}: ${value}\r\n`), name)
  })
  test('gets a 400 for a request with a body', async () => {
    assert.equal((await send({ 'content-length': '1' })).status, 400)
    assert.equal((await send({ 'transfer-encoding': 'chunked' })).status, 400)
    assert.equal((await send({ 'content-length': '0' })).status, 200)
  })
})
