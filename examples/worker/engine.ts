import { Redis } from 'ioredis'
import { createTasks, type Tasks } from 'longhaul'
import { redis } from 'longhaul/redis'
import { report } from '../report.js'

/** The tasks of a web process or a worker, and a function that stops them. */
export interface Engine {
  readonly tasks: Tasks
  /** Closes the store after `answered` has resolved, so that requests under way can use it. */
  stop(answered?: Promise<void>): Promise<void>
}

/** Web processes and workers have the same definitions, and share one Redis. */
export function openEngine({ worker }: { readonly worker: boolean }): Engine {
  const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
  const client = new Redis(url, { maxRetriesPerRequest: null })
  client.on('error', ({ message }) => { console.error(`Redis: ${message}`) })
  // Work whose worker was killed starts again within 20 s.
  const { engine, store } = redis({ client })
  const tasks = createTasks({ engine, store, definitions: [report], worker })
  return {
    tasks,
    stop: async (answered) => {
      await tasks.close({ drainMs: Number(process.env['DRAIN_MS'] ?? 10_000) })
      await answered
      await store.close()
      client.disconnect()
    },
  }
}
