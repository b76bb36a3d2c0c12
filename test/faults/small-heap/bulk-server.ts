// A server with little memory that takes many users in one request, as a child process: it tells
// its port, and on each message what it has used and written.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { bulkCreate } from 'longhaul/bulk'
import { createTasks, json, jsonSchema, router, taskEndpoints } from 'longhaul'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import type { Outcome } from 'longhaul/resources'
import { attach } from 'longhaul/node'

interface Draft { readonly name: string; readonly email: string }
interface User extends Draft { readonly id: string }

/** Counts what is written, and keeps none of it. */
class Table {
  written = 0
  last: string | undefined

  async createMany(drafts: readonly Draft[]): Promise<Outcome<User>[]> {
    await setImmediate()
    return drafts.map((draft) => {
      this.written++
      this.last = draft.email
      return { id: String(this.written), ...draft }
    })
  }
}

const schema = jsonSchema<Draft>({
  type: 'object',
  required: ['name', 'email'],
  properties: { name: { type: 'string', minLength: 1 }, email: { type: 'string', minLength: 3 } },
})
const table = new Table()
const folder = mkdtempSync(join(tmpdir(), 'longhaul-'))
const { engine, store } = memory()
const blobs = new FolderBlobs(folder)
const imported = bulkCreate<User, Draft>({
  schema, repository: table, maxItems: 10_000_000, maxBodyBytes: 2 ** 31, background: { name: 'import', blobs },
})
const tasks = createTasks({ engine, store, definitions: [imported.task] })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
/** A database that is so slow that all requests have their items in memory at the same time. */
const slow = {
  createMany: async (drafts: readonly object[]): Promise<object[]> => {
    await sleep(drafts.length > 50 ? 10 : 200)
    return drafts.map(() => ({}))
  },
}
const LIMITS = { maxItems: 10_000_000, maxBodyBytes: 2 ** 31, maxDirectBytes: 2 ** 24 }
const server = createServer({ requestTimeout: 0 })
attach(server, router({
  'GET /ping': () => json(200, {}),
  'POST /users': bulkCreate<User, Draft>({ schema, repository: table, ...LIMITS }),
  'POST /background': imported.handler(endpoints),
  '/tasks/{id}': endpoints.status,
  'POST /default': bulkCreate<User, Draft>({ schema, repository: table }),
  'POST /slow': bulkCreate<object, object>({ repository: slow }),
  'POST /import': bulkCreate<User, Draft>({
    schema, repository: table, items: '/data/users', otherMembers: 'ignore', ...LIMITS,
  }),
}))
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
process.on('message', () => {
  process.send?.({
    maxRss: process.resourceUsage().maxRSS * 1024,
    rss: process.memoryUsage().rss,
    written: table.written,
    last: table.last,
  })
})
process.on('disconnect', () => {
  rmSync(folder, { recursive: true, force: true })
  process.exit()
})
