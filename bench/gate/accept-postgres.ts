import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import { openPool } from '../postgres/servers/pool.js'
import { acceptEightAtOnce, TIMEOUT_MS } from './accept.js'
import type { Job } from './job.js'

/** Accepts tasks on PostgreSQL. The web process runs none of them. */
export function acceptOnPostgres(): Job {
  const pool = openPool()
  const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: () => ({ message: 'The report is ready.' }) })
  const tasks = createTasks({ ...postgres({ pool, timeoutMs: TIMEOUT_MS }), definitions: [report], worker: false })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  return {
    run: acceptEightAtOnce(router({ 'POST /reports': endpoints.submit(report) })),
    close: async () => {
      await tasks.close()
      await pool.end()
    },
  }
}
