import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { S3Client } from '@aws-sdk/client-s3'
import S3rver from 's3rver'

const BUCKET = 'blobs'

/** Starts a server of the protocol of S3 for the tests of a file. */
export async function s3ForFile() {
  const directory = mkdtempSync(join(tmpdir(), 'longhaul-s3-'))
  const server = new S3rver({ port: 0, address: '127.0.0.1', silent: true, directory, configureBuckets: [{ name: BUCKET, configs: [] }] })
  const { port } = await server.run()
  const client = new S3Client({
    endpoint: `http://127.0.0.1:${String(port)}`, region: 'us-east-1', forcePathStyle: true,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    // The server does not know the checksums that newer versions of the client add.
    requestChecksumCalculation: 'WHEN_REQUIRED', responseChecksumValidation: 'WHEN_REQUIRED',
  })
  after(async () => {
    client.destroy()
    await server.close()
    rmSync(directory, { recursive: true, force: true })
  })
  return { client, bucket: BUCKET, directory }
}
