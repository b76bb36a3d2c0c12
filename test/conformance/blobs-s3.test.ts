import * as runner from 'node:test'
import { randomBytes } from 'node:crypto'
import { blobsConformance } from 'longhaul/conformance'
import { S3Blobs } from 'longhaul/s3'
import { s3ForFile } from '../servers/s3-server.js'

const { client, bucket } = await s3ForFile()

blobsConformance(runner, async () => {
  const prefix = `${randomBytes(6).toString('hex')}/`
  const blobs = new S3Blobs({ client, bucket, prefix })
  const second = new S3Blobs({ client, bucket, prefix })
  return {
    blobs, second,
    close: async () => {
      await blobs.close()
      await second.close()
    },
  }
}, { title: 'S3Blobs', toleranceMs: 2500 })
