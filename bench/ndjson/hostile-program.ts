// A server that measures its own event loop. `begin` resets it. `end` reports the maximum delay of timers, and the
// CPU time between two turns, which is the delay that the server itself causes.
import { mkdtemp } from 'node:fs/promises'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createTasks, defineTask, empty, router, taskEndpoints, type Handler, type TaskContext } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { ndjsonUpload } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'
import { resumableUpload } from 'longhaul/uploads'

const delay = monitorEventLoopDelay({ resolution: 1 })
let cpu = process.cpuUsage()
let last = cpu
let stretch = 0
let timer: NodeJS.Timeout | undefined

function look(): void {
  const { user, system } = process.cpuUsage(last)
  last = process.cpuUsage()
  stretch = Math.max(stretch, user + system)
}

const folder = await mkdtemp(join(tmpdir(), 'longhaul-bench-'))
process.on('exit', () => { rmSync(folder, { recursive: true, force: true }) })
const { engine, store } = memory()
const blobs = new FolderBlobs(folder)
const users = bulkCreate({
  repository: { createMany: (items: readonly unknown[]) => items.map((_, n) => ({ id: String(n) })) },
  background: { name: 'create-users', blobs },
})
/** Has a change at each report of progress, 10 times a second. */
const ticking = defineTask({
  name: 'ticking',
  run: async (_: unknown, { progress, signal }: TaskContext) => {
    for (let tick = 0; tick < 100 && !signal.aborted; tick++) {
      progress(tick, 100)
      await new Promise((resolve) => { setTimeout(resolve, 100) })
    }
    return {}
  },
})
const tasks = createTasks({ engine, store, blobs, definitions: [users.task, ticking],
  maxWaiters: 10_000, maxWaitersPerOwner: 10_000, progressIntervalMs: 100,
})
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const taken: Handler = async ({ body }) => {
  for await (const _ of body.stream());
  return empty(204)
}
const files = resumableUpload(taken, { blobs, store, owner: 'anyone', uploadPath: '/uploads/{id}', maxBodyBytes: 2 ** 31 })
const server = createServer(toNode(router({
  'POST /lines': ndjsonUpload({ write: () => undefined, maxLineBytes: 16 << 20 }),
  'POST /users': users.handler(endpoints),
  'POST /ticking': endpoints.submit(ticking),
  'GET /tasks/{id}': endpoints.status,
  'POST /files': files.create,
  'PATCH /uploads/{id}': files.resource,
})))
process.on('message', (told) => {
  if (told === 'begin') {
    delay.reset()
    delay.enable()
    cpu = last = process.cpuUsage()
    stretch = 0
    timer = setInterval(look, 1)
    process.send?.({})
  } else {
    delay.disable()
    look()
    clearInterval(timer)
    const { user, system } = process.cpuUsage(cpu)
    process.send?.({ max: delay.max / 1e6, high: delay.percentile(99) / 1e6, stretch: stretch / 1000, cpu: (user + system) / 1000 })
  }
})
process.on('disconnect', () => process.exit())
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
