import { randomBytes } from 'node:crypto'
import { ListObjectsV2Command } from '@aws-sdk/client-s3'
import { S3Blobs } from 'longhaul/s3'
import { openRedis } from '../../../servers/open-database.js'
import { redisUrl } from '../../../servers/redis-server.js'
import { s3ForFile } from '../../../servers/s3-server.js'
import { filesSuite } from './suite.js'

const url = await redisUrl()
const { client, bucket } = await s3ForFile()

filesSuite('Redis and S3', async () => {
  const name = randomBytes(6).toString('hex')
  const { parts: { engine, store }, close } = openRedis(url, { name })
  const blobs = new S3Blobs({ client, bucket, prefix: `${name}/` })
  return {
    parts: { engine, store, blobs },
    // Content that has ended stays for its readers.
    blobCount: async () => {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: `${name}/` }))
      const names = Contents.map(({ Key = '' }) => Key)
      return names.filter(
        (each) => !each.includes('.') && !names.some((name) => name.startsWith(each) && name.endsWith('.gone')),
      ).length
    },
    close: async () => {
      await blobs.close()
      await close()
    },
  }
})
