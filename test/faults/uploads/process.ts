// A process that takes uploads: node process.ts <url of Redis or PostgreSQL> <folder>.
import { createHash } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { json, router, type Handler } from 'longhaul'
import { FolderBlobs } from 'longhaul/files'
import { toNode } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import { RedisStore } from '../../../adapters/redis/store.js'
import { resumableUpload } from 'longhaul/uploads'
import pg from 'pg'

const [, , url = '', folder = ''] = process.argv

const { store, blobs } = url.startsWith('redis:')
  ? {
    store: new RedisStore({ client: new Redis(url) }),
    blobs: new FolderBlobs(join(folder, 'blobs'), { shared: true }),
  }
  : postgres({ pool: new pg.Pool({ connectionString: url }) })

const digest: Handler = async ({ body }) => {
  appendFileSync(join(folder, 'runs'), 'run\n')
  const hash = createHash('sha256')
  for await (const chunk of body.stream()) hash.update(chunk)
  return json(200, { sha256: hash.digest('hex') })
}

const films = resumableUpload(digest, {
  store, blobs, owner: 'anyone', uploadPath: '/uploads/{id}', partBytes: 65_536,
})
const server = createServer(toNode(router({
  'POST|OPTIONS /films': films.create, 'GET|HEAD|PATCH|DELETE /uploads/{id}': films.resource,
})))
server.listen(0, '127.0.0.1', () => {
  console.log(`ready at http://127.0.0.1:${String((server.address() as AddressInfo).port)}`)
})
