// Object storage whose server is slow, stops in the middle, or responds with an error after it has begun to respond.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { S3Blobs } from 'longhaul/s3'
import { isStoreUnavailable } from 'longhaul/stores'
import { deferred, eventually, pause, within } from '../../kit/wait.js'
import { inFuture, S3Front, s3Error, type S3Request } from '../../servers/s3-front.js'
import { s3Client, s3ForFile } from '../../servers/s3-server.js'

const { bucket, port, age, namesBelow } = await s3ForFile()
const MIB = 1_048_576
const LATER = { ttlMs: 600_000 }
let prefixes = 0

/** Returns blobs behind a front, and blobs that reach the server itself. */
async function open(t: TestContext, options: { readonly timeoutMs?: number, readonly bucket?: string } = {}) {
  const front = await S3Front.to(port)
  const clients = [s3Client(front.url), s3Client(`http://127.0.0.1:${String(port)}`)]
  const prefix = `requests-${String(prefixes++)}/`
  const [blobs, direct] = clients.map((client) => new S3Blobs({ client, bucket, prefix, ...options })) as [
    S3Blobs,
    S3Blobs,
  ]
  t.after(async () => {
    for (const each of [blobs, direct]) await each.close()
    for (const client of clients) client.destroy()
    await front.close()
  })
  return { front, blobs, direct, prefix }
}

async function* pieces(count: number, bytes = MIB): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) yield Buffer.alloc(bytes, at)
}

/** Reads all of a blob of `pieces`. Returns how many bytes it has, and fails if one is another. */
async function check(content: AsyncIterable<Uint8Array>): Promise<number> {
  let at = 0
  for await (const chunk of content) {
    for (const byte of chunk)
      if (byte !== Math.floor(at++ / MIB)) assert.fail(`Byte ${String(at - 1)} is ${String(byte)}`)
  }
  return at
}

describe('S3Blobs: uploads', () => {
  for (const [what, operation, count] of [['content', 'put', 1], ['a part', 'part', 9]] as const) {
    test(`a signal stops a put of ${what} that the server does not read`, async (t) => {
      const { front, blobs, prefix } = await open(t)
      const stalled = deferred<S3Request>()
      front.handle = (request) => request.operation === operation ? stalled.resolve(request) : request.forward()
      const stop = new AbortController()
      const written = blobs.put('key', pieces(count), { ...LATER, signal: stop.signal })
      written.catch(() => undefined)
      const { req } = await within(stalled.promise)
      const closed = new Promise((resolve) => { req.socket.once('close', resolve) })
      stop.abort(new Error('enough'))
      await assert.rejects(within(written), /enough/)
      req.resume()
      await within(closed)
      await eventually(() => front.count(operation === 'part' ? 'abort' : 'delete') === 1)
      assert.deepEqual(await namesBelow(prefix), [])
    })
  }

  test('a put whose content the server never reads rejects in the end, without a signal', async (t) => {
    const { front, blobs } = await open(t, { timeoutMs: 1000 })
    front.handle = () => undefined
    await assert.rejects(within(blobs.put('key', pieces(1, 1000), LATER), 30_000), isStoreUnavailable)
  })

  test('an aborted put does not wait for an upload that the server cannot abort', async (t) => {
    const { front, blobs } = await open(t, { timeoutMs: 60_000 })
    const stalled = deferred()
    front.handle = async (request) => {
      if (request.operation === 'part') stalled.resolve()
      if (request.operation !== 'part' && request.operation !== 'abort') await request.forward()
    }
    const stop = new AbortController()
    const written = blobs.put('key', pieces(9), { ...LATER, signal: stop.signal })
    written.catch(() => undefined)
    await within(stalled.promise)
    stop.abort(new Error('enough'))
    await assert.rejects(within(written), /enough/)
  })

  test('an object that the server completed after the abort of its request is deleted', async (t) => {
    const { front, blobs, prefix } = await open(t)
    const stop = new AbortController()
    front.handle = async ({ operation, forward, res }) => {
      // The response does not arrive.
      if (operation === 'put') {
        Object.assign(res, { writeHead: () => stop.abort(new Error('enough')), write: () => true, end: () => res })
      }
      await forward()
    }
    await assert.rejects(blobs.put('key', pieces(1), { ...LATER, signal: stop.signal }), /enough/)
    await eventually(async () => front.count('delete') === 1 && (await namesBelow(prefix)).length === 0)
  })

  test('the completion of a multipart upload may take longer than other requests', async (t) => {
    const { front, blobs, direct } = await open(t, { timeoutMs: 1000 })
    front.handle = async (request) => {
      if (request.operation === 'complete') await pause(2000)
      await request.forward()
    }
    const info = await blobs.put('key', pieces(9), LATER)
    assert.equal(front.count('complete'), 1)
    assert.deepEqual(await direct.stat('key'), info)
  })

  test('a completion of a multipart upload that fails after the response began is a failure', async (t) => {
    const { front, blobs, direct } = await open(t)
    front.handle = async (request) => {
      if (request.operation !== 'complete') {
        await request.forward()
        return
      }
      request.res.writeHead(200, { 'content-type': 'application/xml' })
      request.res.write('<?xml version="1.0" encoding="UTF-8"?>\n  \n')
      request.res.end('<Error><Code>InternalError</Code><Message>We have an internal error</Message></Error>')
    }
    await assert.rejects(
      blobs.put('key', pieces(9), LATER),
      (error) => isStoreUnavailable(error) && /InternalError/.test(error.message),
    )
    assert.equal(await direct.stat('key'), undefined)
    await eventually(() => front.count('abort') === 1)
  })

  test('a multipart upload names its checksums, as Amazon requires from a client with default options', async (t) => {
    const { front, blobs, prefix } = await open(t)
    let algorithm: unknown
    const sums: string[] = []
    let completed = ''
    front.handle = async ({ operation, req, res, forward }) => {
      if (operation === 'begin') algorithm = req.headers['x-amz-checksum-algorithm']
      if (operation === 'complete') req.on('data', (data) => { completed += String(data) })
      const sum = req.headers['x-amz-checksum-crc32']
      if (operation !== 'part' || typeof sum !== 'string') {
        await forward()
      } else if (algorithm !== 'CRC32') {
        s3Error(
          res,
          400,
          'InvalidRequest',
          'Checksum Type mismatch occurred, expected checksum Type: null, actual checksum Type: crc32',
        )
      } else {
        sums.push(sum)
        await forward({ headers: { 'x-amz-checksum-crc32': sum } })
      }
    }
    await blobs.put('key', pieces(9), LATER)
    assert.equal(sums.length, 2)
    assert.deepEqual([...completed.matchAll(/<ChecksumCRC32>(.*?)</g)].map(([, sum]) => sum), sums)
    assert.equal(await check(await blobs.open('key') ?? assert.fail()), 9 * MIB)
    assert.equal(await blobs.delete('key'), true)
    await age(prefix, 3_600_000)
    await blobs.sweep()
    assert.deepEqual(await namesBelow(prefix), [])
  })

  test('a source that fails aborts its multipart upload', async (t) => {
    const { front, blobs } = await open(t)
    const failing = async function* () {
      yield* pieces(9)
      throw new Error('The source has failed')
    }
    await assert.rejects(blobs.put('key', failing(), LATER), /The source has failed/)
    await eventually(() => front.count('abort') === 1)
  })

  test('a put is retried on a server that is busy, or that has waited too long', async (t) => {
    const { front, blobs } = await open(t)
    const failures = [[503, 'SlowDown'], [400, 'RequestTimeout']] as const
    let next = 0
    front.handle = async ({ operation, res, forward }) => {
      const [status, code] = (operation === 'put' && failures[next++]) || []
      if (status === undefined) await forward()
      else s3Error(res, status, code ?? '')
    }
    await blobs.put('key', pieces(1), LATER)
    assert.equal(await check(await blobs.open('key') ?? assert.fail()), MIB)
  })
})

describe('S3Blobs: reads', () => {
  test('a slow server keeps its connection while bytes arrive', async (t) => {
    const { front, blobs } = await open(t, { timeoutMs: 1000 })
    await blobs.put('key', pieces(1), LATER)
    front.handle = ({ operation, forward }) =>
      forward(operation === 'get' ? { before: () => pause(100).then(() => true) } : {})
    assert.equal(await check(await blobs.open('key') ?? assert.fail()), MIB)
    assert.equal(front.count('get'), 1)
  })

  test('a reader requests the remaining bytes from a server that stops in the middle', async (t) => {
    const { front, blobs } = await open(t, { timeoutMs: 2000 })
    await blobs.put('key', pieces(3), LATER)
    const ranges: unknown[] = []
    front.handle = ({ operation, req, forward }) => {
      if (operation !== 'get') return forward()
      ranges.push(req.headers.range)
      return forward({ before: (sent) => ranges.length > 1 || sent < 131_072 })
    }
    assert.equal(await check(await blobs.open('key') ?? assert.fail()), 3 * MIB)
    assert.match(String(ranges[1]), /^bytes=131072-/)
  })

  test('a server that sends nothing makes the reader fail', async (t) => {
    const { front, blobs } = await open(t, { timeoutMs: 2000 })
    await blobs.put('key', pieces(1), LATER)
    front.handle = ({ operation, forward }) => operation === 'get' ? undefined : forward()
    await assert.rejects(within(check(await blobs.open('key') ?? assert.fail()), 30_000), isStoreUnavailable)
  })

  test('a slow reader uses no connection, and all requests of a reader use one connection', async (t) => {
    const { front, blobs } = await open(t)
    await blobs.put('key', pieces(20), LATER)
    const { opened } = front
    let underWay = 0
    front.handle = async ({ forward }) => {
      underWay++
      await forward()
      underWay--
    }
    const reader = (await blobs.open('key') ?? assert.fail())[Symbol.asyncIterator]()
    const first = await reader.next()
    assert.ok(first.done !== true)
    await eventually(() => underWay === 0)
    const rest = { [Symbol.asyncIterator]: () => ({ next: () => reader.next() }) }
    let size = first.value.length
    for await (const chunk of rest) size += chunk.length
    assert.equal(size, 20 * MIB)
    assert.equal(front.opened, opened)
  })

  test('a slow reader can read deleted content to its end, and new readers cannot', async (t) => {
    const { front, blobs, direct, prefix } = await open(t)
    let shiftMs = 0
    front.handle = ({ forward }) => forward({ headers: inFuture(shiftMs) })
    // The clock of the reader is that of the responses. Objects become older instead of time passing.
    const later = async (minutes: number): Promise<void> => {
      shiftMs += minutes * 60_000
      await age(prefix, minutes * 60_000)
      await direct.sweep()
    }
    await direct.put('key', pieces(20), LATER)
    const reader = (await blobs.open('key') ?? assert.fail())[Symbol.asyncIterator]()
    let size = 0
    const read = async (bytes: number): Promise<void> => {
      for (const end = size + bytes; size < end;) {
        const { value, done } = await reader.next()
        if (done === true) return
        size += (value).length
      }
    }
    await read(MIB)
    await direct.delete('key')
    for (let round = 0; round < 4; round++) {
      await later(9)
      await read(2 * MIB)
    }
    assert.ok((await namesBelow(prefix)).some((name) => name.endsWith('.hold')))
    await later(16)
    assert.deepEqual(await namesBelow(prefix), [])
    await assert.rejects(read(20 * MIB), /was removed before it was read/)
  })
})

describe('S3Blobs: errors', () => {
  test('an error names the bucket that does not exist, and the server is asked once', async (t) => {
    const { front, blobs } = await open(t, { bucket: 'another' })
    await assert.rejects(blobs.stat('key'), (error) => isStoreUnavailable(error) && /NoSuchBucket/.test(error.message))
    assert.equal(front.requests.length, 1)
  })
})
