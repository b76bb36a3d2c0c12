import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { fakeRequest } from '../kit/request.js'

/** The sizes of the batches that were written, and the answer. */
async function post(body: string, accept = 'application/json'): Promise<{ sizes: number[], response: HttpResponse }> {
  const sizes: number[] = []
  const handler = ndjsonUpload({ write: (records) => { sizes.push(records.length) } })
  const response = (await handler(
    fakeRequest({ headers: { 'content-type': 'application/x-ndjson', accept }, body }),
  )) as HttpResponse
  return { sizes, response }
}

describe('large records', () => {
  /** A line of 64 KiB, which is as much as is parsed in one go. */
  const line = `{"pad":"${'x'.repeat(65_536 - 11)}"}\n`

  test('are written for each 1 MiB that was read, from the first to the last', async () => {
    assert.equal(line.length, 65_536)
    assert.deepEqual((await post(line.repeat(40))).sizes, [16, 16, 8])
  })

  test('are counted from the previous write, for any reason of the write', async () => {
    assert.deepEqual((await post('{}\n'.repeat(500) + line.repeat(20))).sizes, [500, 16, 4])
  })
})

test('a streamed response has no empty chunk', async () => {
  for (const body of ['', '\n\n', 'bad\n', '{"id":1}', '{"id":1}\nbad\n'.repeat(10_000)]) {
    const { response } = await post(body, 'application/x-ndjson')
    let last = ''
    for await (const piece of response.body as AsyncIterable<string>) {
      assert.notEqual(piece, '', JSON.stringify(body.slice(0, 20)))
      last = piece
    }
    assert.ok(last.includes('"summary"'))
  }
})
