import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { AnswerWatch } from '../kit/openapi-watch.js'
import { useReference } from '../kit/reference.js'

const server = useReference()

describe('GET /openapi.json', () => {
  test('is public, and a 304 for a client that has it', async () => {
    const { status, headers } = await server.ask('GET', '/openapi.json', { token: null })
    assert.deepEqual([status, headers.get('content-type')], [200, 'application/json'])
    const etag = headers.get('etag') ?? ''
    assert.equal((await server.ask('GET', '/openapi.json', { token: null, headers: { 'if-none-match': etag } })).status, 304)
  })

  test('passes a linter', async () => {
    const { text } = await server.ask('GET', '/openapi.json')
    const config = await createConfig({ extends: ['recommended-strict'] })
    const found = await lintFromString({ source: text, config })
    assert.deepEqual(found.map(({ ruleId, message, location }) => `${ruleId}: ${message} at ${String(location[0]?.pointer)}`), [])
  })

  test('names every route and who may call it', async () => {
    const { json } = await server.ask('GET', '/openapi.json')
    const paths = json.paths as Record<string, Record<string, { security: unknown }>>
    for (const path of [
      '/', '/users', '/v1/users', '/v2/users', '/api/files/large-file', '/api/long-running-task', '/api/status/{id}', '/start-job', '/job-status/{id}',
      '/start-task', '/task-status/{id}', '/bulk-data', '/upload-ndjson',
    ]) assert.ok(paths[path], `${path} is described`)
    const open = /^\/(?:openapi\.json|console\/.*)?$/
    for (const [path, item] of Object.entries(paths)) {
      for (const [method, { security }] of Object.entries(item)) {
        assert.deepEqual(security, open.test(path) ? [] : [{ bearer: [] }], `${method} ${path}`)
      }
    }
  })

  test('each version in the path is a path of its own, and only the old one is deprecated', async () => {
    const { paths } = (await server.ask('GET', '/openapi.json')).json as { paths: Record<string, { get: { deprecated?: boolean } }> }
    assert.deepEqual(Object.keys(paths).filter((path) => path.includes('version')), [])
    assert.deepEqual(['/v1/users', '/v2/users', '/users'].map((path) => paths[path]?.get.deprecated), [true, undefined, false])
  })

  test('a response that it does not describe is found', async (t) => {
    const document = (await server.ask('GET', '/openapi.json')).json
    delete document.paths['/bulk-data'].get.responses['200'].headers
    t.mock.method(globalThis, 'fetch', () => Promise.resolve(new Response(JSON.stringify(document))), { times: 1 })
    const watch = await AnswerWatch.of(server.url)
    await server.ask('GET', '/bulk-data')
    await server.ask('GET', '/v2/users')
    await watch.stop()
    assert.deepEqual([watch.seen, watch.faults.size], [1, 1])
    assert.match([...watch.faults][0] ?? '', /^GET \/bulk-data -> 200: the field \S+ is not described$/)
  })
})
