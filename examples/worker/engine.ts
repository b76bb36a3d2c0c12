import { Redis } from 'ioredis'
import { createTasks, type Tasks } from 'longhaul'
import { redis } from 'longhaul/redis'
import type { Store } from 'longhaul/stores'
import { report } from '../report.js'

/** The tasks of a web process or a worker, and what `closeOnSignal` closes. */
export interface Engine {
  readonly tasks: Tasks
  readonly store: Store
  readonly client: Redis
  readonly drainMs: number
}

/** Web processes and workers have the same definitions, and share one Redis. */
export function openEngine({ worker }: { readonly worker: boolean }): Engine {
  const url = process.env['REDIS_URL']
  if (!url) {
    console.error('Set REDIS_URL to the address of a Redis, such as redis://127.0.0.1:6379.')
    process.exit(1)
  }
  const client = new Redis(url, { maxRetriesPerRequest: null })
  client.on('error', ({ message }) => { console.error(`Redis: ${message}`) })
  // Work whose worker was killed starts again within 20 s.
  const { engine, store } = redis({ client })
  const tasks = createTasks({ engine, store, definitions: [report], worker })
  return { tasks, store, client, drainMs: Number(process.env['DRAIN_MS'] ?? 10_000) }
}
