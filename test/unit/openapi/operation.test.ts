import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import * as v from 'valibot'
import { type } from 'arktype'
import { z } from 'zod'
import { ERROR_CODES, httpError, type ErrorCode } from '../../../src/http/errors.js'
import type { HttpRequest } from '../../../src/http/exchange.js'
import { errorResponse } from '../../../src/http/respond.js'
import { body, header, operation, parameter, response, schemaObject } from '../../../src/openapi/operation.js'
import { errorSchema, problemSchema } from '../../../src/openapi/errors.js'
import {
  errorResponses, responseHeaders, headerParameters, knownHeaders,
} from '../../../src/openapi/responses.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'

/**
 * Nothing of OpenAPI's outer shape is left to taste: what each object must and may have (OpenAPI
 * 3.1.1 section 4.8).
 */
function checkResponse(found: unknown) {
  const {
    description,
    headers = {},
    content = {},
    ...rest
  } = found as { description: string; headers?: object; content?: object }
  assert.deepEqual(rest, {})
  assert.match(description, /\w/)
  for (const [name, value] of Object.entries(headers)) {
    assert.match(name, /^[A-Z][A-Za-z-]+$/)
    assert.deepEqual(Object.keys(value as object), ['description', 'schema'])
  }
  for (const [type, value] of Object.entries(content)) {
    assert.match(type, /^\w+\/[\w.+-]+$/)
    assert.deepEqual(Object.keys(value as object), ['schema'])
  }
}

describe('operation', () => {
  const post = operation('POST', {
    summary: 'Make a user',
    parameters: [headerParameters.idempotencyKey, parameter('query', 'dry', { schema: { type: 'boolean' } })],
    requestBody: body(z.object({ email: z.string() })),
    responses: {
      201: response('Made', { headers: responseHeaders('Location', 'ETag'), schema: { type: 'object' } }),
      ...errorResponses('invalid_input', 'conflict'),
    },
  })

  test('returns plain data, complete and without undefined', () => {
    assert.deepEqual(JSON.parse(JSON.stringify(post)), post)
    assert.equal(post.method, 'POST')
    assert.equal('path' in post, false)
    const { summary, parameters, requestBody, responses } = post.openapi
    assert.equal(summary, 'Make a user')
    assert.deepEqual((parameters as object[])[1], {
      name: 'dry',
      in: 'query',
      required: false,
      schema: { type: 'boolean' },
    })
    assert.deepEqual(requestBody, {
      required: true,
      content: {
        'application/json': {
          schema: { type: 'object', properties: { email: { type: 'string' } }, required: ['email'] },
        },
      },
    })
    assert.deepEqual(Object.keys(responses as object), ['201', '400', '409'])
    for (const found of Object.values(responses as object)) checkResponse(found)
  })

  test('includes a JSON Schema unchanged, converts a Standard Schema, and describes any value for an unknown one', () => {
    const schemaOf = (fragment: object) =>
      (fragment as { content: Record<string, { schema: unknown }> }).content['application/json']?.schema
    assert.deepEqual(schemaOf(body({ type: 'array' })), { type: 'array' })
    assert.deepEqual(schemaOf(body(jsonSchema({ type: 'integer' }))), { type: 'integer' })
    assert.deepEqual(schemaOf(body(v.string())), {})
    const withDefault = z.object({ n: z.number().default(1) })
    assert.equal((schemaOf(body(withDefault)) as { required?: string[] }).required, undefined)
    assert.deepEqual((schemaOf(response('ok', { schema: withDefault })) as { required?: string[] }).required, ['n'])
  })

  test('takes the options of bodies, parameters, responses and headers', () => {
    assert.deepEqual(
      body({}, { description: 'd', required: false, mediaTypes: ['application/x-ndjson', 'text/plain'] }),
      {
        description: 'd',
        required: false,
        content: { 'application/x-ndjson': { schema: {} }, 'text/plain': { schema: {} } },
      },
    )
    assert.deepEqual(parameter('path', 'id', { required: false, description: 'd' }), {
      name: 'id',
      in: 'path',
      description: 'd',
      required: true,
      schema: { type: 'string' },
    })
    assert.deepEqual(parameter('header', 'X'), { name: 'X', in: 'header', required: false, schema: { type: 'string' } })
    assert.deepEqual(response('gone'), { description: 'gone' })
    assert.deepEqual(header('d', { type: 'integer' }), { description: 'd', schema: { type: 'integer' } })
    assert.deepEqual(responseHeaders('Allow'), { Allow: knownHeaders.Allow })
  })
})

describe('errorResponses', () => {
  test('names all codes of one status in one shared response', () => {
    const found = errorResponses(
      'invalid_input',
      'malformed_json',
      'invalid_input',
      'unauthorized',
      'method_not_allowed',
      'store_full',
    )
    assert.deepEqual(Object.keys(found), ['400', '401', '405', '503'])
    assert.equal(
      found['400']?.['description'],
      '`invalid_input`: The input is not valid. `malformed_json`: The body is not valid JSON.',
    )
    assert.deepEqual(
      ['400', '401', '405', '503'].map((status) => Object.keys(found[status]?.['headers'] ?? {})),
      [[], ['WWW-Authenticate'], ['Allow'], ['Retry-After']],
    )
  })

  test('describes every code', () => {
    const found = errorResponses(...Object.keys(ERROR_CODES) as ErrorCode[])
    for (const value of Object.values(found)) checkResponse(value)
    assert.deepEqual(new Set(Object.keys(found)), new Set(Object.values(ERROR_CODES).map(([status]) => String(status))))
  })

  for (const [accept, schema] of [
    ['application/json', errorSchema],
    ['application/problem+json', problemSchema],
  ] as const) {
    test(`has a schema that the response to ${accept} matches`, () => {
      const request = { headers: { accept } } as unknown as HttpRequest
      const answer = errorResponse(
        httpError('invalid_input', { details: [{ pointer: '/a', message: 'is required' }] }),
        request,
      )
      assert.equal(answer.headers['content-type'], accept)
      const given = JSON.parse(answer.body as string)
      const check = new Ajv2020({ allErrors: true, strictTypes: false }).compile({
        ...schema,
        additionalProperties: false,
      })
      assert.equal(check(given), true, JSON.stringify(check.errors))
      for (const member of Object.keys(given)) {
        if (member === 'details') continue
        const { [member]: _, ...without } = given
        assert.equal(check(without), false, `${member} is required`)
      }
    })
  }
})

describe('schemas with parts that JSON cannot express', () => {
  const DATE = { type: 'string', format: 'date-time' }

  test('describe a date of zod as date-time, and the other parts of the body', () => {
    const schema = z.object({
      at: z.coerce.date(),
      name: z.string(),
      days: z.array(z.date()),
      total: z.bigint().optional(),
      size: z.string().transform(Number),
    })
    const { properties } = schemaObject(schema) as { properties: object }
    assert.deepEqual(properties, {
      at: DATE,
      name: { type: 'string' },
      days: { type: 'array', items: DATE },
      total: {},
      size: { type: 'string' },
    })
    const { properties: result } = schemaObject(schema, 'output') as { properties: object }
    assert.deepEqual(result, {
      at: DATE,
      name: { type: 'string' },
      days: { type: 'array', items: DATE },
      total: {},
      size: {},
    })
  })

  test('describe a date of arktype as date-time', () => {
    const { properties } = schemaObject(type({ 'at': 'Date', 'name': 'string', 'total?': 'bigint' })) as {
      properties: object
    }
    assert.deepEqual(properties, { at: DATE, name: { type: 'string' }, total: {} })
  })
})
