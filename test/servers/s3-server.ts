import { mkdtempSync, rmSync } from 'node:fs'
import { readdir, stat, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import S3rver from 's3rver'
import { releaseLast } from '../../scripts/test-releases.mjs'

const BUCKET = 'blobs'

/** Starts a server of the protocol of S3 for the tests of a file. */
export async function s3ForFile() {
  const directory = mkdtempSync(join(tmpdir(), 'longhaul-s3-'))
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    directory,
    configureBuckets: [{ name: BUCKET, configs: [] }],
  })
  const { port } = await server.run()
  const client = s3Client(`http://127.0.0.1:${String(port)}`)
  releaseLast(async () => {
    client.destroy()
    await server.close()
    rmSync(directory, { recursive: true, force: true })
  })
  return {
    client, bucket: BUCKET, port,
    /** Makes the objects below a name older. */
    async age(name: string, ms: number): Promise<void> {
      const all = await readdir(join(directory, BUCKET), { recursive: true, withFileTypes: true })
      for (const entry of all) {
        const path = join(entry.parentPath, entry.name)
        if (!entry.isFile() || !path.startsWith(join(directory, BUCKET, name))) continue
        const { mtimeMs } = await stat(path)
        await utimes(path, new Date(mtimeMs - ms), new Date(mtimeMs - ms))
      }
    },
    async namesBelow(prefix: string): Promise<readonly string[]> {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: BUCKET, Prefix: prefix }))
      return Contents.map(({ Key = '' }) => Key)
    },
  }
}

/** Returns a client for a server of the tests. The test destroys it. */
export function s3Client(endpoint: string): S3Client {
  return new S3Client({
    endpoint, region: 'us-east-1', forcePathStyle: true,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
  })
}
