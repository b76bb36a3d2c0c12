import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { ignore } from 'stream-json/filters/ignore.js'
import { pick } from 'stream-json/filters/pick.js'
import parser from 'stream-json/parser.js'
import { streamArray } from 'stream-json/streamers/stream-array.js'
import { streamObject } from 'stream-json/streamers/stream-object.js'
import { streamValues } from 'stream-json/streamers/stream-values.js'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { streamJson } from '../../../adapters/stream-json/index.js'
import { isHttpError } from '../../../src/http/errors.js'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { ndjsonUpload, type UploadResult, type UploadSource } from '../../../src/ndjson/index.js'
import { testContext } from '../../../src/testing/index.js'
import { fakeRequest, type Fake } from '../kit/request.js'

const USERS = () => [parser.asStream(), pick.asStream({ filter: 'data.users' }), streamArray.asStream()]
const JSON_TYPE = { 'content-type': 'application/json' }

/** @param pieceSize - size of the pieces in which the body arrives */
async function post(
  source: UploadSource,
  fake: Fake,
  pieceSize = Infinity,
): Promise<{ written: object[]; result: UploadResult; response: HttpResponse }> {
  const written: object[] = []
  const handler = ndjsonUpload({
    source,
    batchSize: 2,
    write: (records) => {
      written.push(...records)
    },
  })
  const request = fakeRequest({ headers: JSON_TYPE, ...fake })
  const bytes = Buffer.from(fake.body ?? '')
  const body = {
    ...request.body,
    stream: async function* () {
      for (let at = 0; at < bytes.length; at += pieceSize) yield bytes.subarray(at, at + pieceSize)
    },
  }
  const response = (await handler({ ...request, body })) as HttpResponse
  return { written, response, result: JSON.parse(response.body as string) as UploadResult }
}

const rejects = (code: string, status: number) => (error: unknown): boolean => (
  isHttpError(error) && error.code === code && error.status === status
)

describe('streamJson reads', () => {
  test('an array below other properties', async () => {
    const body = JSON.stringify({ meta: { of: [1] }, data: { users: [{ id: 1 }, { id: 2, tags: ['a'] }, { id: 3 }] } })
    const { written, result } = await post(streamJson(USERS), { body })
    assert.deepEqual(written, [{ id: 1 }, { id: 2, tags: ['a'] }, { id: 3 }])
    assert.deepEqual(result.summary, { total: 3, succeeded: 3, failed: 0 })
  })

  test('the values of an object, with their keys', async () => {
    const source = streamJson(() => [parser.asStream(), streamObject.asStream()], {
      record: ({ key, value }) => ({ ...value as object, id: key }),
    })
    const { written } = await post(source, { body: '{"ann":{"age":3},"bob":{"age":4}}' })
    assert.deepEqual(written, [{ age: 3, id: 'ann' }, { age: 4, id: 'bob' }])
  })

  test('documents one after the other, without values that a filter ignores', async () => {
    const source = streamJson(() => [
      parser.asStream({ jsonStreaming: true }), ignore.asStream({ filter: /\bsecret\b/ }), streamValues.asStream(),
    ])
    const { written } = await post(source, { body: '{"id":1,"secret":"x"} {"id":2}\n{"id":3}' })
    assert.deepEqual(written, [{ id: 1 }, { id: 2 }, { id: 3 }])
  })

  test('a compressed body, and records that are not objects', async () => {
    const body = gzipSync(JSON.stringify({ data: { users: [{ id: 1 }, 2, { id: 3 }] } }))
    const { written, result } = await post(streamJson(USERS), {
      body,
      headers: { ...JSON_TYPE, 'content-encoding': 'gzip' },
    })
    assert.deepEqual(written, [{ id: 1 }, { id: 3 }])
    assert.deepEqual(result.items.map(({ line, error }) => [line, error?.code]), [[2, 'line_not_object']])
  })
})

describe('streamJson rejects', () => {
  test('another media type with a 415 that names those of the source', async () => {
    const source = streamJson(USERS, { mediaTypes: ['application/vnd.acme+json'] })
    await assert.rejects(
      post(source, { body: '{}' }),
      (error: unknown) =>
        rejects('unsupported_media_type', 415)(error) &&
        isHttpError(error) &&
        error.headers?.['accept'] === 'application/vnd.acme+json',
    )
  })

  test('malformed JSON with a 400 and the report of the records before it', async () => {
    const body = `{"data":{"users":[{"id":1},{"id":2},${'{"id":3},'.repeat(2000)}{"id":}]}}`
    await assert.rejects(
      post(streamJson(USERS), { body }, 1000),
      (error: unknown) =>
        rejects('malformed_json', 400)(error) &&
        isHttpError(error) &&
        Number((error.members?.['summary'] as UploadResult['summary'] | undefined)?.succeeded) > 0,
    )
    await assert.rejects(
      post(streamJson(USERS), { body: '{"data":{"users":[{"id":1}' }),
      rejects('malformed_json', 400),
    )
  })

  test('a record that is too large for memory with a 413', async () => {
    const body = `{"data":{"users":[{"id":1},{"name":"${'x'.repeat(300_000)}"}]}}`
    await assert.rejects(
      post(streamJson(USERS, { maxRecordBytes: 200_000 }), { body }, 10_000),
      rejects('body_too_large', 413),
    )
  })

  test('wrong options when the source is created', () => {
    assert.throws(() => streamJson([] as never), /^TypeError: streamJson: pass a function/)
    assert.throws(() => streamJson(USERS, { maxRecordByte: 1 } as never), /did you mean "maxRecordBytes"/)
    assert.throws(
      () => ndjsonUpload({ source: {} as never, write: () => undefined }),
      /source must be an object with mediaTypes and read/,
    )
  })
})

test('a streamJson task that was interrupted continues after the last position', async () => {
  const blobs = new MemoryBlobs()
  const key = `ndjson-upload/${'a'.repeat(22)}`
  const body = Buffer.from(JSON.stringify({ data: { users: Array.from({ length: 50 }, (_, id) => ({ id })) } }))
  await blobs.put(key, (async function* () { yield body })(), { ttlMs: 600_000 })
  const written: number[] = []
  let calls = 0
  const { task } = ndjsonUpload<{ id: number }>({
    source: streamJson(USERS), batchSize: 7, background: { name: 'up', blobs },
    write: (records) => {
      if (++calls === 4) throw new Error('killed')
      written.push(...records.map(({ id }) => id))
    },
  })
  const input = { blob: key, size: body.length, coding: 'identity' }
  const first = testContext(task)
  await assert.rejects(async () => await task.run(input, first))
  const result = await task.run(input, testContext(task, { attempt: 2, checkpoint: first.saved.at(-1) as never }))
  assert.deepEqual(written, Array.from({ length: 50 }, (_, id) => id))
  assert.deepEqual(result.summary, { total: 50, succeeded: 50, failed: 0 })
})

describe('a value of streamJson that a record cannot keep', () => {
  const ARRAY = () => streamJson(() => [parser.asStream(), streamArray.asStream()])
  const codeOf = async (item: string): Promise<string | undefined> => {
    const { written, result } = await post(ARRAY(), { body: `[{"id":1},${item},{"id":3}]` })
    assert.deepEqual(written, [{ id: 1 }, { id: 3 }])
    return result.items[0]?.error?.code
  }
  test('is rejected as inexact_value, with a pointer', async () => {
    for (const value of ['12345678901234567890', '1e400', '-1e999', '"\\ud800"', '["x",9007199254740993]']) {
      assert.equal(await codeOf(`{"n":${value}}`), 'inexact_value', value)
    }
    const { result } = await post(ARRAY(), { body: '[{"a/b":[1,1e400]}]' })
    assert.deepEqual(result.items[0]?.error?.details, [{ pointer: '/a~1b/1', message: 'is too large for a number' }])
  })
  test('is rejected as line_too_deep, and as line_unsafe_key', async () => {
    for (const depth of [513, 5000, 100_000]) {
      assert.equal(await codeOf(`{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`), 'line_too_deep', String(depth))
    }
    assert.equal(await codeOf('{"a":[{"__proto__":{"admin":true}}]}'), 'line_unsafe_key')
  })
  test('is a malformed body if it is not UTF-8, for any division into chunks', async () => {
    for (const bytes of [
      [0x22, 0xff, 0x22],
      [0x22, 0xc3, 0x22],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
      [0x22, 0xf0, 0x9f, 0x98],
    ]) {
      const body = Buffer.concat([
        Buffer.from('[{"a":'),
        Buffer.from(bytes),
        Buffer.from(bytes.at(-1) === 0x22 ? '}]' : ''),
      ])
      for (const size of [1, Infinity])
        await assert.rejects(post(ARRAY(), { body }, size), rejects('malformed_json', 400))
    }
    const { written } = await post(ARRAY(), { body: '[{"a":"日本\u{1f600}"}]' }, 1)
    assert.deepEqual(written, [{ a: '日本\u{1f600}' }])
  })
})
