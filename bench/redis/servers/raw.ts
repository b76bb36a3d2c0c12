// The limit: node:http with one raw, auto-pipelined command of ioredis for each request.
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { subject } from '../../frame/subject.js'

const redis = new Redis(process.env['REDIS_URL'] ?? '', { enableAutoPipelining: true })
const value = 'x'.repeat(400)
let last = ''

subject(createServer((req, res) => {
  if (req.method === 'GET') {
    redis.get(req.url?.slice('/tasks/'.length) ?? '').then((text) => {
      res.writeHead(200, ['content-type', 'application/json', 'content-length', String(Buffer.byteLength(text ?? ''))]).end(text)
    }, () => { res.writeHead(503).end() })
    return
  }
  req.on('data', () => undefined)
  req.on('end', () => {
    const id = randomBytes(16).toString('base64url')
    last = `{"taskId":"${id}"}`
    redis.set(id, value, 'PX', 86_400_000).then(() => {
      res.writeHead(202, ['content-type', 'application/json', 'location', `/tasks/${id}`, 'content-length', String(last.length)]).end(last)
    }, () => { res.writeHead(503).end() })
  })
}))
