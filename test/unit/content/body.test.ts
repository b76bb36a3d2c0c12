import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { MemoryBlobs } from '../../../adapters/memory/blobs.js'
import { blobSource } from '../../../src/content/source.js'
import { content } from '../../../src/content/content.js'
import type { ContentSource } from '../../../src/content/source.js'
import { isHttpError } from '../../../src/http/errors.js'
import { request, see, textOf, textSource } from '../kit/content.js'

const TEXT = randomBytes(750_000).toString('base64')

async function bodyOf(source: ContentSource, headers: Record<string, string> = {}): Promise<AsyncIterable<Uint8Array>> {
  const answer = await content(source, { codings: ['gzip'] })(request('GET', headers))
  assert.equal(typeof answer?.body, 'object')
  return answer?.body as AsyncIterable<Uint8Array>
}

const KINDS: Record<string, Record<string, string>> = {
  'the whole': {},
  'a part': { range: 'bytes=0-90000' },
  'several parts': { range: 'bytes=0-40000,50000-90000' },
  'a coding': { 'accept-encoding': 'gzip' },
}

for (const [kind, headers] of Object.entries(KINDS)) {
  describe(`the body of ${kind}`, () => {
    test('opens nothing before it is read, or if it is never read', async () => {
      const source = textSource(TEXT)
      const body = await bodyOf(source, headers)
      const iterator = body[Symbol.asyncIterator]()
      await iterator.return?.()
      assert.deepEqual(source.log, [])
      assert.equal((await iterator.next()).done, true)
      assert.deepEqual(source.log, [])
    })

    test('closes its source when its reader stops', async () => {
      const source = textSource(TEXT)
      const iterator = (await bodyOf(source, headers))[Symbol.asyncIterator]()
      assert.equal((await iterator.next()).done, false)
      assert.equal(source.log.length, 1)
      await iterator.return?.()
      await new Promise((resolve) => setImmediate(resolve))
      assert.deepEqual(source.log.slice(1), ['closed'])
    })

    test('is closed when it has been read to its end', async () => {
      const source = textSource(TEXT)
      await textOf(await bodyOf(source, headers))
      const opened = source.log.filter((entry) => entry !== 'closed').length
      assert.equal(source.log.length, opened * 2)
    })

    test('fails if its source fails', async () => {
      const failure = new Error('the disk is gone')
      const source = textSource(TEXT, {
        async* open() {
          yield Buffer.from('xxx')
          throw failure
        },
      })
      await assert.rejects(textOf(await bodyOf(source, headers)), failure)
      const refused = textSource(TEXT, { open: () => { throw failure } })
      await assert.rejects(textOf(await bodyOf(refused, headers)), failure)
    })

    test('fails if it has fewer or more bytes than announced', async () => {
      const short = textSource(TEXT, { open: () => [Buffer.from('xxx')] })
      await assert.rejects(textOf(await bodyOf(short, headers)), /before the end/)
      const long = textSource(TEXT, { open: () => [Buffer.alloc(TEXT.length + 1)] })
      await assert.rejects(textOf(await bodyOf(long, headers)), /more than/)
    })
  })
}

test('a source may return its bytes synchronously, asynchronously, or as an array', async () => {
  const bytes = Buffer.from('abc')
  const opens: ContentSource['open'][] = [
    () => [bytes],
    async () => [bytes],
    async () =>
      (async function* () {
        yield bytes
      })(),
  ]
  for (const open of opens) assert.equal(await textOf(await bodyOf({ size: 3, open })), 'abc')
})

test('a blob is a source with ranges and an ETag, and its bytes are never mixed with those of its successor', async (t) => {
  const blobs = new MemoryBlobs()
  t.after(() => blobs.close())
  const put = async (text: string): Promise<string> => (
    (await blobs.put('report', (async function* () { yield Buffer.from(text) })(), { ttlMs: 60_000 })).etag
  )
  const handler = content(() => blobSource(blobs, 'report', { type: 'application/json', name: 'report.json' }), {
    disposition: 'attachment',
  })
  assert.equal(await see(handler), undefined)
  const etag = await put('0123456789')
  const part = await see(handler, 'GET', { 'range': 'bytes=2-4', 'if-range': etag })
  assert.equal(part?.status, 206)
  assert.equal(part.body, '234')
  assert.equal(part.headers['content-type'], 'application/json')
  assert.equal(part.headers['content-disposition'], 'attachment; filename="report.json"')
  const answer = await handler(request('GET'))
  await put('abcdefghij')
  await assert.rejects(textOf(answer?.body), (error) => isHttpError(error) && error.status === 503)
  assert.equal((await see(handler, 'GET', { 'range': 'bytes=2-4', 'if-range': etag }))?.body, 'abcdefghij')
})
