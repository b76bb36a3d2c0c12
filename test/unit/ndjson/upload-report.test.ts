import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { type UploadResult, UploadReport } from '../../../src/ndjson/index.js'
import type { Schema } from '../../../src/schema/schema.js'
import { fakeRequest } from '../http/fake-request.js'

test('a record that JSON cannot represent after its schema is refused like any other, without an excerpt', async () => {
  const schema: Schema<{ id: bigint }> = {
    '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: { id: BigInt((value as { id: string }).id) } }) },
  }
  const handler = ndjsonUpload({ schema, write: (records) => records.map(({ id }) => (id === 2n ? { error: { code: 'taken', message: 'Taken.' } } : undefined)) })
  const request = fakeRequest({ headers: { 'content-type': 'application/x-ndjson' }, body: '{"id":"1"}\n{"id":"2"}\n{"id":"3"}\n' })
  const { status, body } = await handler(request) as HttpResponse
  const { summary, errors } = JSON.parse(body as string) as UploadResult
  assert.deepEqual([status, summary, errors], [
    200, { total: 3, succeeded: 2, failed: 1 }, [{ line: 2, code: 'taken', message: 'Taken.', excerpt: '' }],
  ])
})

test('what a host says of a record is cut, so that a report of 100 errors fits into a record of a task', () => {
  const report = new UploadReport(100)
  const long = 'x'.repeat(1_000_000)
  const details = Array.from({ length: 100 }, () => ({ pointer: `/${long}`, message: long }))
  for (let line = 1; line <= 200; line++) report.addFailed(line, { code: long, message: long, details }, { text: long })
  assert.equal(report.errors.length, 100)
  assert.ok(JSON.stringify(report.result).length < 500_000)
  assert.match(report.errors[0]?.message ?? '', /^x{299}…$/)
})
