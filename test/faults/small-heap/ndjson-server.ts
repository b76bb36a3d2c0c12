// A server with little memory, as a child process: it tells its port, and on each message how much it has used.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { json, router } from 'longhaul'
import { ndjsonDownload, ndjsonUpload } from 'longhaul/ndjson'
import { attach } from 'longhaul/node'

const RECORD = { name: 'Somebody', email: 'somebody@example.com', tags: ['a', 'b'], active: true }

function* records(bytes: number): Generator<object> {
  for (let id = 0, sent = 0; sent < bytes; id++, sent += 100) yield { id, ...RECORD }
}

async function* slowRecords(bytes: number): AsyncGenerator<object[]> {
  const all = records(bytes)
  for (;;) {
    const batch: object[] = []
    for (let step = all.next(); step.done !== true; step = all.next()) if (batch.push(step.value) === 500) break
    if (batch.length === 0) return
    await sleep(0)
    yield batch
  }
}

let batches = 0
const server = createServer({ requestTimeout: 0 })
attach(server, router({
  'GET /ping': () => json(200, {}),
  'POST /upload': ndjsonUpload({
    maxLineBytes: 16 << 20,
    write: async () => { if (++batches % 50 === 0) await sleep(1) },
  }),
  'GET /sync': ndjsonDownload({ records: ({ query }) => records(Number(query.get('bytes'))) }),
  'GET /async': ndjsonDownload({ records: ({ query }) => slowRecords(Number(query.get('bytes'))) }),
}))
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
process.on('message', () => {
  process.send?.({ maxRss: process.resourceUsage().maxRSS * 1024, rss: process.memoryUsage().rss })
})
process.on('disconnect', () => process.exit())
