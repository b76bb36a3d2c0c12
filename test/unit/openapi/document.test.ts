import assert from 'node:assert/strict'
import { after, describe as suite, test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { z } from 'zod'
import { compose, describe, type Handler, type Policy } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import {
  addParameters, addResponseHeaders, addResponses, body, header, operation, parameter, response, schemaObject,
} from '../../../src/openapi/operation.js'
import { errorResponses } from '../../../src/openapi/responses.js'
import { openapi } from '../../../src/openapi/document.js'
import { router } from '../../../src/resources/router.js'
import { memory } from '../../../adapters/memory/index.js'
import { operatorEndpoints, retryTasks } from '../../../src/operators/index.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { dereference } from '../../http/kit/dereference.js'

const INFO = { title: 'Users', version: '1.0.0', license: { name: 'MIT', identifier: 'MIT' } }
const shape = { type: 'object', required: ['id'], properties: { id: { type: 'integer' } } }

const answering = (method: string, more: Partial<Parameters<typeof operation>[1]> = {}): Handler =>
  describe(
    () => json(200, {}),
    [
      operation(method, {
        summary: 'A summary',
        responses: { 200: response('Fine', { schema: shape }), ...errorResponses('not_found') },
        ...more,
      }),
    ],
  )

interface Document {
  paths: Record<string, Record<string, {
    operationId: string, security?: unknown, parameters?: unknown[]
    responses: Record<string, { description: string, headers?: object, content: Record<string, { schema: unknown }> }>
  }>>
  components: { schemas: object, securitySchemes?: object }
}

const made = (...parts: Parameters<typeof openapi>): Document => openapi(...parts) as unknown as Document

/** What a linter that is not ours finds wrong. */
async function problems(document: unknown): Promise<string[]> {
  const config = await createConfig({
    extends: ['recommended-strict'],
    rules: { 'operation-4xx-response': 'error', 'no-server-example.com': 'off', 'no-empty-servers': 'off' },
  })
  const found = await lintFromString({ source: JSON.stringify(document), config })
  return found.map(
    ({ ruleId, message, location }) => `${ruleId}: ${message} at ${location.map((each) => each.pointer).join(' ')}`,
  )
}

suite('openapi', () => {
  test('generates paths, parameters and errors from a router alone', async () => {
    const document = made(
      router({
        'GET /users/{id}': answering('GET'),
        'POST /users': answering('POST', {
          requestBody: body(shape),
          responses: { 201: response('Made', { schema: shape }), ...errorResponses('conflict') },
        }),
      }),
      { info: INFO, security: [{}] },
    )
    assert.deepEqual(Object.keys(document.paths), ['/users/{id}', '/users'])
    const get = document.paths['/users/{id}']?.['get']
    assert.equal(get?.operationId, 'getUsersId')
    assert.deepEqual(get.parameters, [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }])
    assert.deepEqual(get.responses['404']?.content['application/json'], {
      schema: { $ref: '#/components/schemas/Error' },
    })
    assert.deepEqual(get.responses['default'], { $ref: '#/components/responses/UnexpectedError' })
    assert.deepEqual(await problems(document), [])
  })

  test('describes parts that occur more than once as components with readable names', () => {
    const limited = addResponseHeaders(operation('GET', {
      summary: 'A summary', responses: { 200: response('Fine', { schema: shape }), ...errorResponses('not_found') },
    }), { RateLimit: header('Requests that are left in this window, and the time until it ends') })
    const list = { type: 'array', items: { ...shape, title: 'a user', description: 'Somebody who may sign in' } }
    const page = {
      type: 'object',
      required: ['list', 'next'],
      properties: { list, next: list },
      additionalProperties: false,
    }
    const document = made(
      router({
        'GET /users': describe(() => json(200, {}), [limited]),
        'GET /people': describe(
          () => json(200, {}),
          [limited, operation('HEAD', { summary: 'As GET', responses: {} })],
        ),
        'POST /people': answering('POST', {
          requestBody: body(page),
          responses: { 200: response('All', { schema: page }) },
        }),
      }),
      { info: INFO },
    )
    const { components } = document as unknown as { components: Record<string, object> }
    const names = Object.fromEntries(
      Object.entries(components).map(([section, parts]) => [section, Object.keys(parts)]),
    )
    assert.deepEqual(names, {
      headers: ['RateLimit'], responses: ['GetUsers200', 'NotFound', 'UnexpectedError'],
      schemas: [
        'AUser', 'Details', 'Error', 'Items', 'List', 'Position', 'PostPeopleRequest', 'Problem', 'Summary',
      ],
    })
    const { responses } = document.paths['/people']?.['get'] ?? {}
    assert.deepEqual(responses, {
      200: { $ref: '#/components/responses/GetUsers200' }, 404: { $ref: '#/components/responses/NotFound' },
      default: { $ref: '#/components/responses/UnexpectedError' },
    })
    assert.deepEqual(Object.keys(document.paths['/people'] ?? {}), ['get', 'post'], 'HEAD is that of GET')
    assert.ok(JSON.stringify(document).length < JSON.stringify(dereference(document)).length / 2)
  })

  test('describes each error code once, and equal lists of codes as one named component', () => {
    const responses = { 200: response('Fine') }
    const both = operation('GET', {
      summary: 'A',
      responses: { ...responses, ...errorResponses('task_not_final', 'conflict') },
    })
    const other = addResponses(
      operation('GET', { summary: 'A', responses: { ...responses, ...errorResponses('conflict', 'task_not_found') } }),
      errorResponses('task_not_final', 'conflict'),
    )
    const document = made(
      router({ 'GET /a': describe(() => json(200, {}), [both]), 'GET /b': describe(() => json(200, {}), [other]) }),
      { info: INFO },
    )
    const [a, b] = ['/a', '/b'].map((path) => document.paths[path]?.['get']?.responses['409'])
    assert.deepEqual([a, b], [{ $ref: '#/components/responses/Conflict' }, { $ref: '#/components/responses/Conflict' }])
    const codes = dereference<Document>(document).paths['/b']?.['get']?.responses['409']?.description.match(/`\w+`/g)
    assert.deepEqual(codes, ['`conflict`', '`task_not_final`'])
    const twice = made(
      router({
        'GET /a': answering('GET'),
        'GET /b': answering('GET', { responses: errorResponses('task_not_found') }),
        'GET /c': answering('GET', { responses: errorResponses('task_not_found') }),
      }),
      { info: INFO },
    )
    assert.deepEqual(twice.paths['/c']?.['get']?.responses['404'], { $ref: '#/components/responses/TaskNotFound' })
  })

  test('gives different names to schemas with one title, and titles that generators can distinguish', () => {
    const titled = (type: string) => ({ title: 'a pet', type: 'object', properties: { id: { type } } })
    const document = made(
      router({
        'POST /a': answering('POST', { requestBody: body(titled('integer')) }),
        'POST /b': answering('POST', { requestBody: body(titled('string')) }),
      }),
      { info: INFO },
    )
    const { APet, APet2 } = document.components.schemas as Record<string, { title: string }>
    assert.deepEqual([APet?.title, APet2?.title], ['a pet', 'APet2'])
  })

  test('moves definitions and recursive parts of a schema to components, because # is the document', async () => {
    interface Tree { readonly name: string, readonly children: readonly Tree[] }
    const tree: z.ZodType<Tree> = z.object({ name: z.string(), get children() { return z.array(tree) } })
    const pet = z.object({ name: z.string() }).meta({ id: 'Pet' })
    const local = {
      type: 'object',
      properties: { a: { $ref: '#/$defs/name' }, b: { $ref: '#/$defs/name' } },
      $defs: { name: { type: 'string', minLength: 3 } },
    }
    const document = made(router({
      'POST /trees': answering('POST', { requestBody: body({ type: 'array', items: schemaObject(tree) }) }),
      'POST /pets': answering('POST', { requestBody: body(z.object({ one: pet, other: pet })) }),
      'POST /local': answering('POST', { requestBody: body(local) }),
    }), { info: INFO, security: [{}] })
    assert.deepEqual(await problems(document), [])
    const schemas = document.components.schemas as Record<string, { properties: Record<string, unknown> }>
    assert.deepEqual(schemas['PostTreesRequestItem']?.properties['children'], {
      type: 'array',
      items: { $ref: '#/components/schemas/PostTreesRequestItem' },
    })
    assert.deepEqual(Object.keys(schemas).filter((name) => ['Pet', 'Name'].includes(name)), ['Name', 'Pet'])
    assert.doesNotMatch(JSON.stringify(document), /\$defs|"#"/)
  })

  test('describes the security of the framework by one option', async () => {
    const handler = router({ 'GET /users/{id}': answering('GET'), 'GET /health': answering('GET', { security: [] }) })
    const document = made(handler, {
      info: INFO,
      security: { jwt: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
    })
    assert.deepEqual((document as unknown as { security: unknown }).security, [{ jwt: [] }])
    assert.deepEqual(document.components.securitySchemes, {
      jwt: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
    })
    assert.deepEqual(await problems(document), [])
    const either = made(handler, {
      info: INFO,
      security: { jwt: { type: 'http', scheme: 'bearer' }, key: { type: 'apiKey', in: 'header', name: 'x-key' } },
    })
    assert.deepEqual((either as unknown as { security: unknown }).security, [{ jwt: [] }, { key: [] }])
  })

  test('passes a linter that finds faults', async () => {
    const document = made(router({ 'GET /users/{id}': answering('GET') }), { info: INFO, security: [{}] })
    delete document.paths['/users/{id}']?.['get']?.parameters
    assert.match((await problems(document)).join(), /path-parameters-defined/)
  })

  test('describes what policies add, even to a whole router', () => {
    const keyed: Policy = Object.assign(((request, next) => next(request)) as Policy, {
      describe: (told: Parameters<NonNullable<Policy['describe']>>[0]) => ({
        ...addResponses(told, errorResponses('unauthorized')),
        securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'x-key' } },
      }),
    })
    const counted: Policy = Object.assign(((request, next) => next(request)) as Policy, {
      describe: (told: Parameters<NonNullable<Policy['describe']>>[0]) =>
        addResponseHeaders(told, { RateLimit: header('What is left') }),
    })
    const document = made(compose(counted, keyed, router({ 'GET /users': answering('GET') })), { info: INFO })
    const responses = document.paths['/users']?.['get']?.responses ?? {}
    assert.deepEqual(Object.keys(responses), ['200', '401', '404', 'default'])
    const headers = ['200', '401', 'default'].map((status) => Object.keys(responses[status]?.headers ?? {}))
    assert.deepEqual(
      headers,
      [['RateLimit'], ['WWW-Authenticate'], ['RateLimit']],
      'default has the headers of all errors',
    )
    assert.deepEqual(document.components.securitySchemes, { key: { type: 'apiKey', in: 'header', name: 'x-key' } })
  })

  test('merges two handlers for one operation', () => {
    const other = { type: 'array', items: shape }
    const document = dereference<Document>(
      made(
        [
          withPath(answering('GET', { operationId: 'list' })),
          withPath(
            answering('GET', {
              responses: { 200: response('As a list', { schema: other }), 410: { description: 'Gone' } },
              parameters: [parameter('query', 'version')],
            }),
          ),
        ],
        { info: INFO },
      ),
    )
    const get = document.paths['/users']?.['get']
    assert.deepEqual(get?.responses['200'], {
      description: 'Fine As a list',
      content: { 'application/json': { schema: { anyOf: [shape, other] } } },
    })
    assert.deepEqual(
      [get.operationId, Object.keys(get.responses), get.parameters?.length],
      ['list', ['200', '404', '410', 'default'], 1],
    )
  })

  test('gives unique ids', () => {
    const document = made(router({ 'GET /a/b': answering('GET'), 'GET /a-b': answering('GET') }), { info: INFO })
    assert.deepEqual(Object.values(document.paths).map((item) => item['get']?.operationId), ['getAB', 'getAB2'])
  })

  test('leaves out methods that OpenAPI does not know', () => {
    const document = made(router({ 'GET /a': answering('GET'), 'QUERY /a': answering('QUERY') }), { info: INFO })
    assert.deepEqual(Object.keys(document.paths['/a'] ?? {}), ['get'])
  })

  test('adds each parameter once', () => {
    const told = operation('GET', { summary: 'A', responses: {}, parameters: [parameter('query', 'a')] })
    assert.equal(addParameters(told, [parameter('query', 'a', { description: 'Another' })]), told)
    assert.equal((addParameters(told, [parameter('header', 'a')]).openapi['parameters'] as unknown[]).length, 2)
  })

  test('rejects a handler without a description or a path, and says what to do', () => {
    assert.throws(() => openapi(() => undefined, { info: INFO }), /describes itself; pass a router\(\)/)
    assert.throws(() => openapi(answering('GET'), { info: INFO }), /GET has no path; put its handler into a router\(\)/)
  })
})

function withPath(handler: Handler): Handler {
  return Object.assign(handler, { operations: handler.operations?.map((one) => ({ ...one, path: '/users' })) })
}

suite('the document describes', () => {
  const { engine, store, blobs } = memory()
  const task = defineTask({ name: 'report', files: true, run: () => 'done' })
  const retries = retryTasks()
  const tasks = createTasks({ engine, store, blobs, definitions: [task, retries] })
  after(() => tasks.close())
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const { retryMany } = operatorEndpoints(tasks, { statusPath: '/admin/{id}', operator: () => true, retries })
  const { paths, components } = dereference<Document>(made(router({
    'POST /reports': endpoints.submit(task, { respond: 'always' }),
    'POST /reports/now': endpoints.submit(task),
    'POST /admin/retry': retryMany,
    'GET|DELETE /tasks/{id}': endpoints.status,
    'POST /tasks/{id}/retry': endpoints.retry,
    'POST /tasks/{id}/callback': endpoints.callback,
    'GET /tasks/{id}/files/{name}': endpoints.files,
  }), { info: INFO }))
  const responsesOf = (path: string, method = 'post') => paths[path]?.[method]?.responses ?? {}
  const codesOf = (path: string) => new Set(Object.values(responsesOf(path)).flatMap(({ description }) => (
    [...description.matchAll(/`(\w+)`: /g)].map(([, code]) => code)
  )))

  test('the result of a retry, and the headers and codes of its errors', () => {
    const responses = responsesOf('/tasks/{id}/retry')
    assert.ok(responses['200']?.content['application/json'])
    assert.match(String(responses['422']?.description), /`unprocessable`/)
    for (const name of ['Location', 'Preference-Applied']) {
      assert.ok(name in (responses['200']?.headers ?? {}) && name in (responses['default']?.headers ?? {}), name)
    }
  })

  test('the repeated error of a key for a POST below a task, and the faults of its body', () => {
    for (const path of ['/tasks/{id}/retry', '/tasks/{id}/callback']) {
      assert.ok('Idempotent-Replayed' in (responsesOf(path)['default']?.headers ?? {}), path)
      for (const code of ['unsafe_key', 'nested_too_deep', 'digest_mismatch'])
        assert.ok(codesOf(path).has(code), `${path} ${code}`)
    }
  })

  test('the faults of query, body and key of a retry of many tasks', () => {
    const { description } = responsesOf('/admin/retry')['400'] ?? {}
    for (const code of ['invalid_query', 'invalid_input', 'malformed_json', 'invalid_idempotency_key'])
      assert.match(String(description), new RegExp(`\`${code}\``))
  })

  test('no error of a synchronous response for a submit that always gets a 202, and no error of missing callbacks', () => {
    const synchronous = ['callback_needs_async', 'gone', 'task_cancelled', 'sync_timeout', 'task_timeout']
    for (const path of ['/reports', '/admin/retry'])
      assert.deepEqual(
        [...synchronous, 'invalid_callback_url', 'callback_url_forbidden'].filter((code) => codesOf(path).has(code)),
        [],
        path,
      )
    assert.deepEqual(
      ['sync_timeout', 'task_timeout', 'task_cancelled'].filter((code) => !codesOf('/reports/now').has(code)),
      [],
    )
    assert.ok(!codesOf('/reports').has('unknown_task'))
  })

  test('no Retry-After for a task that a DELETE has cancelled', () => {
    assert.deepEqual(Object.keys(responsesOf('/tasks/{id}', 'delete')['200']?.headers ?? {}).sort(), ['ETag', 'Sunset'])
  })

  test('no Last-Modified for a result file', () => {
    const { responses } = paths['/tasks/{id}/files/{name}']?.['get'] ?? {}
    assert.ok('ETag' in (responses?.['200']?.headers ?? {}))
    assert.ok(!('Last-Modified' in (responses?.['200']?.headers ?? {})))
  })

  test('the properties that only some errors have', () => {
    const { Error: error, Problem: problem } = components.schemas as Record<string, { properties: object }>
    for (const name of ['summary', 'items', 'position', 'reason', 'expected-offset', 'provided-offset']) {
      assert.ok(name in (error?.properties ?? {}) && name in (problem?.properties ?? {}), name)
    }
    assert.ok('type' in (problem?.properties ?? {}))
  })
})
