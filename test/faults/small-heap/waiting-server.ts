// A server that accepts tasks in memory with the default limits, as a child process: it tells its
// port. Runs wait until the message `go`.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { attach } from 'longhaul/node'
import { coreOf } from '../../../src/tasks/tasks.js'

let start: (go: void) => void
const gate = new Promise<void>((resolve) => { start = resolve })
let runs = 0
const once = defineTask({
  name: 'once',
  run: async (input: unknown[]) => {
    await gate
    runs++
    return input.length
  },
})
const again = defineTask({
  name: 'again', attempts: 3, backoff: { type: 'fixed', delayMs: 20 },
  run: async (input: unknown[], { attempt }) => {
    if (attempt === 2) await gate
    if (attempt < 3) throw new Error('fails, on purpose')
    runs++
    return input.length
  },
})
const { engine, store } = memory()
const tasks = createTasks({ engine, store, definitions: [once, again], concurrency: 4, onError: () => undefined })
const endpoints = taskEndpoints(tasks, {
  statusPath: '/status/{id}',
  owner: 'anyone',
  maxWaitSeconds: 600,
  syncTimeoutMs: 600_000,
})
const server = createServer()
attach(server, router({
  'POST /once': endpoints.submit(once),
  'POST /again': endpoints.submit(again),
  'GET /status/{id}': endpoints.status,
}), { onError: () => undefined })
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
process.on('message', (message) => {
  if (message === 'go') start()
  process.send?.({
    ...engine.usage(),
    runs,
    requests: coreOf(tasks).waiters.size + coreOf(tasks).directRuns.size,
    heap: process.memoryUsage().heapUsed,
  })
})
process.on('disconnect', () => process.exit())
