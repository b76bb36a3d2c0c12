// Object storage whose writers die, whose server hangs or stops, and whose blobs are larger than one part.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createServer } from 'node:net'
import { describe, test } from 'node:test'
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { S3Blobs } from 'longhaul/s3'
import { isStoreUnavailable } from 'longhaul/stores'
import { listen } from '../../kit/listen.js'
import { s3ForFile } from '../../servers/s3-server.js'

const { client, bucket, age, namesBelow } = await s3ForFile()
const MIB = 1_048_576
const LATER = { ttlMs: 600_000 }

async function* pieces(count: number, fails = Infinity): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) {
    if (at === fails) throw new Error('The source has failed')
    yield Buffer.alloc(MIB, at)
  }
}

describe('S3Blobs', () => {
  test('a blob of several parts has all its bytes, and a range of it has the right bytes', async () => {
    const blobs = new S3Blobs({ client, bucket, prefix: 'parts/' })
    const { size } = await blobs.put('large', pieces(21), LATER)
    assert.equal(size, 21 * MIB)
    const [expected, hash] = [createHash('sha256'), createHash('sha256')]
    for await (const piece of pieces(21)) expected.update(piece)
    for await (const chunk of await blobs.open('large') ?? assert.fail()) hash.update(chunk)
    assert.equal(hash.digest('hex'), expected.digest('hex'))
    let read = ''
    for await (const chunk of (await blobs.open('large', { start: 9 * MIB - 1, end: 9 * MIB + 2 })) ?? [])
      read += Buffer.from(chunk).toString('hex')
    assert.equal(read, '080909')
    await blobs.close()
  })

  test('a source that fails leaves neither an object nor parts', async () => {
    const blobs = new S3Blobs({ client, bucket, prefix: 'failed/' })
    await assert.rejects(blobs.put('key', pieces(20, 18), LATER), /The source has failed/)
    assert.deepEqual(await namesBelow('failed/'), [])
    await blobs.close()
  })

  test('a sweep keeps blobs that have not expired, and blobs that were just completed', async () => {
    const blobs = new S3Blobs({ client, bucket, prefix: 'sweep/' })
    await blobs.put('long', pieces(1), LATER)
    await blobs.put('short', pieces(1), { ttlMs: 1 })
    await blobs.sweep()
    assert.ok(await blobs.stat('long'))
    // An expired blob stays for 15 minutes.
    assert.equal((await namesBelow('sweep/')).length, 4)
    assert.equal(await blobs.delete('long'), true)
    assert.equal(await blobs.stat('long'), undefined)
    await blobs.sweep()
    // Its readers have 15 minutes, too.
    assert.equal((await namesBelow('sweep/')).length, 5)
    await blobs.close()
  })

  test('a sweep removes content 15 minutes after its expiry, and parts of dead writers after a day', async () => {
    const prefix = `old-${String(process.pid)}/`
    const blobs = new S3Blobs({ client, bucket, prefix })
    await blobs.put('lives', pieces(1), { ttlMs: 7_200_000 })
    await blobs.put('expired', pieces(1), { ttlMs: 1 })
    await blobs.put('deleted', pieces(1), LATER)
    await blobs.delete('deleted')
    const left = `${prefix}${'a'.repeat(64)}/${'b'.repeat(32)}`
    await client.send(new PutObjectCommand({ Bucket: bucket, Key: left, Body: 'left' }))
    const [content = ''] = (await namesBelow(prefix)).filter((name) => !name.includes('.'))
    await age(prefix, 3_600_000)
    await blobs.sweep()
    assert.ok(await blobs.stat('lives'))
    assert.equal((await namesBelow(prefix)).length, 3, 'the blob, its mark, and what was left an hour ago')
    assert.ok(content)
    await age(left, 86_400_000)
    await blobs.sweep()
    assert.equal((await namesBelow(prefix)).length, 2)
    await blobs.close()
  })

  test('concurrent renewals keep the longest lifetime', async () => {
    const blobs = new S3Blobs({ client, bucket, prefix: 'renewed/' })
    await blobs.put('key', pieces(1), { ttlMs: 60_000 })
    for (let round = 0; round < 5; round++) {
      await Promise.all([blobs.renew('key', 700_000), blobs.renew('key', 1_400_000)])
      assert.ok((await namesBelow('renewed/')).some((name) => name.endsWith('.1400000')))
    }
    await blobs.close()
  })

  test('a sweep leaves objects outside its prefix alone, even if it has no prefix', async () => {
    const foreign = ['photos/cat', 'readme.txt', `${'a'.repeat(64)}.txt`, `deep/${'a'.repeat(64)}/${'b'.repeat(32)}`]
    for (const Key of foreign) await client.send(new PutObjectCommand({ Bucket: bucket, Key, Body: 'theirs' }))
    for (const name of foreign) await age(name, 2 * 86_400_000)
    const inner = new S3Blobs({ client, bucket, prefix: 'renewed/' })
    const blobs = new S3Blobs({ client, bucket, prefix: '' })
    await blobs.sweep()
    const left = await namesBelow('')
    assert.deepEqual(foreign.filter((name) => !left.includes(name)), [])
    assert.ok(await inner.stat('key'))
    await blobs.close()
    await inner.close()
  })

  test('a call rejects within its time limit if the server is away or hangs', async (t) => {
    const silent = createServer()
    const { url, close } = await listen(silent)
    t.after(() => { void close() })
    for (const endpoint of [url, 'http://127.0.0.1:1']) {
      const away = new S3Client({
        endpoint, region: 'us-east-1', forcePathStyle: true, credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
      })
      const blobs = new S3Blobs({ client: away, bucket, timeoutMs: 500 })
      await assert.rejects(blobs.stat('key'), isStoreUnavailable)
      await assert.rejects(blobs.delete('key'), isStoreUnavailable)
      await blobs.close()
      away.destroy()
    }
  })

  test('invalid options are rejected', () => {
    assert.throws(() => new S3Blobs({ bucket } as never), /client/)
    assert.throws(() => new S3Blobs({ client, bucket, region: 'x' } as never), /there is no option "region"/)
  })
})
