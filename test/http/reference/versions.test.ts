import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { useReference } from '../kit/reference.js'

const client = useReference()
const get = (path: string, accept?: string) =>
  client.ask('GET', path, { token: 'reader-1', ...(accept === undefined ? {} : { headers: { accept } }) })

const V1: readonly [clause: string, path: string, accept?: string][] = [
  ['9.uri-versioning', '/v1/users'],
  ['9.query-parameter-versioning', '/users?version=1'],
  ['9.header-versioning', '/users', 'application/vnd.longhaul.v1+json'],
  ['9.content-negotiation', '/users', 'application/vnd.longhaul+json;version=1.0'],
]
const V2: readonly [clause: string, path: string, accept?: string][] = [
  ['9.uri-versioning', '/v2/users'],
  ['9.query-parameter-versioning', '/users?version=2'],
  ['9.header-versioning', '/users', 'application/vnd.longhaul.v2+json'],
  ['9.content-negotiation', '/users', 'application/vnd.longhaul+json;version=2.0'],
  ['9.content-negotiation', '/users', 'application/vnd.longhaul+json'],
  ['9.uri-versioning', '/users'],
]

describe('the versions of the users', () => {
  for (const [clause, path, accept] of V1) {
    test(`SPEC 9.uri-versioning, 9.header-versioning, 9.query-parameter-versioning, 9.content-negotiation, 9.1, 9.2: ${clause}: ${path} ${accept ?? ''} is version 1, and announces its end`, async () => {
      const { status, headers, text } = await get(path, accept)
      const json = JSON.parse(text)
      assert.equal(status, 200, 'status')
      assert.deepEqual(json[0], { id: 1, name: 'Ada Allen' }, 'its shape')
      assert.match(headers.get('deprecation') ?? '', /^Wed, 01 Jul 2026 00:00:00 GMT$/, 'an HTTP date')
      assert.equal(headers.get('sunset'), 'Wed, 30 Jun 2027 23:59:59 GMT', 'the end')
      assert.equal(headers.get('link'), '</v2/users>; rel="successor-version"', 'what instead')
      assert.match(headers.get('vary') ?? '', /Accept/, 'Vary')
      assert.equal(headers.get('content-type'), accept ?? 'application/json', 'the type that was asked for')
    })
  }
  for (const [clause, path, accept] of V2) {
    test(`SPEC 9.3: ${clause}: ${path} ${accept ?? ''} is version 2`, async () => {
      const { status, headers, text } = await get(path, accept)
      const json = JSON.parse(text)
      assert.equal(status, 200, 'status')
      assert.deepEqual(
        json.items[0],
        { id: 1, name: 'Ada Allen', email: 'ada.allen@example.com', role: 'admin' },
        'its shape',
      )
      assert.equal(headers.get('deprecation'), null, 'here to stay')
      assert.equal(headers.get('api-supported-versions'), '2', 'told')
      assert.equal(headers.get('api-deprecated-versions'), '1', 'told')
    })
  }
  test('are rejected if they are malformed or not served', async () => {
    const rows: [path: string, accept: string | undefined, expected: string][] = [
      ['/v3/users', undefined, '404 version_unsupported'],
      ['/v01/users', undefined, '400 version_invalid'],
      ['/users?version=3', undefined, '400 version_unsupported'],
      ['/users', 'application/vnd.longhaul.v3+json', '406 version_unsupported'],
      ['/v1/users?version=2', undefined, '400 version_ambiguous'],
      ['/foo/users', undefined, '404 not_found'],
      ['/v1/people', undefined, '404 not_found'],
    ]
    for (const [path, accept, expected] of rows) {
      const { status, json } = await get(path, accept)
      assert.equal(`${status} ${json.code}`, expected, path)
    }
    assert.equal((await client.ask('POST', '/v1/users')).status, 405, 'another method')
  })
})
