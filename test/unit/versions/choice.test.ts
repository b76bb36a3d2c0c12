import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import {
  byHeader, byMediaTypeParameter, byPath, byQuery, byVendorMediaType,
} from '../../../src/versions/selectors.js'
import { versions } from '../../../src/versions/versions.js'
import { ask } from '../kit/request.js'

const shows = (version: string): Handler => ({ path, mountPath, headers }) =>
  json(200, { version, local: path.slice(mountPath.length), accept: headers['accept'] ?? null })

const SERVED = {
  '1': shows('1'),
  '2': shows('2'),
  '2.1': shows('2.1'),
  '2.1.3': shows('2.1.3'),
  '3.0.0-beta.1': shows('3.0.0-beta.1'),
}
const vendor = 'acme'
const path = byPath()
const query = byQuery()
const header = byVendorMediaType({ vendor })
const parameter = byMediaTypeParameter({ vendor })

const handlers = {
  path: versions(SERVED, { select: [path] }),
  query: versions(SERVED, { select: [query] }),
  header: versions(SERVED, { select: [header] }),
  parameter: versions(SERVED, { select: [parameter] }),
  all: versions(SERVED, { select: [path, query, header, parameter] }),
  // In another order, and where a version must be named.
  strict: versions(SERVED, { select: [parameter, header, query, path], default: 'required' }),
}

/**
 * Where the request goes, its Accept (`-` for none), and the version that answers, or status and
 * code of the failure.
 */
type Row = readonly [handler: keyof typeof handlers, path: string, accept: string, expected: string]

const LATEST = '2.1.3'
const INVALID = '400 version_invalid'
const AMBIGUOUS = '400 version_ambiguous'
const REQUIRED = '400 version_required'
const v = (text: string, more = ''): string => `application/vnd.acme.v${text}+json${more}`
const p = (text: string, more = ''): string => `application/vnd.acme+json;version=${text}${more}`

const ROWS: readonly Row[] = [
  // In the path
  ['path', '/v1/users', '-', '1'],
  ['path', '/v2/users', '-', '2.1.3'],
  ['path', '/v2.0/users', '-', '2'],
  ['path', '/v2.0.0/users', '-', '2'],
  ['path', '/v2.1/users', '-', '2.1.3'],
  ['path', '/v2.1.0/users', '-', '2.1'],
  ['path', '/v2.1.3/users', '-', '2.1.3'],
  ['path', '/v1.0/users', '-', '1'],
  ['path', '/v1.0.0/users', '-', '1'],
  ['path', '/v1', '-', '1'],
  ['path', '/v1/', '-', '1'],
  ['path', '/v3.0.0-beta.1/users', '-', '3.0.0-beta.1'],
  ['path', '/v3/users', '-', '404 version_unsupported'],
  ['path', '/v3.0/users', '-', '404 version_unsupported'],
  ['path', '/v3.0.0/users', '-', '404 version_unsupported'],
  ['path', '/v3.0.0-beta.2/users', '-', '404 version_unsupported'],
  ['path', '/v0/users', '-', '404 version_unsupported'],
  ['path', '/v1.1/users', '-', '404 version_unsupported'],
  ['path', '/v2.1.4/users', '-', '404 version_unsupported'],
  ['path', '/v99/users', '-', '404 version_unsupported'],
  ['path', '/v01/users', '-', INVALID],
  ['path', '/v1./users', '-', INVALID],
  ['path', '/v1..0/users', '-', INVALID],
  ['path', '/v1.2.3.4/users', '-', INVALID],
  ['path', '/v1.0.0-/users', '-', INVALID],
  ['path', '/v1.0.0-01/users', '-', INVALID],
  ['path', `/v${'9'.repeat(40)}/users`, '-', INVALID],
  ['path', '/users', '-', LATEST],
  ['path', '/', '-', LATEST],
  ['path', '/V1/users', '-', LATEST],
  ['path', '/version1/users', '-', LATEST],
  ['path', '/v/users', '-', LATEST],
  ['path', '/vx/users', '-', LATEST],
  ['path', '/v8-engine/users', '-', LATEST],
  ['path', '/v1-beta/users', '-', LATEST],
  ['path', '/users/v1', '-', LATEST],
  ['path', '/v%31/users', '-', LATEST],
  ['path', '/users?version=1', v('1'), LATEST],
  // In the query
  ['query', '/users?version=1', '-', '1'],
  ['query', '/users?version=1.0', '-', '1'],
  ['query', '/users?version=2', '-', '2.1.3'],
  ['query', '/users?version=2.0', '-', '2'],
  ['query', '/users?version=2.1.0', '-', '2.1'],
  ['query', '/users?version=3.0.0-beta.1', '-', '3.0.0-beta.1'],
  ['query', '/users?a=b&version=1', '-', '1'],
  ['query', '/users?version=%31', '-', '1'],
  ['query', '/users?version=1&version=1', '-', '1'],
  ['query', '/users?version=1&version=1.0', '-', '1'],
  ['query', '/users?version=2&version=2.1.3', '-', '2.1.3'],
  ['query', '/users?version=2.0&version=2.1', '-', AMBIGUOUS],
  ['query', '/users?version=1&version=2', '-', AMBIGUOUS],
  ['query', '/users?version=1&version=9', '-', AMBIGUOUS],
  ['query', '/users?version=1&version=', '-', AMBIGUOUS],
  ['query', '/users?version=8&version=9', '-', AMBIGUOUS],
  ['query', '/users?version=9&version=9', '-', '400 version_unsupported'],
  ['query', '/users?version=3', '-', '400 version_unsupported'],
  ['query', '/users?version=0', '-', '400 version_unsupported'],
  ['query', '/users?version=2.2', '-', '400 version_unsupported'],
  ['query', '/users?version=', '-', INVALID],
  ['query', '/users?version', '-', INVALID],
  ['query', '/users?version=v1', '-', INVALID],
  ['query', '/users?version=latest', '-', INVALID],
  ['query', '/users?version=1.x', '-', INVALID],
  ['query', '/users?version=^1', '-', INVALID],
  ['query', '/users?version=-1', '-', INVALID],
  ['query', '/users?version=1e0', '-', INVALID],
  ['query', '/users?version=1,2', '-', INVALID],
  ['query', '/users?version=%201', '-', INVALID],
  ['query', '/users?version=1.0.0%2Bbuild', '-', INVALID],
  ['query', '/users?version=%F0%9F%98%80', '-', INVALID],
  ['query', '/users', '-', LATEST],
  ['query', '/users?Version=1', '-', LATEST],
  ['query', '/v1/users', v('1'), LATEST],
  // In a vendor's media type
  ['header', '/users', v('1'), '1'],
  ['header', '/users', v('2'), '2.1.3'],
  ['header', '/users', v('2.0'), '2'],
  ['header', '/users', v('2.1.0'), '2.1'],
  ['header', '/users', v('3.0.0-beta.1'), '3.0.0-beta.1'],
  ['header', '/users', 'APPLICATION/VND.ACME.V1+JSON', '1'],
  ['header', '/users', `${v('1')};charset=utf-8`, '1'],
  ['header', '/users', `${v('1')}, ${v('2')}`, '1'],
  ['header', '/users', `${v('2')}, ${v('1')}`, '2.1.3'],
  ['header', '/users', `${v('1', ';q=0.5')}, ${v('2')}`, '2.1.3'],
  ['header', '/users', `${v('1', ';q=0.5')}, ${v('2.0', ';q=0.4')}`, '1'],
  ['header', '/users', `${v('1', ';q=0')}, ${v('2.0', ';q=0.1')}`, '2'],
  ['header', '/users', `${v('9')}, ${v('1', ';q=0.1')}`, '1'],
  ['header', '/users', `${v('x')}, ${v('1', ';q=0.1')}`, '1'],
  ['header', '/users', `${v('1', ';q=0.5')}, application/json`, '1'],
  ['header', '/users', `text/html, ${v('1')}`, '1'],
  ['header', '/users', v('9'), '406 version_unsupported'],
  ['header', '/users', `${v('8')}, ${v('9')}`, '406 version_unsupported'],
  ['header', '/users', `${v('x')}, ${v('9')}`, '406 version_unsupported'],
  ['header', '/users', `${v('9')}, text/html`, '406 version_unsupported'],
  ['header', '/users', v('3'), '406 version_unsupported'],
  ['header', '/users', `${v('9')}, */*;q=0.1`, LATEST],
  ['header', '/users', `${v('9')}, application/json`, LATEST],
  ['header', '/users', `${v('9')}, application/*`, LATEST],
  ['header', '/users', `${v('9')}, */*;q=0`, '406 version_unsupported'],
  ['header', '/users', v(''), INVALID],
  ['header', '/users', v('1.'), INVALID],
  ['header', '/users', v('x'), INVALID],
  ['header', '/users', v('1', ';q=0'), LATEST],
  ['header', '/users', v('1', ';q=2'), LATEST],
  ['header', '/users', 'application/vnd.other.v1+json', LATEST],
  ['header', '/users', 'application/vnd.acme.v1', LATEST],
  ['header', '/users', 'application/vnd.acme.v1+xml', LATEST],
  ['header', '/users', 'text/vnd.acme.v1+json', LATEST],
  ['header', '/users', 'application/json', LATEST],
  ['header', '/users', '*/*', LATEST],
  ['header', '/users', '', LATEST],
  ['header', '/users', '-', LATEST],
  ['header', '/users', ';;,,//', LATEST],
  // In a parameter of the media type
  ['parameter', '/users', p('1.0'), '1'],
  ['parameter', '/users', p('1'), '1'],
  ['parameter', '/users', p('2'), '2.1.3'],
  ['parameter', '/users', p('2.0'), '2'],
  ['parameter', '/users', p('"1.0"'), '1'],
  ['parameter', '/users', 'application/vnd.acme+json ; Version = 1.0', '1'],
  ['parameter', '/users', 'application/vnd.acme+json;charset=utf-8;version=1.0', '1'],
  ['parameter', '/users', 'application/vnd.acme+json;version=1.0;version=2.0', '1'],
  ['parameter', '/users', `${p('1.0', ';q=0.1')}, ${p('2.0', ';q=0.2')}`, '2'],
  ['parameter', '/users', `${p('1.0')}, ${p('2.0')}`, '1'],
  ['parameter', '/users', p('9.0'), '406 version_unsupported'],
  ['parameter', '/users', `${p('9.0')}, application/vnd.acme+json`, LATEST],
  ['parameter', '/users', p(''), INVALID],
  ['parameter', '/users', p('""'), INVALID],
  ['parameter', '/users', p('v1'), INVALID],
  ['parameter', '/users', p('1.0.0.0'), INVALID],
  ['parameter', '/users', 'application/vnd.acme+json', LATEST],
  ['parameter', '/users', 'application/json;version=1.0', LATEST],
  ['parameter', '/users', v('1'), LATEST],
  // Several ways
  ['all', '/v1/users?version=1', '-', '1'],
  ['all', '/v1/users?version=1.0.0', v('1'), '1'],
  ['all', '/v1/users', v('1'), '1'],
  ['all', '/v1/users', p('1.0'), '1'],
  ['all', '/v1/users', `${v('2')}, ${v('1', ';q=0.1')}`, '1'],
  ['all', '/v1/users', `${v('2')}, */*`, '1'],
  ['all', '/v1/users', 'application/json', '1'],
  ['all', '/users?version=1', v('1'), '1'],
  ['all', '/users', `${v('1')}, ${p('2.0')}`, '1'],
  ['all', '/users', `${v('1', ';q=0.5')}, ${p('2.0')}`, '2'],
  ['all', '/users', `${p('2.0')}, ${v('1')}`, '2'],
  ['all', '/v1/users?version=2', '-', AMBIGUOUS],
  ['all', '/v1/users', v('2'), AMBIGUOUS],
  ['all', '/v1/users', p('2.0'), AMBIGUOUS],
  ['all', '/users?version=2', v('1'), AMBIGUOUS],
  ['all', '/users?version=1', p('2.0'), AMBIGUOUS],
  ['all', '/v1/users?version=1', p('2.0'), AMBIGUOUS],
  ['all', '/v9/users?version=1', '-', AMBIGUOUS],
  ['all', '/v1/users?version=x', '-', AMBIGUOUS],
  ['all', '/v1/users', v('9'), AMBIGUOUS],
  ['all', '/v9/users', '-', '404 version_unsupported'],
  ['all', '/v9/users?version=9', '-', '404 version_unsupported'],
  ['all', '/v9/users?version=9', v('9'), '404 version_unsupported'],
  ['all', '/v9/users', '*/*', '404 version_unsupported'],
  ['all', '/users?version=9', v('9'), '400 version_unsupported'],
  ['all', '/users', v('9'), '406 version_unsupported'],
  ['all', '/users', `${v('9')}, ${p('9')}`, '406 version_unsupported'],
  ['all', '/users?version=x', '-', INVALID],
  ['all', '/users', '-', LATEST],
  // In another order, and required
  ['strict', '/users', '-', REQUIRED],
  ['strict', '/', '*/*', REQUIRED],
  ['strict', '/users', 'application/json', REQUIRED],
  ['strict', '/users', 'application/vnd.acme+json', REQUIRED],
  ['strict', '/users', `${v('9')}, */*`, REQUIRED],
  ['strict', '/users', v('1', ';q=0'), REQUIRED],
  ['strict', '/v1/users', '-', '1'],
  ['strict', '/v1/users?version=1', p('1.0'), '1'],
  ['strict', '/users?version=1', '-', '1'],
  ['strict', '/v2/users?version=1', '-', AMBIGUOUS],
  ['strict', '/v9/users?version=9', '-', '400 version_unsupported'],
]

describe(`${ROWS.length} requests and their versions`, () => {
  test('contain enough requests, each once', () => {
    assert.ok(ROWS.length >= 120, `${ROWS.length} rows`)
    assert.equal(
      new Set(ROWS.map(([handler, at, accept]) => `${handler} ${at} ${accept}`)).size,
      ROWS.length,
      'no row twice',
    )
  })
  for (const [handler, at, accept, expected] of ROWS) {
    test(`match: ${handler}: ${at}  ${accept}  ->  ${expected}`, async () => {
      const answer = await ask(handlers[handler], { path: at, headers: accept === '-' ? {} : { accept } })
      const got = answer.status === 200 ? answer.json['version'] : `${answer.status} ${String(answer.json['code'])}`
      assert.equal(got, expected, 'the version')
      assert.equal(
        answer.headers['api-supported-versions'],
        '1, 2, 2.1, 2.1.3, 3.0.0-beta.1',
        'what there is, said with failures too',
      )
      const varies = handler === 'path' || handler === 'query' ? answer.status === 200 : false
      assert.equal(answer.headers['vary'], varies ? undefined : 'Accept', 'Vary')
      assert.deepEqual(answer.heard, [], 'nothing for the host to look at')
    })
  }
})

describe('the handler of a version', () => {
  const sees = async (at: string, accept?: string, mountPath = '') =>
    (await ask(handlers.all, { path: at, mountPath, headers: accept === undefined ? {} : { accept } })).json

  test('SPEC 9.uri-versioning: sees the path below the version', async () => {
    assert.equal((await sees('/v1/users'))['local'], '/users', 'at the root')
    assert.equal((await sees('/api/v1/users/7', undefined, '/api'))['local'], '/users/7', 'below a mount')
    assert.equal((await sees('/users'))['local'], '/users', 'without a version')
    assert.equal((await sees('/v1/users?version=1'))['local'], '/users', 'also where the query says it too')
    const other = versions(SERVED, { select: [query, path] })
    assert.equal(
      (await ask(other as never, { path: '/v1/users?version=1' })).json['local'],
      '/users',
      'and says it first',
    )
  })

  test("SPEC 9.header-versioning, 9.content-negotiation: sees application/json instead of the vendor's types", async () => {
    const rows: [accept: string, seen: string][] = [
      [v('1'), 'application/json'],
      [p('1.0'), 'application/json'],
      [`${v('1', ';q=0.5')}, text/html`, 'application/json;q=0.5, text/html'],
      [`${v('1', ';q=0')}, ${v('2')}`, 'application/json'],
      [v('1', ';q=0'), '*/*'],
      [`${v('1')}, application/problem+json;q=0.9`, 'application/json, application/problem+json;q=0.9'],
      [`${v('1')}, text/x;a="q\\"uo"`, 'application/json, text/x;a="q\\"uo"'],
      ['application/json;q=0.3, */*', 'application/json;q=0.3, */*'],
    ]
    for (const [accept, seen] of rows) assert.equal((await sees('/users', accept))['accept'], seen, accept)
  })

  test("sends the vendor's type that was requested, and no other", async () => {
    const rows: [at: string, accept: string, type: string][] = [
      ['/users', v('1'), 'application/vnd.acme.v1+json'],
      ['/users', v('2.0'), 'application/vnd.acme.v2.0+json'],
      ['/users', p('1.0'), 'application/vnd.acme+json;version=1.0'],
      ['/v1/users', v('1'), 'application/vnd.acme.v1+json'],
      ['/v1/users', `${v('2')}, */*`, 'application/json'],
      ['/v1/users', '*/*', 'application/json'],
      ['/users', `${v('9')}, */*`, 'application/json'],
      // Any version of the vendor's type.
      ['/users', 'application/vnd.acme+json', 'application/vnd.acme+json;version=2.1.3'],
      ['/v1/users', 'application/vnd.acme+json', 'application/vnd.acme+json;version=1'],
      ['/users', 'application/vnd.acme+json, */*;q=0.1', 'application/vnd.acme+json;version=2.1.3'],
      ['/users', 'application/vnd.acme+json;q=0.5, application/json', 'application/json'],
      ['/users', 'application/vnd.acme+json;q=0, */*', 'application/json'],
      ['/users', `${p('9.0')}, application/vnd.acme+json`, 'application/vnd.acme+json;version=2.1.3'],
    ]
    for (const [at, accept, type] of rows) {
      assert.equal(
        (await ask(handlers.all as never, { path: at, headers: { accept } })).headers['content-type'],
        type,
        `${at} ${accept}`,
      )
    }
    const text = versions(
      { '1': () => ({ status: 200, headers: { 'content-type': 'text/plain' }, body: '"x"' }) },
      { select: [header] },
    )
    assert.equal(
      (await ask(text as never, { headers: { accept: v('1') } })).headers['content-type'],
      'text/plain',
      'what is no JSON stays',
    )
  })
})

describe('a version header of the application', () => {
  const handler = versions(SERVED, { select: [path, byHeader(), header] })
  const choose = async (
    version: string | string[],
    more: { readonly path?: string; readonly accept?: string } = {},
  ) => {
    const { accept } = more
    const headers = { 'api-version': version, ...(accept !== undefined && { accept }) }
    const {
      status,
      json: body,
      headers: { vary },
    } = await ask(handler, { path: more.path ?? '/users', headers })
    assert.equal(vary, 'API-Version, Accept', 'caches tell the versions apart')
    return status === 200 ? body['version'] : `${status} ${String(body['code'])}`
  }

  test('names one version', async () => {
    assert.equal(await choose('1'), '1')
    assert.equal(await choose(' 2.0 '), '2')
    assert.equal(await choose('2, 2.1'), LATEST, 'both are this version')
    assert.equal(await choose('1', { path: '/v1/users', accept: v('1') }), '1', 'in agreement with the others')
  })

  test('gets a 400 if the version is malformed, not served or different from another selector', async () => {
    assert.equal(await choose('9'), '400 version_unsupported')
    assert.equal(await choose('latest'), INVALID)
    assert.equal(await choose(''), INVALID)
    assert.equal(await choose('1, 2'), AMBIGUOUS)
    assert.equal(await choose(['1', '2']), AMBIGUOUS)
    assert.equal(await choose('1', { path: '/v2/users' }), AMBIGUOUS)
    assert.equal(await choose('1', { accept: v('2') }), AMBIGUOUS)
  })

  test('may have any name, in any case', async () => {
    const own = versions(SERVED, { select: [byHeader({ header: 'X-Acme-Version' })] })
    const { json: body, headers: { vary } } = await ask(own, { path: '/users', headers: { 'x-acme-version': '1' } })
    assert.deepEqual([body['version'], vary], ['1', 'X-Acme-Version'])
  })
})
