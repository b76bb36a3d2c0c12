// A server with tasks and blobs in one PostgreSQL, web and worker in one: node server.ts <url of the database>.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { toNode } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import { isStoreUnavailable } from 'longhaul/stores'
import pg from 'pg'

const pool = new pg.Pool({ connectionString: process.argv[2] })
const parts = postgres({ pool, leaseMs: 2000 })
const { blobs } = parts

const wait = defineTask({
  name: 'wait', attempts: 3, backoff: { type: 'fixed', delayMs: 200 },
  run: async (input: { ms: number }) => {
    await new Promise((resolve) => { setTimeout(resolve, input.ms) })
    return { message: 'done' }
  },
})
const tasks = createTasks({ ...parts, definitions: [wait], concurrency: 50 })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const handle = toNode(router({
  'POST /tasks': submit(wait, { respond: 'always' }), 'GET|HEAD|DELETE /tasks/{id}': status,
}))

/** `PUT` writes a blob from the body, `GET` reads it. */
async function serveBlob(key: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    if (request.method === 'PUT') {
      await blobs.put(key, request, { ttlMs: 600_000 })
      response.writeHead(204).end()
      return
    }
    const content = await blobs.open(key)
    if (content) await pipeline(content, response.writeHead(200))
    else response.writeHead(404).end()
  } catch (error) {
    if (!isStoreUnavailable(error)) console.error(error)
    if (response.headersSent) response.destroy()
    else
      response
        .writeHead(isStoreUnavailable(error) ? 503 : 500, { 'retry-after': '1', 'connection': 'close' })
        .end(
          JSON.stringify({
            code: isStoreUnavailable(error) && error.reason === 'full' ? 'store_full' : 'store_unavailable',
          }),
        )
  }
}

const server = createServer((request, response) => {
  const { url = '' } = request
  if (url.startsWith('/blobs/')) void serveBlob(url, request, response)
  else handle(request, response)
})
server.listen(0, '127.0.0.1', () => {
  console.log(`ready at http://127.0.0.1:${String((server.address() as AddressInfo).port)}`)
})
