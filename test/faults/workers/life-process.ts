// A worker for tests of what several processes do to each other's tasks: node life-process.ts <redis url> <who>.
// old, new: two versions of one application. shop, blog: two applications on one Redis.
import { Redis } from 'ioredis'
import { createTasks } from 'longhaul'
import { redis } from 'longhaul/redis'
import { definitionsOf, namespaceOf, type Who } from './life-work.js'

const [, , url = '', name = 'new'] = process.argv
const who = name as Who
const client = new Redis(url, { maxRetriesPerRequest: null })
createTasks({
  ...redis({ client, namespace: namespaceOf(who) }),
  definitions: definitionsOf(who, client), concurrency: 4,
  onError: (error, { taskId }) => { console.log(`heard ${taskId} ${(error as Error).message}`) },
})
console.log('ready')
