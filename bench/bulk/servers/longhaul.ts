import { bulkCreate } from 'longhaul/bulk'
import { jsonSchema } from 'longhaul'
import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'
import { insertAll, USER_SCHEMA, type Draft, type User } from '../users.js'

// As many as the scenarios send. The checks do not depend on it.
const LIMITS = { maxItems: 2_000_000, maxBodyBytes: 2 ** 30 }
listen(toNode(bulkCreate<User, Draft>({ schema: jsonSchema<Draft>(USER_SCHEMA), repository: { createMany: insertAll }, ...LIMITS })))
process.on('message', (message) => {
  if (message === 'memory') process.send?.({ maxRss: process.resourceUsage().maxRSS * 1024 })
})
