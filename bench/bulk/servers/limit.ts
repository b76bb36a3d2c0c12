// JSON.parse, a loop of checks written for this shape, and a report joined by hand.
import { createServer } from 'node:http'
import { subject } from '../../frame/subject.js'
import { handChecked, insertAll, type Draft } from '../users.js'

subject(createServer((req, res) => {
  const pieces: Buffer[] = []
  req.on('data', (piece: Buffer) => pieces.push(piece))
  req.on('end', () => {
    const items = JSON.parse(Buffer.concat(pieces).toString()) as unknown[]
    const good: Draft[] = []
    for (const item of items) {
      const user = handChecked(item)
      if (user === undefined) {
        res.writeHead(400).end()
        return
      }
      good.push(user)
    }
    const users = insertAll(good)
    const texts = req.url?.endsWith('?only=failed') === true ? [] : users.map(({ id }, index) => `{"index":${index},"status":201,"id":"${id}"}`)
    const body = `{"summary":{"total":${items.length},"succeeded":${users.length},"failed":0},"items":[${texts.join(',')}]}`
    res.writeHead(201, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body)
  })
}))
