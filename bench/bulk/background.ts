// A bulk create as a job of the gate, and of `npm run bench:bulk -- --only background`.
import pg from 'pg'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { call } from '../gate/accept.js'
import type { Job } from '../gate/job.js'
import { BareRequest, headersOf } from '../gate/request.js'
import { usersText } from './users.js'

/** Items of one body: 20 batches. */
export const PER_BODY = 10_000
export type How = 'direct' | 'background' | 'one batch'

/** Creates users: for a synchronous request; by a task; by a task that writes one batch, and so saves one position. */
export function bulkJob(how: How, url?: string): Job {
  const pool = url === undefined ? undefined : new pg.Pool({ connectionString: url, max: 10 })
  const parts = pool ? postgres({ pool, timeoutMs: 60_000 }) : memory()
  const users = bulkCreate({
    repository: { createMany: (items: readonly unknown[]) => items.map((_, n) => ({ id: String(n) })) },
    ...how === 'one batch' && { batchSize: PER_BODY },
    background: { name: 'create-users', blobs: parts.blobs },
  })
  const tasks = createTasks({ ...parts, definitions: [users.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handler = router({ 'POST /users/bulk': users.handler(endpoints) })
  const body = Buffer.from(usersText(PER_BODY))
  const headers = headersOf({ 'content-type': 'application/json', ...how === 'direct' ? {} : { prefer: 'respond-async' } }, body)
  return {
    run: async (count) => {
      for (let done = 0; done < count; done += PER_BODY) {
        const { headers: { location } } = await call(handler, new BareRequest('POST', '/users/bulk', headers, body), how === 'direct' ? 201 : 202)
        const id = String(location).slice('/tasks/'.length)
        if (how !== 'direct') await ended(id)
      }
    },
    close: async () => {
      await tasks.close()
      await pool?.end()
    },
  }

  async function ended(id: string): Promise<void> {
    for (;;) {
      if ('idle' in parts.engine) await parts.engine.idle()
      else await new Promise((resolve) => { setTimeout(resolve, 20) })
      const { status } = await tasks.get(id) ?? {}
      if (status === 'completed') return
      if (status !== 'queued' && status !== 'processing') throw new Error(`the task is ${status ?? 'gone'}`)
    }
  }
}
