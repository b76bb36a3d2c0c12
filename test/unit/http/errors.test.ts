import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HttpError, httpError, isHttpError } from '../../../src/http/errors.js'

describe('HttpError', () => {
  test('has an error status, from 400 to 599', () => {
    for (const status of [400, 401, 598, 599]) assert.equal(new HttpError(status, 'own_code').status, status)
    for (const status of [399, 600, 0, -400, 400.5, 499.5, Number.NaN, Infinity]) {
      assert.throws(() => new HttpError(status, 'own_code'), {
        name: 'RangeError',
        message: `HttpError: status must be a whole number from 400 to 599, not ${status}`,
      })
    }
    assert.throws(() => new HttpError('404' as unknown as number, 'own_code'), RangeError)
  })

  test('has its code as message if none is given', () => {
    const error = new HttpError(418, 'teapot')
    assert.deepEqual(
      [error.name, error.message, error.details, error.members, error.headers],
      ['HttpError', 'teapot', undefined, undefined, {}],
    )
    assert.ok(!('cause' in error))
  })

  test('keeps its message, details and headers', () => {
    const given = {
      message: 'No tea.',
      details: [{ pointer: '/a', message: 'b' }],
      members: { pot: 1 },
      headers: { 'retry-after': '1' },
      cause: new Error('why'),
    }
    const { message, details, members, headers, cause } = new HttpError(418, 'teapot', given)
    assert.deepEqual({ message, details, members, headers, cause }, given)
  })

  test('is recognised by its mark, from any copy of the package', () => {
    assert.equal(isHttpError(httpError('not_found')), true)
    assert.equal(isHttpError({ [Symbol.for('longhaul.HttpError')]: true }), true)
    for (const other of [new Error('x'), { status: 404 }, null, undefined, 'HttpError', 404])
      assert.equal(isHttpError(other), false)
  })

  test("has the status and the message of longhaul's code, unless it has its own message", () => {
    const told = ({ status, code, message }: HttpError): unknown[] => [status, code, message]
    assert.deepEqual(told(httpError('not_found')), [404, 'not_found', 'There is nothing here.'])
    assert.deepEqual(told(httpError('gone', { message: 'Sold.' })), [410, 'gone', 'Sold.'])
  })
})
