// Sweeps of object storage that cannot delete everything, take long, or find more uploads than a page has.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { PutObjectCommand } from '@aws-sdk/client-s3'
import { S3Blobs } from 'longhaul/s3'
import { isStoreUnavailable } from 'longhaul/stores'
import { inFuture, S3Front, s3Error } from '../../servers/s3-front.js'
import { s3Client, s3ForFile } from '../../servers/s3-server.js'

const { client, bucket, port, age, namesBelow } = await s3ForFile()
const HOUR = 3_600_000
const DAY = 24 * HOUR

async function* text(content: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(content)
}

async function open(t: TestContext, prefix: string) {
  const front = await S3Front.to(port)
  const through = s3Client(front.url)
  const [blobs, direct] = [through, client].map((each) => new S3Blobs({ client: each, bucket, prefix })) as [
    S3Blobs,
    S3Blobs,
  ]
  t.after(async () => {
    await blobs.close()
    await direct.close()
    through.destroy()
    await front.close()
  })
  return { front, blobs, direct }
}

describe('S3Blobs: sweeps', () => {
  test('an object that cannot be deleted does not stop the deletion of others, and no call finds it', async (t) => {
    const { front, blobs, direct } = await open(t, 'locked/')
    for (const key of ['a', 'b', 'c', 'd']) {
      await direct.put(key, text(key), { ttlMs: DAY })
      await direct.delete(key)
    }
    await age('locked/', HOUR)
    const [locked = ''] = (await namesBelow('locked/')).filter((name) => !name.includes('.'))
    front.handle = async ({ operation, name, res, forward }) => {
      if (operation === 'delete' && name === locked) s3Error(res, 403, 'AccessDenied')
      else await forward()
    }
    await assert.rejects(blobs.sweep(), (error) => isStoreUnavailable(error) && /AccessDenied/.test(error.message))
    const left = await namesBelow('locked/')
    assert.deepEqual(
      left.map((name) => name.startsWith(locked)),
      [true, true, true],
    )
    for (const key of ['a', 'b', 'c', 'd']) assert.equal(await direct.stat(key), undefined)
    await direct.sweep()
    assert.deepEqual(await namesBelow('locked/'), [])
  })

  test('a blob that is renewed during a long sweep is kept', async (t) => {
    const { front, blobs, direct } = await open(t, 'long/')
    // The first object of the list, which the sweep deletes.
    await client.send(
      new PutObjectCommand({ Bucket: bucket, Key: `long/${'0'.repeat(64)}/${'0'.repeat(32)}`, Body: 'left' }),
    )
    await age('long/', 2 * DAY)
    const info = await direct.put('key', text('short'), { ttlMs: 60_000 })
    front.handle = async ({ operation, forward }) => {
      if (operation !== 'delete') return forward()
      // After the sweep has listed the objects.
      await direct.renew('key', HOUR)
      await forward({ headers: inFuture(HOUR / 2) })
    }
    await blobs.sweep()
    assert.deepEqual(await direct.stat('key'), info)
    let read = ''
    for await (const chunk of await direct.open('key') ?? assert.fail()) read += Buffer.from(chunk).toString()
    assert.equal(read, 'short')
    assert.ok(front.count('delete') > 0)
  })

  test('a sweep aborts multipart uploads that dead writers left, on all pages, but none of other prefixes', async (t) => {
    const { front, blobs, direct } = await open(t, 'uploads/')
    await direct.put('key', text('any'), { ttlMs: HOUR })
    const name = (n: number): string => `uploads/${'a'.repeat(64)}/${String(n).padStart(32, '0')}`
    const upload = (key: string, ms: number): string =>
      `<Upload><Key>${key}</Key><UploadId>id</UploadId><Initiated>${new Date(Date.now() - ms).toISOString()}</Initiated></Upload>`
    const aborted: string[] = []
    front.handle = async (request) => {
      if (request.operation === 'abort') {
        aborted.push(request.name)
        // The first one cannot be aborted.
        if (request.name === name(0)) s3Error(request.res, 403, 'AccessDenied')
        else request.res.writeHead(204).end()
        return
      }
      if (request.operation !== 'uploads') {
        await request.forward()
        return
      }
      const second = request.req.url?.includes('key-marker=next') === true
      request.res.writeHead(200, { 'content-type': 'application/xml' })
      request.res.end(
        `<?xml version="1.0" encoding="UTF-8"?><ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${
          second
            ? `<IsTruncated>false</IsTruncated>${upload(name(2), 2 * DAY)}${upload(name(3), HOUR)}`
            : `<IsTruncated>true</IsTruncated><NextKeyMarker>next</NextKeyMarker><NextUploadIdMarker>id</NextUploadIdMarker>${upload(
                name(0),
                2 * DAY,
              )}${upload(name(1), 2 * DAY)}${upload('uploads/photo', 2 * DAY)}`
        }</ListMultipartUploadsResult>`,
      )
    }
    await assert.rejects(blobs.sweep(), /AccessDenied/)
    assert.deepEqual(aborted, [name(0), name(1), name(2)])
  })
})
