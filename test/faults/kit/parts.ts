import { readdirSync } from 'node:fs'
import { openPostgres, openRedis } from '../../servers/open-database.js'

/** The database and the names that the processes of one test share. */
export interface Place {
  readonly url: string
  readonly name: string
  readonly folder: string
}

/** The default, shortened. */
const LEASE_MS = 2000

/** Opens what tasks need, and a view of the blobs. */
export function openParts(kind: string, { url, name, folder }: Place) {
  const options = { name, folder, leaseMs: LEASE_MS }
  if (kind === 'redis') {
    // Another process removes what a killed one has begun after a day.
    return {
      ...openRedis(url, options),
      blobCount: async () => readdirSync(folder).filter((file) => file.endsWith('.blob')).length,
    }
  }
  const opened = openPostgres(url, options)
  return {
    ...opened,
    blobCount: async () => {
      const { rows } = await opened.pool.query<{ count: string }>(`select count(*) from ${name}.blobs`)
      return Number(rows[0]?.count)
    },
  }
}
