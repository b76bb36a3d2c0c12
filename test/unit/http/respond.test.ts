import assert from 'node:assert/strict'
import { STATUS_CODES } from 'node:http'
import { describe, test } from 'node:test'
import { ConflictException, HttpException, InternalServerErrorException, NotFoundException } from '@nestjs/common'
import createError from 'http-errors'
import fc from 'fast-check'
import { ERROR_CODES, HttpError, httpError, type ErrorCode } from '../../../src/http/errors.js'
import { reasonPhrase } from '../../../src/http/failure.js'
import { compileJson } from '../../../src/http/body/compile-json.js'
import { empty, errorResponse, json, jsonText, stream } from '../../../src/http/respond.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import { fakeRequest } from '../kit/request.js'

function answer(
  error: unknown,
  accept?: string,
): { status: number; headers: Record<string, unknown>; body: Record<string, unknown> } {
  const { status, headers, body } = errorResponse(error, fakeRequest({ headers: { accept } }))
  assert.equal(typeof body, 'string')
  return { status, headers, body: JSON.parse(body as string) }
}

const MASKED = { error: 'Something went wrong.', code: 'internal_error' }

describe('response functions', () => {
  test('create new headers in json, jsonText, empty and stream', () => {
    const given = Object.freeze({ location: '/x' })
    assert.deepEqual(json(201, { a: 'ä' }, given), {
      status: 201,
      headers: { 'content-type': 'application/json', 'location': '/x' },
      body: '{"a":"ä"}',
    })
    assert.deepEqual(json(200, undefined), {
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: 'null',
    })
    assert.deepEqual(jsonText(200, '[1]', { 'content-type': 'application/geo+json' }), {
      status: 200,
      headers: { 'content-type': 'application/geo+json' },
      body: '[1]',
    })
    assert.deepEqual(empty(204), { status: 204, headers: {} })
    assert.notEqual(empty(204, given).headers, given)
    const body = (async function* () {
      yield 'x'
    })()
    assert.deepEqual(stream(200, body, { 'content-type': 'text/plain' }), {
      status: 200,
      headers: { 'content-type': 'text/plain' },
      body,
    })
  })

  test('write in compileJson what JSON.stringify writes, without properties that the schema does not name', () => {
    const write = compileJson<{ id: string; n?: number; secret?: string }>({
      type: 'object', required: ['id'], properties: { id: { type: 'string' }, n: { type: 'integer' } },
    })
    assert.equal(write({ id: 'a"b\u2028', n: 1, secret: 's' }), '{"id":"a\\"b\u2028","n":1}')
    fc.assert(fc.property(fc.string({ unit: 'binary' }), fc.integer(), (id, n) => {
      assert.deepEqual(JSON.parse(write({ id, n })), { id, n })
    }))
  })
})

describe('errorResponse', () => {
  test('SPEC 7.1: has the status of each code, a sentence in error, and the code', () => {
    for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
      const { status, headers, body } = answer(httpError(code))
      assert.equal(status, ERROR_CODES[code][0])
      assert.deepEqual(body, { error: ERROR_CODES[code][1], code })
      assert.deepEqual(headers, { 'cache-control': 'no-store', 'content-type': 'application/json', vary: 'Accept' })
    }
  })

  test('SPEC 7.2: has the status, code, message, details and headers of an HttpError', () => {
    const details = [{ pointer: '/name', message: 'is missing' }]
    const error = new HttpError(418, 'teapot', {
      message: 'Short and stout.',
      details,
      headers: { 'Retry-After': '7', 'Vary': 'Prefer', 'cache-control': 'max-age=5' },
      cause: new Error('secret'),
    })
    const { status, headers, body } = answer(error)
    assert.equal(status, 418)
    assert.deepEqual(body, { error: 'Short and stout.', code: 'teapot', details })
    assert.deepEqual(headers, {
      'cache-control': 'max-age=5',
      'retry-after': '7',
      'vary': 'Prefer, Accept',
      'content-type': 'application/json',
    })
  })

  test('SPEC 7.2: has the same properties in problem+json for a client that accepts it', () => {
    const details = [{ pointer: '', message: 'm' }]
    const { status, headers, body } = answer(
      httpError('invalid_input', { details }),
      'application/problem+json, application/json',
    )
    assert.equal(status, 400)
    assert.deepEqual(headers, {
      'cache-control': 'no-store',
      'content-type': 'application/problem+json',
      'vary': 'Accept',
    })
    assert.deepEqual(body, {
      status: 400,
      title: 'Bad Request',
      detail: 'The input is not valid.',
      error: 'The input is not valid.',
      code: 'invalid_input',
      details,
    })
    for (const accept of ['*/*', 'application/json', 'application/problem+json;q=0.5, application/json']) {
      assert.equal(answer(httpError('not_found'), accept).headers['content-type'], 'application/json')
    }
  })

  test('is a 503 with Retry-After for a store that failed, without the message of the store', () => {
    const cause = new Error('ECONNREFUSED 10.0.0.7')
    const down = answer(new StoreUnavailableError('redis at 10.0.0.7 is down', { cause }))
    assert.deepEqual(
      [down.status, down.headers['retry-after'], down.body],
      [503, '5', { error: 'The service is not available now.', code: 'store_unavailable' }],
    )
    const full = answer(new StoreUnavailableError('4096 of 4096', { reason: 'full' }))
    assert.deepEqual(
      [full.status, full.headers['retry-after'], full.body],
      [503, '30', { error: 'The service has no space for more data now.', code: 'store_full' }],
    )
  })

  test('keeps a 4xx status of errors of the application, and their message only if it is exposed', () => {
    const boom = (statusCode: number, message: string, headers = {}): unknown => ({
      isBoom: true,
      message: 'inner',
      output: { statusCode, payload: { statusCode, error: 'x', message }, headers },
    })
    const cases: [unknown, number, string, string][] = [
      [createError(404, 'No such user'), 404, 'not_found', 'No such user'],
      [createError(409, 'secret', { expose: false }), 409, 'conflict', 'The request conflicts with the current state.'],
      [createError(402), 402, 'payment_required', 'Payment Required'],
      [
        createError(451, 'secret', { expose: false }),
        451,
        'unavailable_for_legal_reasons',
        'Unavailable For Legal Reasons.',
      ],
      [createError(503, 'secret', { expose: true }), 503, 'service_unavailable', 'The service is not available now.'],
      [
        Object.assign(new Error('seen'), { status: 413, expose: true, type: 'entity.too.large' }),
        413,
        'body_too_large',
        'seen',
      ],
      [boom(403, 'Not yours'), 403, 'forbidden', 'Not yours'],
      [new NotFoundException('No such user'), 404, 'not_found', 'No such user'],
      [new ConflictException({ message: 'Taken', field: 'email' }), 409, 'conflict', 'Taken'],
      [new HttpException('Pay first', 402), 402, 'payment_required', 'Pay first'],
      [new InternalServerErrorException('secret'), 500, 'internal_error', 'Something went wrong.'],
      [boom(500, 'secret'), 500, 'internal_error', 'Something went wrong.'],
      [boom(501, 'secret'), 501, 'not_implemented', 'The server does not implement this method.'],
      [
        Object.assign(new Error('secret'), { statusCode: 415, code: 'FST_ERR_CTP_INVALID_MEDIA_TYPE' }),
        415,
        'unsupported_media_type',
        'The media type of the body is not supported.',
      ],
      [
        Object.assign(new Error('secret'), { statusCode: 400, code: 'FST_ERR_VALIDATION' }),
        400,
        'bad_request',
        'The request is not valid.',
      ],
    ]
    for (const [error, status, code, message] of cases) {
      const got = answer(error)
      assert.deepEqual([got.status, got.body], [status, { error: message, code }])
    }
    assert.equal(answer(createError(405, 'x', { headers: { Allow: 'GET' } })).headers['allow'], 'GET')
    assert.equal(
      answer(boom(401, 'x', { 'WWW-Authenticate': ['Basic', 'Bearer'], 'x-n': 3 })).headers['www-authenticate'],
      'Basic, Bearer',
    )
  })

  test('SPEC 7.3: masks every other error', () => {
    const upstream = Object.assign(new Error('secret'), {
      status: 404,
      code: 'ERR_BAD_REQUEST',
      response: { status: 404 },
    })
    const values: unknown[] = [
      new Error('secret'),
      'secret',
      undefined,
      null,
      42,
      10n,
      Symbol('secret'),
      () => 'secret',
      [],
      { message: 'secret' },
      { status: 404, message: 'secret' },
      upstream,
      { statusCode: 404, message: 'secret' },
      { statusCode: 200, code: 'secret' },
      { statusCode: '404', code: 'secret' },
      { statusCode: 399.5, code: 'x' },
      { expose: true, statusCode: 302 },
      { getStatus: () => 404, message: 'secret' },
      { getStatus: () => 'x', getResponse: () => 'secret' },
      { isBoom: true },
      { isBoom: true, output: 'secret' },
      { isBoom: true, output: { statusCode: 7 } },
      new AggregateError([new Error('secret')]),
      Object.create(null),
      Object.assign(Object.create(HttpError.prototype) as object, {
        [Symbol.for('longhaul.HttpError')]: true,
        status: 'x',
      }),
    ]
    for (const value of values) {
      const { status, body } = answer(value)
      assert.deepEqual([status, body], [500, MASKED])
    }
  })

  test('is a valid response for any thrown value', () => {
    const trap = (): never => {
      throw new Error('trap')
    }
    const hostile = new Proxy(
      {},
      { get: trap, has: trap, ownKeys: trap, getPrototypeOf: trap, getOwnPropertyDescriptor: trap },
    )
    const revoked = Proxy.revocable({}, {})
    revoked.revoke()
    const circular: Record<string, unknown> = {}
    circular['self'] = circular
    const getter = Object.defineProperty({ code: 'x' }, 'statusCode', { get: trap })
    const broken = httpError('conflict')
    Object.defineProperty(broken, 'message', { get: trap })
    for (const value of [hostile, revoked.proxy, circular, getter, broken])
      assert.deepEqual(answer(value), { ...answer(undefined), body: MASKED })
  })

  test('is a valid response to a request whose headers throw', () => {
    const request = { get headers(): never { throw new Error('trap') } } as unknown as ReturnType<typeof fakeRequest>
    const { status, headers } = errorResponse(httpError('conflict'), request)
    assert.deepEqual([status, headers['content-type']], [409, 'application/json'])
  })

  test('leaves out details that JSON cannot write, and invalid headers', () => {
    const details = [{ pointer: '', message: 'm', extra: 10n }]
    assert.deepEqual(answer(httpError('conflict', { details })).body, {
      error: ERROR_CODES.conflict[1],
      code: 'conflict',
    })
    const headers = {
      'x-a': 'a\r\nset-cookie: b=1',
      'x\r\nb': '1',
      'x-c': '\0',
      'x-d': '€',
      'Content-Length': '3',
      'content-type': 'text/html',
      'transfer-encoding': 'chunked',
      'x-ok': 'fine',
      '__proto__': null,
    }
    assert.deepEqual(Object.keys(answer(httpError('conflict', { headers: headers as never })).headers).sort(), [
      'cache-control', 'content-type', 'vary', 'x-ok',
    ])
  })

  test('puts no line break into a header', () => {
    fc.assert(fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' })), (headers) => {
      for (const [name, value] of Object.entries(answer(httpError('conflict', { headers })).headers)) {
        assert.match(name, /^[!#$%&'*+.^_`|~0-9a-z-]+$/)
        assert.match(String(value), /^[\t\x20-\x7e\x80-\xff]*$/)
      }
    }), { numRuns: 500 })
  })

  test('has the phrases of the status line as titles', () => {
    for (let status = 400; status < 600; status++) {
      if (STATUS_CODES[status] === undefined) assert.match(reasonPhrase(status), /^(?:Client|Server) Error$/)
    }
    for (const [status] of Object.values(ERROR_CODES)) assert.equal(reasonPhrase(status), STATUS_CODES[status])
    assert.equal(answer(new HttpError(499, 'x'), 'application/problem+json').body['title'], 'Client Error')
  })
})
