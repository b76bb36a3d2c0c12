// Uploads in parts, to a server that requires parts of one size, as R2 does.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { S3Client } from '@aws-sdk/client-s3'
import { S3Blobs } from 'longhaul/s3'

const MIB = 1_048_576

interface Sent {
  readonly method: string
  readonly query: Readonly<Record<string, string>>
  readonly body?: Uint8Array
}

/** Answers as the server would. Keeps the size of each part, and no byte. */
class ManyParts {
  readonly sizes: number[] = []

  async handle({ method, query, body }: Sent) {
    if (query['partNumber'] !== undefined) {
      this.sizes.push(body?.byteLength ?? 0)
      return respond(200, '')
    }
    if (method === 'POST' && query['uploads'] !== undefined) {
      return respond(200, '<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>')
    }
    if (method === 'POST') {
      const others = new Set(this.sizes.slice(0, -1))
      return others.size > 1 || (this.sizes.at(-1) ?? 0) > (this.sizes[0] ?? 0)
        ? respond(
          400,
          '<Error><Code>InvalidPart</Code><Message>All non-trailing parts must have the same length.</Message></Error>',
        )
        : respond(200, '<CompleteMultipartUploadResult><ETag>"1"</ETag></CompleteMultipartUploadResult>')
    }
    return respond(method === 'DELETE' ? 204 : 200, method === 'GET' ? '<ListBucketResult></ListBucketResult>' : '')
  }
}

function respond(statusCode: number, text: string) {
  const headers = { date: new Date().toUTCString(), etag: '"1"', 'content-type': 'application/xml' }
  return { response: { statusCode, headers, body: Readable.from([Buffer.from(text)]) } }
}

function open(partBytes?: number) {
  const server = new ManyParts()
  const client = new S3Client({
    region: 'auto', credentials: { accessKeyId: 'a', secretAccessKey: 'b' }, maxAttempts: 1,
    requestHandler: server as never, requestChecksumCalculation: 'WHEN_REQUIRED',
    // Hashing the content would take most of the time.
    signer: { sign: async (request: unknown) => request } as never,
  })
  const blobs = new S3Blobs({ client, bucket: 'bucket', ...partBytes !== undefined && { partBytes } })
  return { server, blobs }
}

async function* chunks(count: number, chunk: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) yield chunk
}

/** A client that responds at once, because the SDK takes minutes for so many parts. */
function openFast() {
  const sizes: number[] = []
  const send = async (command: { constructor: { name: string }, input: { Body?: Uint8Array } }) => {
    const { name } = command.constructor
    if (name === 'UploadPartCommand') sizes.push(command.input.Body?.byteLength ?? 0)
    return { ETag: '"1"', UploadId: '1' }
  }
  const config = { requestChecksumCalculation: async () => 'WHEN_REQUIRED' }
  const blobs = new S3Blobs({ client: { send, config } as never, bucket: 'bucket', partBytes: 5 * MIB })
  return { sizes, blobs }
}

test('a blob of 1,002 parts has parts of one size, and a smaller last one', async (t) => {
  const { sizes, blobs } = openFast()
  t.after(() => blobs.close())
  const content = async function* () {
    yield* chunks(1001, Buffer.alloc(5 * MIB))
    yield Buffer.alloc(5)
  }
  await blobs.put('key', content(), { ttlMs: 60_000 })
  assert.deepEqual(new Set(sizes.slice(0, -1)), new Set([5 * MIB]))
  assert.deepEqual([sizes.length, sizes.at(-1)], [1002, 5])
})

test('partBytes sets the size of the parts', async (t) => {
  const { server, blobs } = open(5 * MIB)
  t.after(() => blobs.close())
  await blobs.put('key', chunks(3, Buffer.alloc(4 * MIB)), { ttlMs: 60_000 })
  assert.deepEqual(server.sizes, [5 * MIB, 5 * MIB, 2 * MIB])
})
