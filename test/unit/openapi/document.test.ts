import assert from 'node:assert/strict'
import { describe as suite, test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { compose, describe, type Handler, type Policy } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import {
  addParameters, addResponseHeaders, addResponses, body, header, operation, parameter, response,
} from '../../../src/openapi/operation.js'
import { errorResponses } from '../../../src/openapi/responses.js'
import { openapi } from '../../../src/openapi/document.js'
import { router } from '../../../src/resources/router.js'
import { dereference } from '../../http/kit/dereference.js'

const INFO = { title: 'Users', version: '1.0.0', license: { name: 'MIT', identifier: 'MIT' } }
const shape = { type: 'object', required: ['id'], properties: { id: { type: 'integer' } } }

const answering = (method: string, more: Partial<Parameters<typeof operation>[1]> = {}): Handler => describe(() => json(200, {}), [
  operation(method, { summary: 'A summary', responses: { 200: response('Fine', { schema: shape }), ...errorResponses('not_found') }, ...more }),
])

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
  const config = await createConfig({ extends: ['recommended-strict'], rules: { 'operation-4xx-response': 'error', 'no-server-example.com': 'off', 'no-empty-servers': 'off' } })
  const found = await lintFromString({ source: JSON.stringify(document), config })
  return found.map(({ ruleId, message, location }) => `${ruleId}: ${message} at ${location.map((each) => each.pointer).join(' ')}`)
}

suite('openapi', () => {
  test('a router is enough: paths, their parameters and errors are generated', async () => {
    const document = made(router({
      'GET /users/{id}': answering('GET'),
      'POST /users': answering('POST', { requestBody: body(shape), responses: { 201: response('Made', { schema: shape }), ...errorResponses('conflict') } }),
    }), { info: INFO, security: [{}] })
    assert.deepEqual(Object.keys(document.paths), ['/users/{id}', '/users'])
    const get = document.paths['/users/{id}']?.['get']
    assert.equal(get?.operationId, 'getUsersId')
    assert.deepEqual(get.parameters, [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }])
    assert.deepEqual(get.responses['404']?.content['application/json'], { schema: { $ref: '#/components/schemas/Error' } })
    assert.deepEqual(get.responses['default'], { $ref: '#/components/responses/UnexpectedError' })
    assert.deepEqual(await problems(document), [])
  })

  test('parts that occur more than once are components with readable names', () => {
    const limited = addResponseHeaders(operation('GET', {
      summary: 'A summary', responses: { 200: response('Fine', { schema: shape }), ...errorResponses('not_found') },
    }), { RateLimit: header('Requests that are left in this window, and the time until it ends') })
    const list = { type: 'array', items: { ...shape, title: 'a user', description: 'Somebody who may sign in' } }
    const page = { type: 'object', required: ['list', 'next'], properties: { list, next: list }, additionalProperties: false }
    const document = made(router({
      'GET /users': describe(() => json(200, {}), [limited]),
      'GET /people': describe(() => json(200, {}), [limited, operation('HEAD', { summary: 'As GET', responses: {} })]),
      'POST /people': answering('POST', { requestBody: body(page), responses: { 200: response('All', { schema: page }) } }),
    }), { info: INFO })
    const { components } = document as unknown as { components: Record<string, object> }
    const names = Object.fromEntries(Object.entries(components).map(([section, parts]) => [section, Object.keys(parts)]))
    assert.deepEqual(names, {
      headers: ['RateLimit'], responses: ['GetUsers200', 'NotFound', 'UnexpectedError'],
      schemas: ['AUser', 'DetailsItem', 'Error', 'PostPeopleRequest', 'Problem'],
    })
    const { responses } = document.paths['/people']?.['get'] ?? {}
    assert.deepEqual(responses, {
      200: { $ref: '#/components/responses/GetUsers200' }, 404: { $ref: '#/components/responses/NotFound' },
      default: { $ref: '#/components/responses/UnexpectedError' },
    })
    assert.deepEqual(Object.keys(document.paths['/people'] ?? {}), ['get', 'post'], 'HEAD is that of GET')
    assert.ok(JSON.stringify(document).length < JSON.stringify(dereference(document)).length / 2)
  })

  test('the linter finds faults', async () => {
    const document = made(router({ 'GET /users/{id}': answering('GET') }), { info: INFO, security: [{}] })
    delete document.paths['/users/{id}']?.['get']?.parameters
    assert.match((await problems(document)).join(), /path-parameters-defined/)
  })

  test('policies describe what they add, also around a whole router', () => {
    const keyed: Policy = Object.assign(((request, next) => next(request)) as Policy, {
      describe: (told: Parameters<NonNullable<Policy['describe']>>[0]) => ({
        ...addResponses(told, errorResponses('unauthorized')),
        securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'x-key' } },
      }),
    })
    const counted: Policy = Object.assign(((request, next) => next(request)) as Policy, {
      describe: (told: Parameters<NonNullable<Policy['describe']>>[0]) => addResponseHeaders(told, { RateLimit: header('What is left') }),
    })
    const document = made(compose(counted, keyed, router({ 'GET /users': answering('GET') })), { info: INFO })
    const responses = document.paths['/users']?.['get']?.responses ?? {}
    assert.deepEqual(Object.keys(responses), ['200', '401', '404', 'default'])
    assert.ok(responses['401'] && 'RateLimit' in (responses['401'].headers ?? {}), 'the outer policy describes the answers of the inner one')
    assert.deepEqual(document.components.securitySchemes, { key: { type: 'apiKey', in: 'header', name: 'x-key' } })
  })

  test('two handlers for one operation are merged', () => {
    const other = { type: 'array', items: shape }
    const document = made([
      withPath(answering('GET', { operationId: 'list' })),
      withPath(answering('GET', { responses: { 200: response('As a list', { schema: other }), 410: { description: 'Gone' } }, parameters: [parameter('query', 'version')] })),
    ], { info: INFO })
    const get = document.paths['/users']?.['get']
    assert.deepEqual(get?.responses['200'], { description: 'Fine As a list', content: { 'application/json': { schema: { anyOf: [shape, other] } } } })
    assert.deepEqual([get.operationId, Object.keys(get.responses), get.parameters?.length], ['list', ['200', '404', '410', 'default'], 1])
  })

  test('ids are unique', () => {
    const document = made(router({ 'GET /a/b': answering('GET'), 'GET /a-b': answering('GET') }), { info: INFO })
    assert.deepEqual(Object.values(document.paths).map((item) => item['get']?.operationId), ['getAB', 'getAB2'])
  })

  test('methods that OpenAPI does not know are left out', () => {
    const document = made(router({ 'GET /a': answering('GET'), 'QUERY /a': answering('QUERY') }), { info: INFO })
    assert.deepEqual(Object.keys(document.paths['/a'] ?? {}), ['get'])
  })

  test('parameters are added once', () => {
    const told = operation('GET', { summary: 'A', responses: {}, parameters: [parameter('query', 'a')] })
    assert.equal(addParameters(told, [parameter('query', 'a', { description: 'Another' })]), told)
    assert.equal((addParameters(told, [parameter('header', 'a')]).openapi['parameters'] as unknown[]).length, 2)
  })

  test('a handler without a description or a path is rejected with what to do', () => {
    assert.throws(() => openapi(() => undefined, { info: INFO }), /describes itself; pass a router\(\)/)
    assert.throws(() => openapi(answering('GET'), { info: INFO }), /GET has no path; put its handler into a router\(\)/)
  })
})

function withPath(handler: Handler): Handler {
  return Object.assign(handler, { operations: handler.operations?.map((one) => ({ ...one, path: '/users' })) })
}
