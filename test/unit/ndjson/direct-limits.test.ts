import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { directUpload } from '../../../src/ndjson/direct-upload.js'
import { fakeRequest } from '../http/fake-request.js'

test('the rest of a coded upload is not refused because more decoded bytes came before than may be sent', async () => {
  const limits = { maxBodyBytes: 1000, maxDecodedBytes: 100_000, maxRatio: 250 }
  const size = async (coding: string, offset: number, body: Uint8Array) => {
    const upload = directUpload(fakeRequest({}), { write: () => undefined }, limits, coding, { owner: undefined, context: undefined })
    async function* bytes(): AsyncGenerator<Uint8Array> { yield body }
    let read = 0
    for await (const chunk of upload.decode(bytes(), offset)) read += chunk.byteLength
    return read
  }
  const rest = Buffer.from('{}\n'.repeat(100))
  assert.equal(await size('gzip', 50_000, gzipSync(rest)), 300)
  await assert.rejects(size('gzip', 99_900, gzipSync(rest)), { code: 'body_too_large' })
  await assert.rejects(size('identity', 900, rest), { code: 'body_too_large' })
})
