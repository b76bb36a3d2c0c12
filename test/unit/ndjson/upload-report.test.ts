import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import type { UploadResult } from '../../../src/ndjson/index.js'
import type { Schema } from '../../../src/schema/schema.js'
import { fakeRequest } from '../kit/request.js'

test('a record whose schema makes a value that JSON cannot represent is rejected like others, without an excerpt', async () => {
  const schema: Schema<{ id: bigint }> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: (value) => ({ value: { id: BigInt((value as { id: string }).id) } }),
    },
  }
  const handler = ndjsonUpload({
    schema,
    write: (records) =>
      records.map(({ id }) => (id === 2n ? { error: { code: 'taken', message: 'Taken.' } } : undefined)),
  })
  const request = fakeRequest({
    headers: { 'content-type': 'application/x-ndjson' },
    body: '{"id":"1"}\n{"id":"2"}\n{"id":"3"}\n',
  })
  const { status, body } = await handler(request) as HttpResponse
  const { summary, items } = JSON.parse(body as string) as UploadResult
  assert.deepEqual(
    [status, summary, items],
    [
      200,
      { total: 3, succeeded: 2, failed: 1 },
      [{ line: 2, status: 422, error: { code: 'taken', message: 'Taken.', excerpt: '' } }],
    ],
  )
})

test('a message of the application about a record is cut, so that a report of 100 errors fits into a task', async () => {
  const long = 'x'.repeat(1_000_000)
  const details = Array.from({ length: 100 }, () => ({ pointer: `/${long}`, message: long }))
  const handler = ndjsonUpload({
    write: (records) => records.map(() => ({ error: { code: long, message: long, details } })),
  })
  const body = `{"text":"${'y'.repeat(1000)}"}\n`.repeat(200)
  const response = (await handler(
    fakeRequest({ headers: { 'content-type': 'application/x-ndjson' }, body }),
  )) as HttpResponse
  const { items } = JSON.parse(response.body as string) as UploadResult
  assert.equal(items.length, 100)
  assert.ok((response.body as string).length < 600_000)
  assert.match(items[0]?.error?.message ?? '', /^x{299}…$/)
})
