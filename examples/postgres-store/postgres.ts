import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { CHANNEL, type Database } from './database.js'

const AGAIN_MS = 500

/** A server. Give the pool `connectionTimeoutMillis` and `query_timeout`: a request is not to wait for ever. */
export function overPool(pool: pg.Pool): Database {
  return {
    shared: true,
    query: async <T>(text: string, values: readonly unknown[]) => (await pool.query(text, [...values])).rows as T[],
    async listen(tell) {
      let client: pg.Client | undefined
      let over = false
      const connect = async (): Promise<void> => {
        const next = new pg.Client(pool.options)
        next.on('notification', ({ payload }) => { tell(payload) })
        next.on('error', () => undefined)
        await next.connect()
        await next.query(`LISTEN ${CHANNEL}`)
        client = next
        next.on('end', () => { if (!over) void again() })
      }
      const again = async (): Promise<void> => {
        while (!over) {
          await sleep(AGAIN_MS, undefined, { ref: false })
          try {
            await connect()
            tell(undefined)
            return
          } catch { /* It is still away. */ }
        }
      }
      await connect()
      return async () => {
        over = true
        await client?.end()
      }
    },
  }
}
