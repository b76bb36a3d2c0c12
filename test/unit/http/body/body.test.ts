import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readBytes, readJson, type ReadJsonOptions } from '../../../../src/http/body/body.js'
import { isHttpError, type HttpError } from '../../../../src/http/errors.js'
import { fakeRequest, type Fake } from '../../kit/request.js'

const JSON_HEADERS = { 'content-type': 'application/json' }

async function refusal(work: () => unknown): Promise<HttpError> {
  try {
    await work()
  } catch (error) {
    if (isHttpError(error)) return error
    throw error
  }
  throw new Error('Nothing was refused')
}

function refused(fake: Fake, options: ReadJsonOptions = { maxBodyBytes: 1000 }): Promise<HttpError> {
  return refusal(() => readJson(fakeRequest(fake), options))
}

describe('readJson', () => {
  test('measures a body that the application has parsed if Content-Length does not state its size', async () => {
    const value = { list: Array.from({ length: 5000 }, () => ({})), text: 'x'.repeat(40_000) }
    for (const headers of [
      JSON_HEADERS,
      { ...JSON_HEADERS, 'content-length': '500', 'content-encoding': 'gzip' },
      { ...JSON_HEADERS, 'transfer-encoding': 'chunked' },
    ]) {
      const error = await refused({ headers, parsed: { value } })
      assert.deepEqual(
        [error.status, error.code, error.message],
        [413, 'body_too_large', 'The body is larger than 1000 bytes.'],
      )
      assert.equal((await refused({ headers, parsed: { value: 'é'.repeat(501) } })).code, 'body_too_large')
      assert.deepEqual(await readJson(fakeRequest({ headers, parsed: { value: { a: 1 } } }), { maxBodyBytes: 1000 }), {
        a: 1,
      })
    }
    assert.deepEqual(
      await readJson(fakeRequest({ headers: JSON_HEADERS, parsed: { value: { a: 1 } } }), { maxBodyBytes: 7 }),
      { a: 1 },
    )
    // As sent: white space and escapes count, and numbers as they were written.
    const small = { headers: { ...JSON_HEADERS, 'content-length': '6' }, parsed: { value: [1e-6] } }
    assert.deepEqual(await readJson(fakeRequest(small), { maxBodyBytes: 8 }), [1e-6])
  })

  test('rejects a value that is nested too deeply, even if the application has parsed it', async () => {
    const deep = `${'{"a":'.repeat(600)}1${'}'.repeat(600)}`
    assert.equal(
      (await refused({ headers: JSON_HEADERS, body: deep }, { maxBodyBytes: 10_000 })).code,
      'nested_too_deep',
    )
    assert.equal(
      (await refused({ headers: JSON_HEADERS, parsed: { value: JSON.parse(deep) } })).code,
      'nested_too_deep',
    )
    const loop: Record<string, unknown> = {}
    loop['self'] = loop
    assert.equal((await refused({ headers: JSON_HEADERS, parsed: { value: loop } })).code, 'nested_too_deep')
  })

  test('responds with 413 to a declared length above the limit before anything is read', async () => {
    const request = fakeRequest({ headers: { ...JSON_HEADERS, 'content-length': '11' }, body: '[1]' })
    const error = await refusal(() => readJson(request, { maxBodyBytes: 10 }))
    assert.deepEqual(
      [error.status, error.code, error.message],
      [413, 'body_too_large', 'The body is larger than 10 bytes.'],
    )
    assert.deepEqual(request.reads, [])
    assert.equal(
      (
        await refused(
          { headers: { ...JSON_HEADERS, 'content-length': '11' }, parsed: { value: 1 } },
          { maxBodyBytes: 10 },
        )
      ).status,
      413,
    )
  })

  test('responds with 413 to a body that turns out too long, and accepts exactly the limit', async () => {
    assert.equal((await refused({ headers: JSON_HEADERS, body: '[1,2,3,45]' }, { maxBodyBytes: 9 })).status, 413)
    const request = fakeRequest({ headers: { ...JSON_HEADERS, 'content-length': '9' }, body: '[1,2,3,4]' })
    assert.deepEqual(await readJson(request, { maxBodyBytes: 9 }), [1, 2, 3, 4])
    assert.deepEqual(request.reads, [9])
  })

  test('reads JSON types with UTF-8', async () => {
    for (const type of [
      'application/json', 'Application/JSON; charset=UTF-8', 'application/json;charset="utf8"',
      'application/merge-patch+json', 'application/vnd.x.v1+json;version=2',
    ]) {
      const request = fakeRequest({ headers: { 'content-type': type }, body: '{"a":1}' })
      assert.deepEqual(await readJson(request, { maxBodyBytes: 100 }), { a: 1 }, type)
    }
  })

  test('responds with 415 to a body without Content-Type, before it is read or when bytes arrive', async () => {
    for (const headers of [{ 'content-length': '7' }, { 'transfer-encoding': 'chunked' }]) {
      const request = fakeRequest({ headers, body: '{"a":1}' })
      const error = await refusal(() => readJson(request, { maxBodyBytes: 100 }))
      assert.deepEqual(
        [error.status, error.code, error.headers['accept']],
        [415, 'unsupported_media_type', 'application/json'],
      )
      assert.deepEqual(request.reads, [])
    }
    assert.equal((await refused({ body: '{"a":1}' })).code, 'unsupported_media_type')
    for (const headers of [{ 'content-length': '2' }, {}]) {
      assert.equal(
        (await refused({ headers, parsed: { value: {} } })).code,
        'unsupported_media_type',
        'a parser of the host has read it all the same',
      )
    }
  })

  test('responds with missing_body to a request without Content-Type and without a body', async () => {
    assert.equal((await refused({ body: '' })).code, 'missing_body')
    assert.equal((await refused({ headers: { 'content-length': '0' }, body: '' })).code, 'missing_body')
    assert.equal((await refused({ parsed: { value: undefined } })).code, 'missing_body')
  })

  test('responds with 415 and the accepted types to other and malformed types, before the body is read', async () => {
    for (const type of [
      'text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', 'text/json', 'json',
      '', 'application/json; charset=latin1', 'a/b, application/json',
    ]) {
      const request = fakeRequest({ headers: { 'content-type': type }, body: '{}' })
      const error = await refusal(() => readJson(request, { maxBodyBytes: 100 }))
      assert.deepEqual(
        [error.status, error.code, error.headers],
        [415, 'unsupported_media_type', { accept: 'application/json' }],
        type,
      )
      assert.deepEqual(request.reads, [])
    }
    assert.equal((await refused({ headers: { 'content-type': 'text/plain' }, parsed: { value: {} } })).status, 415)
  })

  test('accepts the types that the option of a handler names', async () => {
    const options = { maxBodyBytes: 100, mediaTypes: ['application/merge-patch+json', 'application/x-thing'] }
    assert.deepEqual(
      await readJson(fakeRequest({ headers: { 'content-type': 'application/x-thing' }, body: '1' }), options),
      1,
    )
    const error = await refused({ headers: JSON_HEADERS, body: '1' }, options)
    assert.deepEqual(
      [error.status, error.headers],
      [415, { accept: 'application/merge-patch+json, application/x-thing' }],
    )
  })

  test('responds with 415 and the accepted codings to a content coding, unless the application has decompressed the body', async () => {
    const error = await refused({ headers: { ...JSON_HEADERS, 'content-encoding': 'gzip' }, body: '1' })
    assert.deepEqual(
      [error.status, error.code, error.headers],
      [415, 'unsupported_content_coding', { 'accept-encoding': 'identity' }],
    )
    assert.equal(
      await readJson(fakeRequest({ headers: { ...JSON_HEADERS, 'content-encoding': 'Identity' }, body: '1' }), {
        maxBodyBytes: 9,
      }),
      1,
    )
    assert.equal(
      await readJson(fakeRequest({ headers: { ...JSON_HEADERS, 'content-encoding': 'gzip' }, parsed: { value: 1 } }), {
        maxBodyBytes: 9,
      }),
      1,
    )
  })

  test('SPEC 7.400: responds with 400 to an empty or malformed body', async () => {
    assert.deepEqual(
      [(await refused({ headers: JSON_HEADERS })).code, (await refused({})).code],
      ['missing_body', 'missing_body'],
    )
    assert.equal((await refused({ headers: JSON_HEADERS, body: '{"a":}' })).code, 'malformed_json')
    assert.equal((await refused({ headers: JSON_HEADERS, body: '{"__proto__":1}' })).code, 'unsafe_key')
  })

  test('returns a body that the application has parsed at once, and does not read it again', () => {
    for (const value of [{ a: 1 }, [], 'text', 0, null]) {
      const headers = { ...JSON_HEADERS, 'content-length': String(JSON.stringify(value).length) }
      const request = fakeRequest({ headers, parsed: { value }, body: 'no' })
      assert.equal(readJson(request, { maxBodyBytes: 100 }), value)
      assert.deepEqual(request.reads, [])
    }
  })

  test('checks a parsed body for unsafe keys, parses unparsed bytes, and treats undefined as no body', async () => {
    assert.equal(
      (await refused({ headers: JSON_HEADERS, parsed: { value: JSON.parse('{"a":[{"__proto__":1}]}') } })).code,
      'unsafe_key',
    )
    assert.deepEqual(
      readJson(fakeRequest({ headers: JSON_HEADERS, parsed: { value: Buffer.from('[1]') } }), { maxBodyBytes: 3 }),
      [1],
    )
    assert.equal(
      (await refused({ headers: JSON_HEADERS, parsed: { value: Buffer.from('[1]') } }, { maxBodyBytes: 2 })).code,
      'body_too_large',
    )
    assert.equal((await refused({ parsed: { value: undefined } })).code, 'missing_body')
  })

  test('passes on the error of a failed connection or a consumed body unchanged', async () => {
    const fails = new Error('The body was read by somebody else')
    await assert.rejects(async () => readJson(fakeRequest({ fails }), { maxBodyBytes: 1 }), fails)
    await assert.rejects(async () => readBytes(fakeRequest({ fails }), { maxBodyBytes: 1 }), fails)
  })
})

describe('readBytes', () => {
  test('returns the bytes of any type, up to the limit', async () => {
    assert.deepEqual(
      await readBytes(fakeRequest({ headers: { 'content-type': 'text/csv' }, body: 'abc' }), { maxBodyBytes: 3 }),
      Buffer.from('abc'),
    )
    assert.equal((await readBytes(fakeRequest(), { maxBodyBytes: 3 })).byteLength, 0)
    assert.equal(
      (await refusal(() => readBytes(fakeRequest({ body: 'abcd' }), { maxBodyBytes: 3 }))).code,
      'body_too_large',
    )
    const declared = fakeRequest({ headers: { 'content-length': '4' } })
    assert.equal((await refusal(() => readBytes(declared, { maxBodyBytes: 3 }))).code, 'body_too_large')
    assert.deepEqual(declared.reads, [])
    assert.equal(
      (await refusal(() => readBytes(fakeRequest({ headers: { 'content-encoding': 'br' } }), { maxBodyBytes: 3 })))
        .status,
      415,
    )
  })

  test('uses bytes and text that the application has read', async () => {
    assert.deepEqual(await readBytes(fakeRequest({ parsed: { value: 'é' } }), { maxBodyBytes: 2 }), Buffer.from('é'))
    assert.deepEqual(
      await readBytes(fakeRequest({ parsed: { value: Uint8Array.of(1, 2) } }), { maxBodyBytes: 2 }),
      Uint8Array.of(1, 2),
    )
    assert.equal(
      (await refusal(() => readBytes(fakeRequest({ parsed: { value: 'éé' } }), { maxBodyBytes: 3 }))).code,
      'body_too_large',
    )
  })
})
