import { Redis } from 'ioredis'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { redis } from 'longhaul/redis'
import { acceptEightAtOnce } from './accept.js'
import type { Job } from './job.js'

/** The longest deadline of a call, in milliseconds. Valgrind makes a process 50 times slower. */
const TIMEOUT_MS = 4000

/** Accepts tasks on Redis. The web process runs none of them. */
export function acceptOnRedis(): Job {
  const client = new Redis(process.env['REDIS_URL'] ?? '', { maxRetriesPerRequest: null })
  const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: () => ({ message: 'The report is ready.' }) })
  const tasks = createTasks({ ...redis({ client, timeoutMs: TIMEOUT_MS }), definitions: [report], worker: false })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  return {
    run: acceptEightAtOnce(router({ 'POST /reports': endpoints.submit(report) })),
    close: async () => {
      await tasks.close()
      client.disconnect()
    },
  }
}
