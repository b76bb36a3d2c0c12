// Every route of the reference server: protected, and silent about itself when it fails. Routes are taken from what is
// mounted, so a new one is tested by being there.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { assertTellsNothing } from '../kit/no-leaks.js'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import { Client, TOKENS, type Ask } from '../kit/reference.js'

const client = new Client('')
let server: RunningServer | undefined
after(() => server?.stop())
/** The front page, its files, and what says what there is. */
const isPublic = (path: string): boolean => path === '/' || path === '/openapi.json' || path.startsWith('/console/')
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']
const CHANGES = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

interface Route { readonly method: string, readonly path: string }
const routes: Route[] = []

/** Those that its document names, and those that its source does, so that one without a description is there too. */
before(async () => {
  server = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(TOKENS), rateLimit: 1_000_000 })
  client.url = server.url
  const { paths } = (await client.ask('GET', '/openapi.json', { token: null })).json as {
    paths: Record<string, Record<string, unknown>>
  }
  const found = new Set<string>()
  for (const [path, item] of Object.entries(paths))
    for (const method of METHODS) if (method.toLowerCase() in item) found.add(`${method} ${path}`)
  const source = await readFile(join(import.meta.dirname, '../../../examples/reference-server/routes.ts'), 'utf8')
  for (const [, methods, path] of source.matchAll(/^ +'(?:([A-Z|]+) )?(\/[^']*)':/gm)) {
    for (const method of methods?.split('|') ?? METHODS) found.add(`${method} ${path}`)
  }
  for (const route of found) {
    const [method = '', template = ''] = route.split(' ')
    if (!isPublic(template))
      routes.push({ method, path: template.replace('{version}', 'v1').replaceAll(/\{\w+\}/g, '7') })
  }
})

const show = ({ method, path }: Route): string => `${method} ${path}`

describe('the routes of the reference server', () => {
  test('have the expected number', () => {
    assert.ok(routes.length >= 25, routes.map(show).join(', '))
    for (const path of ['/upload-ndjson', '/start-job', '/api/long-running-task', '/api/users'])
      assert.ok(
        routes.some((route) => route.path === path),
        path,
      )
  })

  test('SPEC 5.1, 5.2: do nothing without valid credentials', async () => {
    for (const { method, path } of routes) {
      for (const headers of [{}, { authorization: 'Bearer nobody' }, { authorization: 'Basic d3JpdGVyLTE6' }]) {
        const body = CHANGES.has(method) ? {} : undefined
        const answer = await client.ask(method, path, { token: null, headers, ...body && { body } })
        assert.equal(answer.status, 401, show({ method, path }))
        assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer realm=/, show({ method, path }))
      }
    }
  })

  test('SPEC 5.1, 5.3: change nothing for a reader', async () => {
    for (const route of routes.filter(({ method }) => CHANGES.has(method))) {
      const answer = await client.ask(route.method, route.path, { token: 'reader-1', body: {} })
      assert.deepEqual(
        [answer.status, answer.json.code, answer.json.reason],
        [403, 'forbidden', 'needs_writer'],
        show(route),
      )
    }
  })

  const BAD: readonly [what: string, ask: Ask][] = [
    ['no credentials', { token: null }],
    ['a reader', { token: 'reader-1' }],
    ['malformed JSON', { body: '{"a": __proto__ [' }],
    ['the wrong type', { body: '"text"' }],
    ['an empty object', { body: {} }],
    ['an empty list', { body: [] }],
    ['a key that is not safe', { body: '{"__proto__": {"a": 1}}' }],
    ['another media type', { body: '<a/>', headers: { 'content-type': 'text/xml' } }],
    ['a coding that is none', { body: 'x', headers: { 'content-encoding': 'rot13' } }],
    [
      'a coding that it is not',
      { body: 'x', headers: { 'content-encoding': 'gzip', 'content-type': 'application/x-ndjson' } },
    ],
    ['no body', {}],
    [
      'headers that cannot be',
      {
        headers: {
          'range': 'bytes=9999999999999-',
          'if-match': '"no"',
          'prefer': 'respond-async, wait=x',
          'idempotency-key': '"',
        },
        body: {},
      },
    ],
    ['an unknown task', { body: { task: 'no', data: {} } }],
  ]
  const QUERIES = ['', '?batch_size=-1&start=x&version=x&cursor=%00', '?version=999', '?only=%ff']

  test('SPEC 2.9, 7.1, 7.2, 7.3: send every error in one shape without internal details, as JSON and as a problem', async () => {
    const seen = new Map<number, number>()
    const tell = async (method: string, path: string, what: Ask, problem: boolean): Promise<void> => {
      const asked = { ...what.headers, ...(problem && { accept: 'application/problem+json' }) }
      const answer = await client.open(method, path, { ...what, headers: asked })
      const { status } = answer
      seen.set(status, (seen.get(status) ?? 0) + 1)
      // The large file is not what this is about.
      if (status < 400) await answer.body?.cancel()
      else
        assertTellsNothing(
          { status, text: await answer.text(), headers: Object.fromEntries(answer.headers) },
          { problem, head: method === 'HEAD' },
          `${method} ${path} ${JSON.stringify(what)}`,
        )
    }
    for (const { method, path } of routes) {
      for (const [, what] of BAD) {
        const { body, ...rest } = what
        const sent = CHANGES.has(method) && body !== undefined ? { ...rest, body } : rest
        for (const problem of [false, true]) await tell(method, path, { token: 'admin-1', ...sent }, problem)
      }
      for (const query of QUERIES) await tell(method, `${path}${query}`, { token: 'reader-1' }, false)
    }
    for (const path of new Set(routes.map(({ path }) => path))) {
      for (const problem of [false, true]) {
        await tell('REPORT', path, { token: 'admin-1' }, problem)
        await tell('GET', `${path}/%2e%2e/%ff/nothing`, { token: 'admin-1' }, problem)
        await tell('DELETE', path, { token: 'admin-1' }, problem)
      }
    }
    for (const status of [400, 401, 403, 404, 405, 415, 501])
      assert.ok(seen.has(status), `${status} was met: ${[...seen.keys()].join(', ')}`)
    for (const status of seen.keys()) assert.ok(status !== 500, 'none was unexpected')
  })
})
