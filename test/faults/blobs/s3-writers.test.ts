// Object storage with writers at the same time, with content in tiny chunks, and with lifetimes of any length.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { S3Blobs } from 'longhaul/s3'
import { deferred, within } from '../../kit/wait.js'
import { S3Front } from '../../servers/s3-front.js'
import { s3Client, s3ForFile } from '../../servers/s3-server.js'

const { client, bucket, port, namesBelow } = await s3ForFile()
const LATER = { ttlMs: 600_000 }

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

async function* text(content: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(content)
}

describe('S3Blobs: concurrent writers', () => {
  test('a put that completes after another put has resolved wins, even if it began earlier', async (t) => {
    const front = await S3Front.to(port)
    const slowClient = s3Client(front.url)
    const slow = new S3Blobs({ client: slowClient, bucket, prefix: 'order/' })
    const quick = new S3Blobs({ client, bucket, prefix: 'order/' })
    t.after(async () => {
      await slow.close()
      await quick.close()
      slowClient.destroy()
      await front.close()
    })
    // The old order was by chance within a second.
    for (let round = 0; round < 6; round++) {
      const key = `key-${String(round)}`
      const marks = deferred()
      const go = deferred()
      front.handle = async ({ operation, name, forward }) => {
        if (operation === 'put' && name.includes('.')) {
          marks.resolve()
          await go.promise
        }
        await forward()
      }
      const written = slow.put(key, text('slow'), LATER)
      await within(marks.promise)
      await quick.put(key, text('quick'), LATER)
      go.resolve()
      const info = await written
      assert.deepEqual(await quick.stat(key), info)
    }
  })

  test('one of many concurrent puts wins, and all processes read its content', async (t) => {
    const clients = [s3Client(`http://127.0.0.1:${String(port)}`), s3Client(`http://127.0.0.1:${String(port)}`)]
    const both = clients.map((each) => new S3Blobs({ client: each, bucket, prefix: 'many/' }))
    t.after(async () => {
      for (const blobs of both) await blobs.close()
      for (const each of clients) each.destroy()
    })
    for (let round = 0; round < 3; round++) {
      const key = `key-${String(round)}`
      const written = await Promise.all(
        Array.from({ length: 5 }, (_, n) => (both[n % 2] as S3Blobs).put(key, text(String(n)), LATER)),
      )
      const [one, other] = await Promise.all(both.map((blobs) => blobs.stat(key)))
      assert.ok(written.some(({ etag }) => etag === one?.etag))
      assert.deepEqual(one, other)
      await both[0]?.delete(key)
      assert.equal(await both[1]?.stat(key), undefined)
    }
  })
})

test('a put of content in chunks of one byte takes little memory', async () => {
  const blobs = new S3Blobs({ client, bucket, prefix: 'bytes/' })
  const held = (): number => {
    gc()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  let grown = Infinity
  const content = async function* (): AsyncGenerator<Uint8Array> {
    const before = held()
    for (let at = 0; at < 300_000; at++) yield Buffer.of(at)
    grown = held() - before
  }
  assert.equal((await blobs.put('key', content(), LATER)).size, 300_000)
  assert.ok(grown < 5_000_000, `${String(grown)} bytes`)
  await blobs.close()
})

test('a chunk larger than a part is uploaded in parts', async (t) => {
  const front = await S3Front.to(port)
  const large = s3Client(front.url)
  const blobs = new S3Blobs({ client: large, bucket, prefix: 'chunk/' })
  t.after(async () => {
    await blobs.close()
    large.destroy()
    await front.close()
  })
  const chunk = Buffer.alloc(20 * 1_048_576, 7)
  await blobs.put('key', (async function* () { yield chunk })(), LATER)
  assert.equal(front.count('part'), 3)
  let size = 0
  for await (const each of await blobs.open('key') ?? assert.fail()) size += each.length
  assert.equal(size, chunk.length)
})

test('a lifetime of any length is kept', async () => {
  const blobs = new S3Blobs({ client, bucket, prefix: 'lifetime/' })
  for (const ttlMs of [1.5e21, Number.MAX_VALUE]) {
    await blobs.put('key', text('long'), { ttlMs })
    await blobs.renew('key', ttlMs)
    for (const name of await namesBelow('lifetime/')) assert.match(name, /^[\w./]+$/)
  }
  assert.ok((await namesBelow('lifetime/')).some((name) => name.endsWith('.3155760000000')))
  assert.ok(await blobs.stat('key'))
  await blobs.close()
})
