import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HttpError, httpError } from '../../../src/http/errors.js'
import { readFailure } from '../../../src/http/failure.js'

describe('readFailure', () => {
  test('recognises Boom by both its mark and its output', () => {
    const output = { statusCode: 404, payload: { message: 'No such user' } }
    assert.deepEqual(
      [readFailure({ isBoom: true, output }).status, readFailure({ isBoom: true, output }).message],
      [404, 'No such user'],
    )
    for (const half of [{ output }, { isBoom: 'true', output }, { isBoom: true }, { isBoom: true, output: 404 }]) {
      assert.deepEqual([readFailure(half).status, readFailure(half).code], [500, 'internal_error'])
    }
  })

  test('accepts any status from 400 to 599', () => {
    const told = (statusCode: unknown): number => readFailure({ statusCode, code: 'x' }).status
    assert.deepEqual([400, 499, 500, 599].map(told), [400, 499, 500, 599])
    assert.deepEqual([399, 600, 399.5, '404', undefined].map(told), [500, 500, 500, 500, 500])
    assert.deepEqual(
      [readFailure(new HttpError(599, 'x')).status, readFailure(new HttpError(400, 'x')).status],
      [599, 400],
    )
  })

  test('accepts numbers and lists as headers, and leaves out each header that could break the response', () => {
    const headers = {
      'Retry-After': 30,
      'link': ['</a>; rel="x"', '</b>; rel="y"'],
      'x-object': {},
      'x-nothing': undefined,
      'x broken': 'a',
      'x-break': 'a\nb',
      'Content-Length': '3',
      'connection': 'close',
      'x-last': 'fine',
    }
    assert.deepEqual({ ...readFailure(httpError('conflict', { headers: headers as never })).headers }, {
      'retry-after': '30', 'link': '</a>; rel="x", </b>; rel="y"', 'x-last': 'fine',
    })
    for (const [name, value] of Object.entries({
      'x broken': 'a',
      'x-break': 'a\nb',
      'x-object': {},
      'connection': 'close',
    })) {
      assert.deepEqual(readFailure(httpError('conflict', { headers: { [name]: value } as never })).headers, {})
    }
  })

  test('cuts a message of 5 MB, a long code and many details, and marks the cut', () => {
    const details = Array.from({ length: 10_000 }, (_, at) => ({ pointer: `/${at}`, message: 'x'.repeat(300) }))
    const failure = readFailure(new HttpError(422, 'c'.repeat(10_000), { message: 'm'.repeat(5_000_000), details }))
    assert.equal(failure.message, `${'m'.repeat(2047)}…`)
    assert.equal(failure.code, `${'c'.repeat(127)}…`)
    const kept = failure.details ?? []
    assert.ok(kept.length > 40 && JSON.stringify(kept).length < 17_000)
    assert.deepEqual(kept.slice(0, -1), details.slice(0, kept.length - 1))
    assert.deepEqual(kept.at(-1), { pointer: '', message: `… and ${10_001 - kept.length} more` })
    const one = readFailure(new HttpError(422, 'c', { details: [{ pointer: '', message: 'x'.repeat(5_000_000) }] }))
    assert.deepEqual(one.details, [{ pointer: '', message: '… and 1 more' }])
  })

  test('keeps values that fit, and leaves out details that JSON cannot write', () => {
    const details = [{ pointer: '/a', message: 'is wrong' }]
    assert.equal(readFailure(new HttpError(422, 'c', { details })).details, details)
    assert.equal(readFailure(new HttpError(422, 'c', { details: [{ pointer: 1n }] as never })).details, undefined)
    assert.equal(readFailure({ expose: true, statusCode: 400, message: 'm'.repeat(5000) }).message.length, 2048)
  })

  test('leaves out headers beyond 8 KiB', () => {
    const long = 'x'.repeat(5000)
    const { headers } = readFailure(
      httpError('conflict', { headers: { 'x-a': long, 'x-b': long, 'retry-after': '1' } }),
    )
    assert.deepEqual(Object.keys(headers), ['x-a', 'retry-after'])
  })
})
