import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HttpError, httpError } from '../../../src/http/errors.js'
import { readFailure } from '../../../src/http/failure.js'

describe('readFailure', () => {
  test('of Boom it needs both signs, the mark and the output', () => {
    const output = { statusCode: 404, payload: { message: 'No such user' } }
    assert.deepEqual([readFailure({ isBoom: true, output }).status, readFailure({ isBoom: true, output }).message], [404, 'No such user'])
    for (const half of [{ output }, { isBoom: 'true', output }, { isBoom: true }, { isBoom: true, output: 404 }]) {
      assert.deepEqual([readFailure(half).status, readFailure(half).code], [500, 'internal_error'])
    }
  })

  test('a status may be anything from 400 to 599', () => {
    const told = (statusCode: unknown): number => readFailure({ statusCode, code: 'x' }).status
    assert.deepEqual([400, 499, 500, 599].map(told), [400, 499, 500, 599])
    assert.deepEqual([399, 600, 399.5, '404', undefined].map(told), [500, 500, 500, 500, 500])
    assert.deepEqual([readFailure(new HttpError(599, 'x')).status, readFailure(new HttpError(400, 'x')).status], [599, 400])
  })

  test('headers may be numbers and lists; each that could break the answer is left out alone', () => {
    const headers = {
      'Retry-After': 30, 'link': ['</a>; rel="x"', '</b>; rel="y"'], 'x-object': {}, 'x-nothing': undefined, 'x broken': 'a', 'x-break': 'a\nb',
      'Content-Length': '3', 'connection': 'close', 'x-last': 'fine',
    }
    assert.deepEqual({ ...readFailure(httpError('conflict', { headers: headers as never })).headers }, {
      'retry-after': '30', 'link': '</a>; rel="x", </b>; rel="y"', 'x-last': 'fine',
    })
    for (const [name, value] of Object.entries({ 'x broken': 'a', 'x-break': 'a\nb', 'x-object': {}, 'connection': 'close' })) {
      assert.deepEqual(readFailure(httpError('conflict', { headers: { [name]: value } as never })).headers, {})
    }
  })
})
