import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { content, type ContentOptions } from '../../../src/content/content.js'
import type { ContentSource } from '../../../src/content/source.js'
import type { RequestHeaders } from '../../../src/http/exchange.js'
import { CHANGED, CHANGED_TEXT, see, textSource, type Seen } from '../kit/content.js'

const TEXT = '0123456789abcdef'
const PRIVATE = { 'cache-control': 'private, no-cache' }

async function get(
  headers: RequestHeaders = {},
  source: Partial<ContentSource> = {},
  options: ContentOptions = {},
  method = 'GET',
): Promise<Seen> {
  const seen = await see(content(textSource(TEXT, source), options), method, headers)
  assert.ok(seen)
  return seen
}

describe('the response with the whole content', () => {
  test('is a 200 with length, type, validators, the range unit, and a private Cache-Control', async () => {
    const { status, headers, body } = await get()
    assert.equal(status, 200)
    assert.equal(body, TEXT)
    assert.deepEqual(headers, {
      'content-type': 'text/plain',
      'content-length': '16',
      'etag': '"v1"',
      'last-modified': CHANGED_TEXT,
      'accept-ranges': 'bytes',
      ...PRIVATE,
    })
  })

  test('has the same headers for HEAD, which opens nothing and ignores Range', async () => {
    const source = textSource(TEXT)
    const seen = await see(content(source), 'HEAD', { range: 'bytes=0-1' })
    assert.deepEqual(seen, { status: 200, headers: (await get()).headers, body: '' })
    assert.deepEqual(source.log, [])
  })

  test('needs no properties of a source except size and open', async () => {
    const { headers } = await get({}, {
      type: undefined,
      etag: undefined,
      lastModified: undefined,
    } as unknown as Partial<ContentSource>)
    assert.deepEqual(headers, {
      'content-type': 'application/octet-stream',
      'content-length': '16',
      'accept-ranges': 'bytes',
      ...PRIVATE,
    })
  })

  test('is a 200 with length 0 for empty content, and any range of it gets a 416', async () => {
    const empty = textSource('')
    assert.deepEqual(await see(content(empty)), {
      status: 200,
      headers: { ...(await get()).headers, 'content-length': '0' },
      body: '',
    })
    assert.equal((await see(content(empty), 'GET', { range: 'bytes=0-' }))?.status, 416)
    assert.equal((await see(content(empty), 'GET', { range: 'bytes=-1' }))?.status, 200)
    assert.deepEqual(empty.log, [])
  })

  test('has no Last-Modified that is later than its Date', async () => {
    const { headers } = await get({}, { lastModified: Date.now() + 3_600_000 })
    assert.ok(Date.parse(headers['last-modified'] as string) <= Date.now())
  })
})

describe('a Range request', () => {
  const cases: [string, string, string][] = [
    ['bytes=0-3', '0123', 'bytes 0-3/16'],
    ['bytes=10-', 'abcdef', 'bytes 10-15/16'],
    ['bytes=-2', 'ef', 'bytes 14-15/16'],
    ['bytes=-99', TEXT, 'bytes 0-15/16'],
    ['bytes=15-99', 'f', 'bytes 15-15/16'],
    ['bytes=4-6,5-9', '456789', 'bytes 4-9/16'],
  ]
  for (const [range, body, contentRange] of cases) {
    test(`gets a 206 for ${range}`, async () => {
      const seen = await get({ range })
      assert.equal(seen.status, 206)
      assert.equal(seen.body, body)
      assert.deepEqual(seen.headers, {
        ...(await get()).headers, 'content-length': String(body.length), 'content-range': contentRange,
        'cache-control': 'private, no-cache, no-transform',
      })
    })
  }

  test('gets a 206 with parts in the requested order, and their length, for several ranges', async () => {
    const { status, headers, body } = await get({ range: 'bytes=14-,0-1,99-' })
    assert.equal(status, 206)
    const [, boundary] =
      /^multipart\/byteranges; boundary=([0-9a-f]{32})$/.exec(headers['content-type'] as string) ?? []
    assert.ok(boundary)
    assert.equal(body, [
      `--${boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 14-15/16\r\n\r\nef\r\n`,
      `--${boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/16\r\n\r\n01\r\n`,
      `--${boundary}--\r\n`,
    ].join(''))
    assert.equal(headers['content-length'], String(body.length))
    assert.equal(headers['content-range'], undefined)
    assert.equal(headers['etag'], '"v1"')
  })

  test('gets a 416 with the size', async () => {
    const { status, headers, body } = await get({ range: 'bytes=16-' })
    assert.equal(status, 416)
    assert.equal(headers['content-range'], 'bytes */16')
    assert.equal((JSON.parse(body) as { code: string }).code, 'range_not_satisfiable')
  })

  for (const range of [
    'items=0-1',
    'bytes=5-4',
    'bytes=0-9,1-9,2-9',
    `bytes=${Array.from({ length: 17 }, (_, at) => `${at}-${at}`).join(',')}`,
  ]) {
    test(`gets the whole content for ${range.slice(0, 30)}`, async () =>
      assert.equal((await get({ range })).status, 200))
  }
})

describe('a conditional request', () => {
  const range = 'bytes=0-3'
  const cases: [string, RequestHeaders, number, Partial<ContentSource>?][] = [
    ['If-Range names what is there', { range, 'if-range': '"v1"' }, 206],
    ['If-Range names what was there', { range, 'if-range': '"v0"' }, 200],
    ['If-Range is weak', { range, 'if-range': 'W/"v1"' }, 200],
    ['If-Range is the date', { range, 'if-range': CHANGED_TEXT }, 206],
    ['If-Range is another date', { range, 'if-range': 'Mon, 06 May 2024 07:08:10 GMT' }, 200],
    ['If-Range without Range', { 'if-range': '"v0"' }, 200],
    ['a range that cannot be had, of what was there', { range: 'bytes=99-', 'if-range': '"v0"' }, 200],
    ['If-None-Match', { 'if-none-match': '"v1"' }, 304],
    ['If-None-Match before Range', { range, 'if-none-match': '"v1"' }, 304],
    ['If-None-Match before a range that cannot be had', { 'range': 'bytes=99-', 'if-none-match': '"v1"' }, 304],
    ['If-None-Match of another, and Range', { range, 'if-none-match': '"v0"' }, 206],
    ['If-Modified-Since', { 'if-modified-since': CHANGED_TEXT }, 304],
    ['If-Modified-Since, earlier', { 'if-modified-since': 'Mon, 06 May 2024 07:08:08 GMT' }, 200],
    ['If-Match', { range, 'if-match': '"v1"' }, 206],
    ['If-Match of another', { range, 'if-match': '"v0"' }, 412],
    ['If-Match before If-None-Match', { 'if-match': '"v0"', 'if-none-match': '"v1"' }, 412],
    ['If-Unmodified-Since', { range, 'if-unmodified-since': CHANGED_TEXT }, 206],
    ['If-Unmodified-Since, earlier', { range, 'if-unmodified-since': 'Mon, 06 May 2024 07:08:08 GMT' }, 412],
  ]
  for (const [name, headers, status, source] of cases) {
    test(`with ${name} gets ${status}`, async () => assert.equal((await get(headers, source)).status, status))
  }

  test('gets a 200 for an If-Range date whose second is not over, because the content may change in the same second', async () => {
    const lastModified = Date.now() + 5000
    assert.equal((await get({ range, 'if-range': new Date(lastModified).toUTCString() }, { lastModified })).status, 200)
  })

  test('gets a 304 with the ETag and Cache-Control, and without headers of the content', async () => {
    const options = { cacheControl: 'max-age=60', disposition: 'attachment' } as const
    assert.deepEqual(await get({ 'if-none-match': '*' }, {}, options), {
      status: 304,
      headers: { 'etag': '"v1"', 'cache-control': 'max-age=60' },
      body: '',
    })
    assert.deepEqual((await get({ 'if-modified-since': CHANGED_TEXT }, { etag: undefined })).headers, {
      'last-modified': CHANGED_TEXT,
      ...PRIVATE,
    })
    const source = textSource(TEXT)
    await see(content(source), 'GET', { 'if-none-match': '"v1"' })
    await see(content(source), 'GET', { 'if-match': '"v0"' })
    await see(content(source), 'GET', { 'range': 'bytes=99-' })
    assert.deepEqual(source.log, [], 'nothing was opened')
  })
})

describe('coded content', () => {
  const text = 'The quick brown fox. '.repeat(200)
  const handler = content(textSource(text), { codings: ['br', 'gzip'] })
  const decode = { gzip: gunzipSync, br: brotliDecompressSync }

  for (const coding of ['gzip', 'br'] as const) {
    test(`in ${coding} has its own tag, no length and no ranges`, async () => {
      const seen = await see(handler, 'GET', { 'accept-encoding': coding })
      assert.ok(seen)
      assert.equal(decode[coding](Buffer.from(seen.body, 'latin1')).toString(), text)
      assert.deepEqual(seen.headers, {
        'content-type': 'text/plain',
        'content-encoding': coding,
        'vary': 'Accept-Encoding',
        'etag': `"v1-${coding}"`,
        'last-modified': CHANGED_TEXT,
        ...PRIVATE,
      })
      assert.deepEqual((await see(handler, 'HEAD', { 'accept-encoding': coding }))?.headers, seen.headers)
      assert.equal(
        (await see(handler, 'GET', { 'accept-encoding': coding, 'if-none-match': `"v1-${coding}"` }))?.status,
        304,
      )
      assert.equal((await see(handler, 'GET', { 'accept-encoding': coding, 'if-none-match': '"v1"' }))?.status, 200)
    })
  }

  test('is not sent to a request with Range, which gets uncompressed content, in part or as a whole', async () => {
    const part = await see(handler, 'GET', { 'accept-encoding': 'gzip', 'range': 'bytes=4-8' })
    assert.equal(part?.status, 206)
    assert.equal(part.body, 'quick')
    assert.equal(part.headers['etag'], '"v1"')
    assert.equal(part.headers['vary'], 'Accept-Encoding')
    const whole = await see(handler, 'GET', {
      'accept-encoding': 'gzip',
      'range': 'bytes=4-8',
      'if-range': '"v1-gzip"',
    })
    assert.equal(whole?.status, 200)
    assert.equal(whole.headers['content-encoding'], undefined)
    assert.equal(whole.body, text)
  })

  test('is not sent if the client does not accept it, sends no Accept-Encoding, or if the content is too small', async () => {
    for (const headers of [
      {},
      { 'accept-encoding': 'identity' },
      { 'accept-encoding': 'gzip;q=0' },
      { 'accept-encoding': 'zip' },
    ]) {
      const seen = await see(handler, 'GET', headers)
      assert.equal(seen?.headers['content-encoding'], undefined)
      assert.equal(seen?.headers['etag'], '"v1"')
      assert.equal(seen?.headers['vary'], 'Accept-Encoding')
    }
    const asked = { 'accept-encoding': 'gzip' }
    for (const other of [
      content(textSource(text)),
      content(textSource(TEXT), { codings: ['gzip'] }),
      content(textSource(text, { type: 'image/png' }), { codings: ['gzip'] }),
    ]) {
      const seen = await see(other, 'GET', asked)
      assert.equal(seen?.headers['content-encoding'], undefined)
      assert.equal(seen?.headers['vary'], undefined)
    }
    const odd = content(textSource(text, { type: 'model/obj' }), {
      codings: ['gzip'],
      compressible: (type) => type.startsWith('model/'),
    })
    assert.equal((await see(odd, 'GET', asked))?.headers['content-encoding'], 'gzip')
  })

  test('has the same bytes in each response, as a strong ETag requires', async () => {
    const asked = { 'accept-encoding': 'gzip' }
    assert.equal((await see(handler, 'GET', asked))?.body, (await see(handler, 'GET', asked))?.body)
  })
})

describe('the headers of every content response', () => {
  test('include Content-Disposition', async () => {
    const value = async (
      name: string | undefined,
      disposition: 'inline' | 'attachment' = 'attachment',
    ): Promise<unknown> => (await get({ range: 'bytes=0-1' }, { name }, { disposition })).headers['content-disposition']
    assert.equal(await value('a b.txt'), 'attachment; filename="a b.txt"')
    assert.equal(await value('a.txt', 'inline'), 'inline; filename="a.txt"')
    assert.equal(await value(undefined), 'attachment')
    assert.equal(await value('../../etc/pass"wd'), 'attachment; filename="pass\\"wd"')
    assert.equal(await value('x\r\nSet-Cookie: a=b'), 'attachment; filename="xSet-Cookie: a=b"')
    assert.equal(await value('50%.txt'), "attachment; filename=\"50_.txt\"; filename*=UTF-8''50%25.txt")
    assert.equal(
      await value('naïve €.txt'),
      'attachment; filename="na?ve ?.txt"; filename*=UTF-8\'\'na%C3%AFve%20%E2%82%AC.txt',
    )
    assert.equal(await value('\ud800.txt'), "attachment; filename=\"?.txt\"; filename*=UTF-8''%EF%BF%BD.txt")
  })

  test('include Cache-Control', async () => {
    assert.equal((await get({}, {}, { cacheControl: 'private' })).headers['cache-control'], 'private')
  })
})

describe('the lookup of content', () => {
  test('returns undefined if nothing is found, for any method', async () => {
    for (const method of ['GET', 'HEAD', 'POST']) assert.equal(await see(content(() => undefined), method), undefined)
    assert.equal(await see(content(async () => undefined)), undefined)
  })

  test('may be synchronous or asynchronous', async () => {
    assert.equal((await see(content(() => textSource(TEXT))))?.body, TEXT)
    assert.equal((await see(content(async () => textSource(TEXT))))?.body, TEXT)
  })

  test('is followed by a 405 for another method if the content exists', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const seen = await see(content(textSource(TEXT)), method)
      assert.equal(seen?.status, 405)
      assert.equal(seen.headers['allow'], 'GET, HEAD')
    }
  })

  test('is described in OpenAPI', () => {
    assert.deepEqual(content(textSource(TEXT)).operations?.map(({ method }) => method), ['GET', 'HEAD'])
    const { openapi } = content(textSource(TEXT)).operations?.[0] ?? {}
    assert.deepEqual(Object.keys(openapi?.['responses'] as object), ['200', '206', '304', '404', '406', '412', '416'])
  })
})

describe('invalid content values are rejected', () => {
  for (const size of [-1, 0.5, Number.NaN, Infinity, 2 ** 53, '5' as unknown as number]) {
    test(`a size of ${String(size)}`, async () => {
      assert.throws(() => content(textSource('', { size })), /size/)
      assert.equal((await see(content(() => textSource('', { size }))))?.status, 500)
    })
  }
  test('invalid tags, types and times', () => {
    assert.throws(() => content(textSource('', { etag: 'v1' })), /"a1"/)
    assert.throws(() => content(textSource('', { etag: '"a"b"' })), TypeError)
    assert.throws(() => content(textSource('', { type: 'a\r\nb' })), TypeError)
    assert.throws(() => content(textSource('', { lastModified: Number.NaN })), TypeError)
    content(textSource('', { size: 2 ** 53 - 1, etag: 'W/"a"' }))
    content(textSource('', { lastModified: CHANGED }))
  })
  test('invalid options', () => {
    assert.throws(() => content(textSource(''), { codings: ['zip' as 'gzip'] }), /gzip/)
    assert.throws(() => content(textSource(''), { cacheControl: 'a\nb' }), /cacheControl/)
    assert.throws(() => content(textSource(''), { disposition: 'save' as 'inline' }), /attachment/)
    assert.ok(content(textSource(''), { codings: ['zstd'] }))
  })
})
