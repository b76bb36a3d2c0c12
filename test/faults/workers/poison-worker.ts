// A worker for jobs of which one kills it: node poison-worker.ts <redis url>.
import { Redis } from 'ioredis'
import { createTasks } from 'longhaul'
import { BullMQQueue } from 'longhaul/bullmq'
import { RedisStore } from 'longhaul/redis'
import { innocent, poison, TIMES } from './poison.js'

const url = process.argv[2] ?? ''
const connection = new Redis(url, { maxRetriesPerRequest: null })
const store = new RedisStore({ client: new Redis(url) })
createTasks({ store, queue: new BullMQQueue({ connection, ...TIMES }), definitions: [poison, innocent] })
console.log('ready')
