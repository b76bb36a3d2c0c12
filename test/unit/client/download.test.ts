import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ClientOptions } from '../../../src/client/index.js'
import type { DownloadOptions } from '../../../src/client/download.js'
import { fakeServer, json, pieces, type Seen } from '../kit/fake-server.js'

const OLD = Uint8Array.from({ length: 1000 }, (_, at) => at % 251)
const NEW = Uint8Array.from({ length: 700 }, (_, at) => (at * 7) % 253)

interface Site {
  content: Uint8Array
  etag: string | undefined
  /** Bytes of each answer after which the connection breaks. */
  breakAfter: number[]
  ranges?: boolean
  lie?: (response: Response, request: Seen) => Response
}

/** A server of one file, with ranges as RFC 9110 has them. */
function site(state: Partial<Site> = {}, options?: ClientOptions) {
  const now: Site = { content: OLD, etag: '"old"', breakAfter: [], ...state }
  const { client, seen } = fakeServer((request) => {
    const { content, etag, breakAfter } = now
    const [, from] = /^bytes=(\d+)-$/.exec(request.headers['range'] ?? '') ?? []
    const condition = request.headers['if-range']
    const start =
      now.ranges !== false && from !== undefined && (condition === undefined || condition === etag)
        ? Number(from)
        : undefined
    const headers: Record<string, string> = {
      'content-type': 'application/octet-stream',
      ...(etag !== undefined && { etag }),
    }
    if (start !== undefined && start >= content.length)
      return new Response(null, { status: 416, headers: { 'content-range': `bytes */${content.length}` } })
    const part = content.subarray(start ?? 0)
    const limit = breakAfter.shift()
    const sent = limit === undefined ? part : part.subarray(0, limit)
    const chunks = Array.from({ length: Math.ceil(sent.length / 64) }, (_, at) => sent.slice(at * 64, at * 64 + 64))
    if (start === undefined) headers['content-length'] = String(content.length)
    else headers['content-range'] = `bytes ${start}-${content.length - 1}/${content.length}`
    const response = new Response(pieces(chunks, limit !== undefined), {
      status: start === undefined ? 200 : 206,
      headers,
    })
    return now.lie?.(response, request) ?? response
  }, options)
  return { now, client, seen, get: (how?: DownloadOptions) => client.download('/file', how) }
}

async function bytesOf(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of source) parts.push(part)
  return Buffer.concat(parts)
}

const ranges = (seen: readonly Seen[]) => seen.map(({ headers }) => headers['range'])

describe('download', () => {
  test('returns all bytes and reports progress', async () => {
    const { get, seen } = site()
    const heard: unknown[] = []
    const download = get({ onProgress: ({ received, total }) => { heard.push([received, total]) } })
    assert.equal(seen.length, 0)
    assert.deepEqual(await bytesOf(download), Buffer.from(OLD))
    assert.deepEqual(heard.at(0), [64, 1000])
    assert.deepEqual(heard.at(-1), [1000, 1000])
    assert.deepEqual(
      [download.received, download.total, download.etag, download.type],
      [1000, 1000, '"old"', 'application/octet-stream'],
    )
  })

  test('resumes a broken connection as long as bytes arrive', async () => {
    const { get, seen } = site({ breakAfter: [100, 100, 100, 0, 0, 100, 100, 0, 100] })
    assert.deepEqual(await bytesOf(get()), Buffer.from(OLD))
    assert.deepEqual(ranges(seen), [
      'bytes=0-', 'bytes=100-', 'bytes=200-', 'bytes=300-', 'bytes=300-', 'bytes=300-',
      'bytes=400-', 'bytes=500-', 'bytes=500-', 'bytes=600-',
    ])
    assert.deepEqual(seen.slice(1).map(({ headers }) => headers['if-range']), Array(9).fill('"old"'))
  })

  test('gives up if no more bytes arrive', async () => {
    const { get, seen } = site({ breakAfter: [100, 0, 0, 0, 0, 0, 0, 0] })
    await assert.rejects(bytesOf(get()), { code: 'network_error' })
    assert.equal(seen.length, 4)
  })

  test('resumes a response that ends cleanly but too early', async () => {
    const { get, seen } = site({
      lie: (response, { headers }) =>
        headers['range'] === 'bytes=0-'
          ? new Response(OLD.slice(0, 300), { status: 206, headers: response.headers })
          : response,
    })
    assert.deepEqual(await bytesOf(get()), Buffer.from(OLD))
    assert.deepEqual(ranges(seen), ['bytes=0-', 'bytes=300-'])
  })

  test('restarts or rejects if the content has changed, as the option says', async () => {
    const changing = () => {
      const made = site({ breakAfter: [100] })
      made.now.lie = (response) => {
        Object.assign(made.now, { content: NEW, etag: '"new"' })
        return response
      }
      return made
    }
    let parts: Uint8Array[] = []
    const first = changing()
    const download = first.get({ onRestart: () => { parts = [] } })
    for await (const part of download) parts.push(part)
    assert.deepEqual(Buffer.concat(parts), Buffer.from(NEW))
    assert.deepEqual([download.received, download.etag, first.seen.length], [700, '"new"', 2])

    assert.deepEqual(Buffer.from(await (await changing().get().blob()).arrayBuffer()), Buffer.from(NEW))
    await assert.rejects(bytesOf(changing().get()), { code: 'content_changed' })
  })

  test('rejects a part of other content', async () => {
    // A server that ignores If-Range, and says so by its tag only.
    const made = site({ breakAfter: [100] })
    made.now.lie = (response, { headers }) => {
      if (headers['range'] !== 'bytes=0-')
        return new Response(NEW.slice(100), {
          status: 206,
          headers: { 'content-range': 'bytes 100-699/700', 'etag': '"new"' },
        })
      const { now } = made
      if (now.content === OLD) Object.assign(now, { content: NEW, etag: '"new"' })
      return response
    }
    assert.deepEqual(Buffer.from(await (await made.get().blob()).arrayBuffer()), Buffer.from(NEW))
    assert.deepEqual(ranges(made.seen), ['bytes=0-', 'bytes=100-', 'bytes=0-'])
  })

  test('rejects a part that starts at another byte', async () => {
    const made = site({ breakAfter: [100] })
    let once = true
    made.now.lie = (response, { headers }) => {
      if (headers['range'] !== 'bytes=100-' || !once) return response
      once = false
      return new Response(OLD.slice(90), {
        status: 206,
        headers: { 'content-range': 'bytes 90-999/1000', 'etag': '"old"' },
      })
    }
    assert.deepEqual(Buffer.from(await (await made.get().blob()).arrayBuffer()), Buffer.from(OLD))
  })

  test('skips the known bytes if the server sends the same content without ranges, and restarts for other content', async () => {
    const same = site({ ranges: false, breakAfter: [100, 500] })
    assert.deepEqual(await bytesOf(same.get()), Buffer.from(OLD))
    assert.equal(same.seen.length, 3)
  })

  test('does not resume without a strong ETag', async () => {
    for (const etag of [undefined, 'W/"weak"']) {
      const { get, seen } = site({ etag, breakAfter: [100] })
      assert.deepEqual(Buffer.from(await (await get().blob()).arrayBuffer()), Buffer.from(OLD))
      assert.deepEqual(ranges(seen), ['bytes=0-', 'bytes=0-'])
      assert.ok(seen.every(({ headers }) => !('if-range' in headers) || headers['if-range'] === undefined))
    }
  })

  test('limits the number of restarts', async () => {
    const stuck = site({ etag: undefined, breakAfter: Array(50).fill(100) })
    await assert.rejects(stuck.get().blob(), { code: 'network_error' })
    assert.equal(stuck.seen.length, 4)
    const further = site({ etag: undefined, breakAfter: Array.from({ length: 50 }, (_, at) => at * 10 + 10) })
    await assert.rejects(further.get().blob(), { code: 'content_changed' })
    assert.equal(further.seen.length, 6)
  })

  test('can be resumed later, even if all bytes were received', async () => {
    const { get, seen } = site()
    const first = get()
    const parts: Uint8Array[] = []
    for await (const part of first) {
      parts.push(part)
      if (first.received >= 256) break
    }
    const saved = JSON.parse(JSON.stringify(first.position))
    assert.deepEqual(saved, { received: 256, etag: '"old"' })
    parts.push(await bytesOf(get({ from: saved })))
    assert.deepEqual(Buffer.concat(parts), Buffer.from(OLD))
    assert.equal((await bytesOf(get({ from: { received: 1000, etag: '"old"' } }))).length, 0)
    assert.deepEqual(ranges(seen), ['bytes=0-', 'bytes=256-', 'bytes=1000-'])
  })

  test('restarts if the content is shorter than the known bytes', async () => {
    const { get } = site({ content: NEW, etag: '"old"' })
    const parts: Uint8Array[] = []
    let restarts = 0
    for await (const part of get({
      from: { received: 900, etag: '"old"' },
      onRestart: () => {
        restarts++
      },
    }))
      parts.push(part)
    assert.equal(restarts, 1)
    assert.deepEqual(Buffer.concat(parts), Buffer.from(NEW))
  })

  test('accepts empty content', async () => {
    assert.equal((await bytesOf(site({ content: new Uint8Array() }).get())).length, 0)
    assert.equal((await bytesOf(site({ content: new Uint8Array(), ranges: false }).get())).length, 0)
  })

  test('rejects more bytes than announced, and ignores the length of compressed bytes', async () => {
    const long = site({
      lie: (response) =>
        new Response(OLD, {
          status: 200,
          headers: { ...Object.fromEntries(response.headers), 'content-length': '500' },
        }),
      ranges: false,
    })
    await assert.rejects(bytesOf(long.get()), { code: 'length_mismatch' })
    const coded = site({
      lie: () => new Response(OLD, { headers: { 'content-length': '500', 'content-encoding': 'gzip' } }),
      ranges: false,
    })
    assert.equal((await bytesOf(coded.get())).length, 1000)
  })

  test('rejects for errors and unexpected responses', async () => {
    await assert.rejects(
      bytesOf(fakeServer(() => json({ error: 'No.', code: 'not_found' }, 404)).client.download('/x')),
      { code: 'not_found' },
    )
    await assert.rejects(bytesOf(fakeServer(() => new Response('x', { status: 206 })).client.download('/x')), {
      code: 'bad_answer',
    })
    await assert.rejects(
      bytesOf(
        fakeServer(
          () => new Response(null, { status: 416, headers: { 'content-range': 'bytes */10' } }),
        ).client.download('/x'),
      ),
      { code: 'bad_answer' },
    )
    assert.throws(() => site().get({ from: { received: -1 } }), TypeError)
    await assert.rejects(site().get({ from: { received: 5, etag: '"old"' } }).blob(), TypeError)
  })

  test('ends if its consumer fails, and rejects with the reason of an abort', async () => {
    const error = new Error('disk full')
    const { get, seen } = site()
    await assert.rejects(async () => { for await (const _ of get()) throw error }, error)
    assert.equal(seen.length, 1)
    const controller = new AbortController()
    const aborted = get({ signal: controller.signal })
    await assert.rejects(
      async () => {
        for await (const _ of aborted) controller.abort(new Error('paused'))
      },
      { message: 'paused' },
    )
  })
})
