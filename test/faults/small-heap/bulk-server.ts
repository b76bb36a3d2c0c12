// A server with little memory that takes many users in one request, as a child process: it tells its port, and on each message what it has used and written.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { bulkCreate } from 'longhaul/bulk'
import { json, jsonSchema, router } from 'longhaul'
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
  type: 'object', required: ['name', 'email'], properties: { name: { type: 'string', minLength: 1 }, email: { type: 'string', minLength: 3 } },
})
const table = new Table()
const LIMITS = { maxItems: 10_000_000, maxBodyBytes: 2 ** 31 }
const server = createServer({ requestTimeout: 0 })
attach(server, router({
  'GET /ping': () => json(200, {}),
  'POST /users': bulkCreate<User, Draft>({ schema, repository: table, ...LIMITS }),
  'POST /import': bulkCreate<User, Draft>({
    schema, repository: table, items: '/data/users', otherMembers: 'ignore', ...LIMITS,
  }),
}))
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
process.on('message', () => {
  process.send?.({ maxRss: process.resourceUsage().maxRSS * 1024, rss: process.memoryUsage().rss, written: table.written, last: table.last })
})
process.on('disconnect', () => process.exit())
