import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { AnswerWatch } from '../kit/openapi-watch.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { startServer } from '../../../examples/reference-server/server.js'
import { dereference } from '../kit/dereference.js'
import { TOKENS, useReference } from '../kit/reference.js'

const server = useReference()

describe('GET /openapi.json', () => {
  test('is public, and responds with 304 to a client that has the current version', async () => {
    const { status, headers } = await server.ask('GET', '/openapi.json', { token: null })
    assert.deepEqual([status, headers.get('content-type')], [200, 'application/json'])
    const etag = headers.get('etag') ?? ''
    assert.equal(
      (await server.ask('GET', '/openapi.json', { token: null, headers: { 'if-none-match': etag } })).status,
      304,
    )
  })

  test('passes a linter', async () => {
    const { text } = await server.ask('GET', '/openapi.json')
    const config = await createConfig({ extends: ['recommended-strict'] })
    const found = await lintFromString({ source: text, config })
    assert.deepEqual(
      found.map(({ ruleId, message, location }) => `${ruleId}: ${message} at ${String(location[0]?.pointer)}`),
      [],
    )
  })

  test('is small enough to read, however the server is started', async () => {
    const { text } = await server.ask('GET', '/openapi.json')
    assert.ok(Buffer.byteLength(text) < 170_000, `it has ${Buffer.byteLength(text)} bytes`)
    const traced = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(TOKENS), trace: true })
    const other = await (await fetch(`${traced.url}/openapi.json`)).text()
    await traced.stop()
    assert.equal(other, text)
  })

  test('describes callbacks: the property with the URL, the request, and the expected response', async () => {
    const { json } = await server.ask('GET', '/openapi.json')
    const { paths } = dereference<{
      paths: Record<
        string,
        {
          post: {
            callbacks?: Record<
              string,
              Record<
                string,
                {
                  post: {
                    requestBody: { content: Record<string, { schema: object }> }
                    parameters: { name: string }[]
                    responses: object
                  }
                }
              >
            >
          }
        }
      >
    }>(json)
    const described = Object.entries(paths).filter(([, { post }]) => post?.callbacks).map(([path]) => path)
    assert.deepEqual(described, ['/api/long-running-task', '/start-task'])
    const { post } = paths['/start-task']?.post.callbacks?.['taskEnded']?.['{$request.body#/callbackUrl}'] ?? {}
    assert.deepEqual(post?.parameters.map(({ name }) => name), ['webhook-id', 'webhook-timestamp', 'webhook-signature'])
    assert.deepEqual(Object.keys(post?.responses ?? {}), ['410', '2XX', 'default'])
    const check = new Ajv2020({ strict: false, validateFormats: false }).compile(
      post?.requestBody.content['application/json']?.schema ?? false,
    )
    const message = (data: object) => ({
      type: 'task.completed',
      timestamp: '2026-01-01T00:00:00.000Z',
      data: { taskId: 'a', status: 'completed', ...data },
    })
    assert.equal(
      check(message({ result: { message: 'Done.', characters: 1, words: 1, lines: 1, sha256: '00' } })),
      true,
      JSON.stringify(check.errors),
    )
    assert.equal(check(message({ result: { message: 'Done.' } })), false)
    assert.equal(check(message({ error: { code: 'task_failed', message: 'It failed.' } })), true)
  })

  test('types the result of an export, and of work that always gets a 202', async () => {
    const { json } = await server.ask('GET', '/openapi.json')
    const { paths } = dereference<{
      paths: Record<
        string,
        Record<
          string,
          {
            responses: Record<
              string,
              { content: Record<string, { schema: { allOf: { properties: { result: { required: string[] } } }[] } }> }
            >
          }
        >
      >
    }>(json)
    const resultOf = (path: string, method: string) =>
      paths[path]?.[method]?.responses['202']?.content['application/json']?.schema.allOf[1]?.properties.result.required
    assert.deepEqual(resultOf('/start-task', 'post'), ['message', 'characters', 'words', 'lines', 'sha256'])
    assert.deepEqual(resultOf('/start-job', 'post'), ['message', 'bytes', 'sha256'])
    assert.deepEqual(resultOf('/bulk-data', 'get'), ['message', 'records', 'parts'])
  })

  test('names every route and the role that it requires', async () => {
    const { json } = await server.ask('GET', '/openapi.json')
    const paths = json.paths as Record<string, Record<string, { security: unknown }>>
    for (const path of [
      '/', '/users', '/v1/users', '/v2/users', '/api/files/large-file', '/api/long-running-task',
      '/api/status/{id}', '/start-job', '/job-status/{id}', '/start-task', '/task-status/{id}',
      '/bulk-data', '/upload-ndjson',
    ])
      assert.ok(paths[path], `${path} is described`)
    const open = /^\/(?:openapi\.json|console\/.*)?$/
    for (const [path, item] of Object.entries(paths)) {
      for (const [method, { security }] of Object.entries(item)) {
        assert.deepEqual(security, open.test(path) ? [] : [{ bearer: [] }], `${method} ${path}`)
      }
    }
  })

  test('gives each version its own path, and only the old one is deprecated', async () => {
    const { paths } = (await server.ask('GET', '/openapi.json')).json as {
      paths: Record<string, { get: { deprecated?: boolean } }>
    }
    assert.deepEqual(Object.keys(paths).filter((path) => path.includes('version')), [])
    assert.deepEqual(
      ['/v1/users', '/v2/users', '/users'].map((path) => paths[path]?.get.deprecated),
      [true, undefined, false],
    )
  })

  test('is compared with each response, and a response that it does not describe is found', async (t) => {
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
