// The same as raw.ts, with the header fields that longhaul sends. They are constant.
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { subject } from '../../frame/subject.js'

const redis = new Redis(process.env['REDIS_URL'] ?? '', { enableAutoPipelining: true })
const value = 'x'.repeat(400)
const SUNSET = new Date(Date.now() + 86_400_000).toUTCString()

subject(createServer((req, res) => {
  if (req.method === 'GET') {
    redis.get(req.url?.slice('/tasks/'.length) ?? '').then((text) => {
      res.writeHead(200, [
        'etag', `"${Date.now()}-1"`, 'cache-control', 'private, no-cache', 'vary', 'Prefer, Accept, Authorization', 'sunset', SUNSET, 'retry-after', '1',
        'content-type', 'application/json', 'content-length', String(Buffer.byteLength(text ?? '')),
      ]).end(text)
    }, () => { res.writeHead(503).end() })
    return
  }
  req.on('data', () => undefined)
  req.on('end', () => {
    const id = randomBytes(16).toString('base64url')
    const location = `/tasks/${id}`
    redis.set(id, value, 'PX', 86_400_000).then(() => {
      const body = `{"taskId":"${id}","status":"processing","message":"Accepted.","createdAt":"${new Date().toISOString()}"}`
      res.writeHead(202, [
        'content-type', 'application/json', 'location', location, 'content-location', location, 'vary', 'Prefer', 'retry-after', '1',
        'preference-applied', 'respond-async', 'content-length', String(body.length),
      ]).end(body)
    }, () => { res.writeHead(503).end() })
  })
}))
