import assert from 'node:assert/strict'
import fc from 'fast-check'
import { json } from '../../src/http/respond.js'
import { cleanMountPath, pathUnder, splitTarget } from '../../src/http/request.js'
import { router } from '../../src/resources/router.js'
import { readPageQuery } from '../../src/resources/pages.js'
import { cursorLinks, positionLinks } from '../../src/resources/pages.js'
import { parseIdempotencyKey } from '../../src/idempotency/key.js'
import { newId } from '../../src/runtime/random-id.js'
import { isTaskId } from '../../src/tasks/record/details.js'
import { StatusPath } from '../../src/tasks/http/status-path.js'
import { readTarget } from '../../examples/reference-server/tunnel.js'
import { fakeRequest } from '../unit/kit/request.js'
import { linear } from './frame/linear.js'
import { mutated } from './frame/mutate.js'
import { outcome, refusal } from './frame/rule.js'

const IDS = ['V1StGXR8_Z5jdHi6B-myTw', 'a', 'a.b', '.a', '-x', 'x'.repeat(128), '..', '%2e%2e', 'a/b', 'a%2fb', '']
const KEYS = [
  '"8e03978e-40d5-43dd-bc93-6894a57f9324"',
  'abc-123',
  '"a \\"b\\" \\\\"',
  '"',
  '""',
  '"ä"',
  '"a", "b"',
  `"${'x'.repeat(255)}"`,
  ' "a" ',
]
const TARGETS = [
  '/api/status/abc', '/a?b=c', '/', '*', 'http://example.com/a/b?c#d', 'HTTP://example.com',
  'http://example.com?x', '/a//b/../c', '/%2e%2e/etc', '/a%00b', '/a%2Fb', '/a?b?c',
  'example.com:443', '/é', '/a;b=c', '//evil.example/x', 'http://user:pw@h:1/x', 'http:///x',
]
const QUERIES = [
  'batch_size=25&start=50', 'start=0', 'batch_size=100000', 'start=-1', 'start=1e3', 'cursor=abc',
  'start=1&start=2', 'batch_size=', 'batch_size=+5', 'start=99999999999999999999', 'a=b&%',
  'q=%E0%A4%A',
]
const AUTHORITIES = [
  'example.com:443', '[2001:db8::1]:443', '127.0.0.1:80', 'a:0', 'a:65536', 'a', ':1', '[::1]',
  'a@b:1', '[::ffff:1.2.3.4]:1', '[1.2.3.4]:1',
]
const PIECES = [
  '/', '.', '..', '%2e', '%2F', '%00', '%', '%zz', '?', '#', '"', '\\', ':', '@', '//', '&', '=',
  '+', '0', 'start=', 'cursor=', '[', ']',
]

const path = new StatusPath('/api/status/{id}')
const deep = new StatusPath('/t/{id}/status')
const routes = router({
  'GET /api/status/{id}': ({ params }) => json(200, { id: params['id'] }),
  'GET /a/{b}/c': ({ params }) => json(200, { id: params['b'] }),
  'GET /a': () => json(200, {}),
})
const request = (target: string): ReturnType<typeof fakeRequest> => {
  const { path: at, search } = splitTarget(target)
  return { ...fakeRequest(), method: 'GET', path: at, query: new URLSearchParams(search) }
}

export const rules = {
  'an id stands for itself in paths and keys': fc.property(mutated(IDS, PIECES), (id) => {
    if (!isTaskId(id)) return
    assert.match(id, /^[\w-][\w.-]{0,127}$/)
    assert.equal(encodeURIComponent(id), id)
    for (const status of [path, deep]) assert.equal(status.idIn('/m', status.of('/m', id)), id)
    assert.ok(isTaskId(newId()))
  }),
  'an id in a path is all of one segment': fc.property(mutated(TARGETS, PIECES), (target) => {
    for (const status of [path, deep]) {
      const id = status.idIn('', target)
      if (id !== undefined) assert.ok(id !== '' && !id.includes('/') && status.of('', id) === target)
    }
  }),
  'a key is one structured string, or a bare word': fc.property(mutated(KEYS, PIECES), (field) => {
    const told = outcome(() => parseIdempotencyKey(field))
    if ('refused' in told) assert.equal(told.refused.code, 'invalid_idempotency_key')
    else {
      const key = told.value as string
      assert.match(key, /^[ -~]{1,255}$/)
      // Written as a structured string (RFC 8941 section 3.3.3) it is read again, unless it is blank around.
      assert.equal(parseIdempotencyKey(`"${key.replaceAll(/["\\]/g, '\\$&')}"`), key)
    }
    assert.ok('refused' in outcome(() => parseIdempotencyKey([field, field])))
  }),
  'a target is cut as a URL parser cuts it': fc.property(mutated(TARGETS, PIECES), (target) => {
    const { path: at, search } = splitTarget(target)
    assert.ok(search === '' || search.startsWith('?'))
    assert.ok(!at.includes('?'))
    if (/^\/[\w/.-]*(?:\?[\w=&?]*)?$/.test(target)) assert.equal(at + search, target)
    const absolute = /^https?:\/\/[\w.:-]+(?<rest>[/?][!-~]*)?$/i.exec(target)
    // A parser walks over dot segments and backslashes, which we leave as they are.
    if (absolute && URL.canParse(target) && !/[\\#]|\.|%2e|%(?![0-9a-f]{2})/i.test(absolute.groups?.['rest'] ?? '')) {
      const { pathname, search: query } = new URL(target)
      assert.equal(decodable(at), decodable(pathname))
      if (!query.includes('%') && search !== '?')
        assert.equal(search.replaceAll(/["<>']/g, ''), query.replaceAll(/["<>']/g, ''))
    }
    const mount = outcome(() => cleanMountPath('/m'))
    assert.ok('value' in mount && pathUnder(mount.value, at, '').startsWith('/m'))
  }),
  'a path that is asked for is answered, refused or not ours': fc.asyncProperty(
    mutated(TARGETS, PIECES),
    async (target) => {
      try {
        const answer = await routes(request(target))
        if (answer === undefined) return
        assert.ok([200, 405, 501].includes(answer.status))
        const { id } = JSON.parse(answer.body as string) as { id?: string }
        if (id !== undefined) assert.ok(id !== '' && id !== '.' && id !== '..' && !id.includes('\0'))
      } catch (error) {
        assert.equal(refusal(error).code, 'invalid_path')
      }
    },
  ),
  'a query asks for a page or is refused': fc.property(
    mutated(QUERIES, PIECES),
    fc.constantFrom('position' as const, 'cursor' as const),
    (text, paging) => {
      const query = new URLSearchParams(text)
      const told = outcome(() => readPageQuery(query, { batchSize: 100, maxBatchSize: 1000, paging }))
      if ('refused' in told) {
        assert.equal(told.refused.code, 'invalid_query')
        return
      }
      const { start, limit, cursor } = told.value
      assert.ok(Number.isSafeInteger(start) && start >= 0 && limit >= 1 && limit <= 1000)
      const asked = { ...request('/list'), query }
      const { next, header: field } =
        paging === 'cursor'
          ? cursorLinks(asked, limit, cursor)
          : positionLinks(asked, { start, limit, count: limit, total: undefined })
      if (field !== undefined) assert.ok(field.length <= 4096)
      if (field !== undefined)
        assert.match(
          field,
          /^(?:<\/list\?[!-~]*>; rel="next"$)|^<\/list\?[!-~]*>; rel="first"(?:, <\/list\?[!-~]*>; rel="(?:next|prev)")*$/,
        )
      // The next page is one that may be asked for, and keeps what else the query said.
      if (next === undefined) return
      const again = new URLSearchParams(next.slice(next.indexOf('?')))
      assert.ok(
        'value' in outcome(() => readPageQuery(again, { batchSize: 100, maxBatchSize: 1000, paging })) ||
          start + limit > Number.MAX_SAFE_INTEGER,
      )
      for (const [name, value] of query)
        if (!['start', 'batch_size', 'cursor'].includes(name)) assert.ok(again.getAll(name).includes(value))
    },
  ),
  'an authority is a host and a port, or none': fc.property(mutated(AUTHORITIES, PIECES), (text) => {
    const found = readTarget(text)
    if (found === undefined) return
    assert.ok(found.port >= 1 && found.port <= 65_535)
    assert.match(found.host, /^[a-z0-9._:-]+$/)
  }),
  'takes linear time': linear([...PIECES, 'a', ' ', '"a'], (text) => {
    parseOrNot(() => parseIdempotencyKey(text))
    splitTarget(text)
    path.idIn('', `/api/status/${text}`)
    isTaskId(text)
    readTarget(text)
    parseOrNot(() => readPageQuery(new URLSearchParams(text), { batchSize: 100, maxBatchSize: 1000, paging: 'cursor' }))
    parseOrNot(() => routes(request(`/a/${text}/c`)))
  }),
}

function parseOrNot(work: () => unknown): void {
  outcome(work)
}

function decodable(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
