// node pool-process.ts <postgres url> <what>: uses PostgreSQL by `what` until that works, prints `works` and ends.
// The pool has no listener of the application.
import { setTimeout as pause } from 'node:timers/promises'
import { createTasks, defineTask } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { Connections } from '../../../adapters/postgres/connections.js'

const [, , connectionString = '', what = ''] = process.argv
const pool = new pg.Pool({ connectionString })

/** Calls `use` until it resolves. */
async function works(use: () => Promise<unknown>): Promise<void> {
  while (!await use().then(() => true, () => false)) await pause(20)
}

const uses: Record<string, () => Promise<void>> = {
  store: async () => {
    const { store } = postgres({ pool })
    await works(() => store.create('key', 'value', { ttlMs: 60_000 }))
    await store.close()
  },
  transaction: () => {
    const connections = new Connections(pool)
    return works(() => connections.transaction((query) => query('SELECT 1'), 5000))
  },
  listen: async () => {
    // A pool that gives no class of clients: the subscription uses a client of the pool.
    const wrapped = { connect: () => pool.connect(), on: pool.on.bind(pool) as never }
    const connections = new Connections(wrapped)
    const ignore = (): void => undefined
    await works(() => connections.listen('channel', ignore, ignore).then((close) => { close() }))
  },
  engine: async () => {
    const { engine, store } = postgres({ pool })
    const work = defineTask({ name: 'work', run: () => 'done' })
    const tasks = createTasks({ engine, store, definitions: [work] })
    await works(async () => {
      const task = await tasks.submit(work, {})
      if ((await task.wait({ timeoutMs: 60_000 }))?.status !== 'completed') throw new Error('it is not done')
    })
    await tasks.close()
    await store.close()
  },
  application: async () => {
    postgres({ pool })
    await works(async () => {
      const client = await pool.connect()
      try {
        await client.query('SELECT 1')
      } finally {
        client.release()
      }
    })
  },
}
await uses[what]?.()
console.log('works')
await pool.end()
