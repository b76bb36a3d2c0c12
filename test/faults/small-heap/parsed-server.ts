// A server with default options, as a child process: it tells its port. Each run awaits a second.
// `ENGINE` is memory, or the address of
// Redis or PostgreSQL.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createTasks, defineTask, router, taskEndpoints, type Schema } from 'longhaul'
import { attach } from 'longhaul/node'
import { openDatabase } from '../../servers/open-database.js'

/** Copies its value, as most schemas do. */
const copies: Schema<object[], object[]> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) =>
      Array.isArray(value) ? { value: value.map(() => ({})) } : { issues: [{ message: 'is no array' }] },
  },
}
const count = defineTask({
  name: 'count',
  input: copies,
  run: async (input) => {
    await sleep(1000)
    return input.length
  },
})
const url = process.env['ENGINE'] ?? 'memory'
const { parts } = openDatabase(url === 'memory' ? undefined : url)
const tasks = createTasks({ ...parts, definitions: [count], onError: (error) => { console.error(error) } })
const endpoints = taskEndpoints(tasks, {
  statusPath: '/status/{id}',
  owner: 'anyone',
  maxWaitSeconds: 600,
  syncTimeoutMs: 60_000,
})
const server = createServer()
attach(
  server,
  router({
    'POST /count': endpoints.submit(count),
    'GET /status/{id}': endpoints.status,
  }),
  {
    context: ({ headers }) =>
      headers['x-user'] === undefined ? {} : { principal: { subject: String(headers['x-user']) } },
    onError: (error) => {
      console.error(error)
    },
  },
)
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
process.on('disconnect', () => process.exit())
