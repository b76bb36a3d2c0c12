// Issue 15, C16: requests that pages of other sites make a browser send.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { compose, type Handler, type Policy } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { crossSite, type CrossSiteOptions } from '../../../src/policies/cross-site.js'
import { requestId } from '../../../src/policies/request-id.js'
import { cors } from '../../../src/resources/cors.js'
import { ask } from '../kit/request.js'

const APP = 'https://app.example.com'
const handler: Handler = () => json(200, {})
type Headers = Readonly<Record<string, string | string[]>>

async function answered(
  headers: Headers,
  options: CrossSiteOptions = {},
  method = 'POST',
  before: readonly Policy[] = [],
): Promise<number> {
  const {
    status,
    json: { code },
  } = await ask(compose(...before, crossSite(options), handler), { method, headers })
  if (status === 403) assert.equal(code, 'cross_site')
  return status
}

describe('crossSite', () => {
  const cases: readonly (readonly [string, Headers, number])[] = [
    ['a page of the same site', { 'sec-fetch-site': 'same-origin', 'origin': 'https://api.example.com' }, 200],
    ['its user', { 'sec-fetch-site': 'none' }, 200],
    ['a page of the same site', { 'sec-fetch-site': 'same-site', 'origin': 'https://blog.example.com' }, 200],
    ['a page of another site', { 'sec-fetch-site': 'cross-site', 'origin': 'https://evil.example' }, 403],
    ['a page of another site that hides its origin', { 'sec-fetch-site': 'cross-site', 'origin': 'null' }, 403],
    ['a page of another site without Origin', { 'sec-fetch-site': 'cross-site' }, 403],
    [
      'a page of the same site without a referrer, so that Origin is null',
      { 'sec-fetch-site': 'same-origin', 'origin': 'null' },
      200,
    ],
    ['a value that nobody knows', { 'sec-fetch-site': 'other' }, 403],
    ['a value that is there twice', { 'sec-fetch-site': ['same-origin', 'none'] }, 403],
    ['no browser', {}, 200],
    ['no browser, with a Host', { host: 'api.example.com' }, 200],
    ['an older browser on a page of the same site', { origin: 'https://api.example.com', host: 'api.example.com' }, 200],
    ['the same with a port', { origin: 'http://api.example.com:8080', host: 'api.example.com:8080' }, 200],
    ['the same with the port of the scheme', { origin: 'https://api.example.com', host: 'api.example.com:443' }, 200],
    ['the same under HTTP/2', { 'origin': 'https://api.example.com', ':authority': 'api.example.com' }, 200],
    ['an older browser elsewhere', { origin: 'https://evil.example', host: 'api.example.com' }, 403],
    ['another port', { origin: 'http://api.example.com:1', host: 'api.example.com' }, 403],
    [
      'a subdomain, of which an older browser does not say that it is the same site',
      { origin: 'https://a.api.example.com', host: 'api.example.com' },
      403,
    ],
    ['a host that only begins so', { origin: 'https://api.example.com.evil.example', host: 'api.example.com' }, 403],
    ['Origin: null', { origin: 'null', host: 'api.example.com' }, 403],
    ['Origin: null and no Host', { origin: 'null' }, 403],
    ['an origin that is none', { origin: 'file://', host: 'api.example.com' }, 403],
    ['two origins', { origin: ['https://api.example.com', 'https://api.example.com'], host: 'api.example.com' }, 403],
    ['no Host', { origin: 'https://api.example.com' }, 403],
  ]
  for (const [name, headers, status] of cases) {
    test(`responds to ${name} with ${status}`, async () => {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'BREW'])
        assert.equal(await answered(headers, {}, method), status, method)
      for (const method of ['GET', 'HEAD', 'OPTIONS', 'TRACE'])
        assert.equal(await answered(headers, {}, method), 200, method)
    })
  }

  test('accepts allowed origins, with any other headers of the browser', async () => {
    for (const site of ['cross-site', 'same-site', undefined]) {
      const headers = { origin: APP, host: 'api.example.com', ...site !== undefined && { 'sec-fetch-site': site } }
      assert.equal(await answered(headers, { origins: [APP] }), 200)
      assert.equal(
        await answered({ ...headers, origin: `${APP}:444` }, { origins: [APP] }),
        site === 'same-site' ? 200 : 403,
      )
    }
  })

  test("rejects other origins of the same site with sameSite: 'reject'", async () => {
    const headers = { 'sec-fetch-site': 'same-site', 'origin': APP }
    assert.equal(await answered(headers, { sameSite: 'refuse' }), 403)
    assert.equal(await answered(headers, { sameSite: 'refuse', origins: [APP] }), 200)
  })

  test('accepts only origins that cors allows by name, if it is behind cors', async () => {
    const from = (origin: string) => ({ origin, 'host': 'api.example.com', 'sec-fetch-site': 'cross-site' })
    const named = [cors({ origins: [APP], credentials: true })]
    assert.equal(await answered(from(APP), {}, 'POST', named), 200)
    assert.equal(await answered(from('https://evil.example'), {}, 'POST', named), 403)
    assert.equal(await answered(from('null'), {}, 'POST', named), 403)
    assert.equal(
      await answered(from(APP), {}, 'POST', [cors({ origins: (origin) => origin === APP, credentials: true })]),
      200,
    )
    for (const open of [cors({ origins: '*' }), cors({ origins: () => true })])
      assert.equal(await answered(from(APP), {}, 'POST', [open]), 403)
    assert.equal(await answered(from(APP), {}, 'OPTIONS', [cors({ origins: '*' })]), 200)
  })

  test('lets a page that cors allows read the 403 of a later crossSite', async () => {
    const { status, headers } = await ask(compose<unknown>(cors({ origins: '*' }), crossSite(), handler), {
      method: 'POST', headers: { origin: APP, 'sec-fetch-site': 'cross-site' },
    })
    assert.deepEqual([status, headers['access-control-allow-origin']], [403, '*'])
  })

  test('rejects an order that cannot work, and invalid options', () => {
    assert.throws(
      () => compose<unknown>(crossSite(), cors({ origins: [APP] }), handler),
      /crossSite stands before cors/,
    )
    assert.throws(() => compose<unknown>(crossSite(), requestId(), handler), /crossSite stands before requestId/)
    for (const origin of ['app.example.com', `${APP}/`, 'https://APP.example.com', '*', '', 5, null]) {
      assert.throws(() => crossSite({ origins: [origin as never] }), /origins must be a list of origins such as/)
    }
    assert.throws(() => crossSite({ sameSite: 'deny' as never }), /sameSite must be/)
    assert.throws(() => crossSite({ origin: [APP] } as never), /did you mean "origins"/)
  })
})
