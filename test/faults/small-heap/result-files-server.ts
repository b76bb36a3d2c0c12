// A server with little memory whose task writes a large file, as a child process: it tells its
// port, and on each message how much memory it has used.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { exportTask } from 'longhaul/export'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { attach } from 'longhaul/node'

const { engine, store } = memory()
const blobs = new FolderBlobs(process.env['LONGHAUL_TEST_FOLDER'] as string)

/** Each MiB has bytes of its own, so that no place can be taken for another. */
function* pieces(mebibytes: number): Generator<Uint8Array> {
  for (let at = 0; at < mebibytes; at++) {
    const piece = Buffer.alloc(1 << 20, `${at}-`)
    yield piece
  }
}

function* users(count: number): Generator<object> {
  for (let id = 0; id < count; id++) yield { id, name: `User ${id}`, email: `user${id}@example.com` }
}

const large = defineTask({
  name: 'large', files: true, timeoutMs: 3_600_000,
  run: async ({ mebibytes }: { mebibytes: number }, { files }) => {
    await files.write('large.bin', pieces(mebibytes))
  },
})
const exported = exportTask({
  name: 'users', format: 'csv', timeoutMs: 3_600_000,
  records: ({ count }: { count: number }) => users(count),
})
const tasks = createTasks({ engine, store, blobs, definitions: [large, exported] })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const server = createServer()
attach(server, router({
  'POST /large': endpoints.submit(large),
  'POST /users': endpoints.submit(exported),
  'GET /tasks/{id}': endpoints.status,
  'GET|HEAD /tasks/{id}/files/{name}': endpoints.files,
}))
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
process.on('message', () => {
  process.send?.({ maxRss: process.resourceUsage().maxRSS * 1024, rss: process.memoryUsage().rss })
})
process.on('disconnect', () => process.exit())
