import { bulkCreate, jsonSchema } from 'longhaul'
import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'
import { insertAll, USER_SCHEMA, type Draft, type User } from '../users.js'

listen(toNode(bulkCreate<User, Draft>({ schema: jsonSchema<Draft>(USER_SCHEMA), repository: { createMany: insertAll } })))
process.on('message', (message) => {
  if (message === 'memory') process.send?.({ maxRss: process.resourceUsage().maxRSS * 1024 })
})
