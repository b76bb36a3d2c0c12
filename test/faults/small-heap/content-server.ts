// A server of one large file with little memory, as a child process: it tells its port, and on each
// message how much it has used.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { content } from 'longhaul/content'
import { json, router } from 'longhaul'
import { fileSource } from 'longhaul/files'
import { attach } from 'longhaul/node'

const server = createServer()
attach(server, router({
  'GET /ping': () => json(200, {}),
  'GET|HEAD /file': content(fileSource(process.env['LONGHAUL_TEST_FILE'] as string)),
}))
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
process.on('message', () => {
  process.send?.({ maxRss: process.resourceUsage().maxRSS * 1024, rss: process.memoryUsage().rss })
})
process.on('disconnect', () => process.exit())
