import * as runner from 'node:test'
import { randomBytes } from 'node:crypto'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { blobsConformance } from 'longhaul/conformance'
import { S3Blobs } from 'longhaul/s3'
import { s3ForFile } from '../servers/s3-server.js'

const { client, bucket } = await s3ForFile()

blobsConformance(runner, async () => {
  const prefix = `${randomBytes(6).toString('hex')}/`
  const blobs = new S3Blobs({ client, bucket, prefix, getSignedUrl })
  const second = new S3Blobs({ client, bucket, prefix, getSignedUrl })
  return {
    blobs, second,
    close: async () => {
      await blobs.close()
      await second.close()
    },
  }
}, { title: 'S3Blobs with signed URLs', toleranceMs: 2500 })
