import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { ZlibPump } from '../../../src/http/body/zlib.js'
import { ndjsonBytes, ndjsonDownload } from '../../../src/ndjson/download.js'
import { fakeRequest } from '../kit/request.js'

const people = [{ id: 0, name: 'Ann' }, { id: 1, name: 'Zoë' }]

describe('leaving a download', () => {
  test('closes the source of ndjsonBytes after break', async () => {
    let closed = 0
    function* atHand(): Generator<object> {
      try {
        for (;;) yield people[0] as object
      } finally {
        closed++
      }
    }
    async function* byAndBy(): AsyncGenerator<object> { yield* atHand() }
    for (const source of [atHand(), byAndBy()]) {
      for await (const bytes of ndjsonBytes(source)) {
        assert.ok(bytes.byteLength > 0)
        break
      }
    }
    assert.equal(closed, 2)
  })

  test('closes the compressor of a compressed body, which returns nothing more', async () => {
    const records = Array.from({ length: 20_000 }, (_, id) => ({ id, half: Math.sqrt(id) }))
    const answer = (await ndjsonDownload({ records: () => records })({
      ...fakeRequest({ headers: { 'accept-encoding': 'gzip' } }),
      method: 'GET',
    })) as HttpResponse
    const body = (answer.body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
    const close = mock.method(ZlibPump.prototype, 'close')
    try {
      assert.equal((await body.next()).done, false)
      assert.equal(close.mock.callCount(), 0)
      assert.deepEqual(await body.return?.(), { done: true, value: undefined })
      assert.equal(close.mock.callCount(), 1)
      assert.deepEqual(await body.next(), { done: true, value: undefined })
    } finally {
      close.mock.restore()
    }
  })
})

describe('the description of a download', () => {
  test('has GET and HEAD, each with its summary', () => {
    const { operations = [] } = ndjsonDownload({ records: () => people })
    assert.deepEqual(operations.map(({ method, openapi }) => [method, openapi['summary']]), [
      ['GET', 'Download records as NDJSON'], ['HEAD', 'The headers of GET'],
    ])
  })

  test('has the schema of a record, by default any object', () => {
    const named = { type: 'object', properties: { id: { type: 'integer' } } }
    for (const [schema, expected] of [[undefined, { type: 'object' }], [named, named]] as const) {
      const [get] = ndjsonDownload({ records: () => people, ...schema && { schema } }).operations ?? []
      const { content } =
        (
          get?.openapi['responses'] as Record<number, { content: Record<string, { schema: Record<string, unknown> }> }>
        )[200] ?? {}
      assert.deepEqual(content?.['application/json']?.schema, { type: 'array', items: expected })
      assert.deepEqual(content?.['application/x-ndjson']?.schema, {
        type: 'string',
        description: `Each line: ${JSON.stringify(expected)}`,
      })
    }
  })
})
