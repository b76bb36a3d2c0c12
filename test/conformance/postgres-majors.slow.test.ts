import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { storeConformance } from 'longhaul/conformance'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { POSTGRES_MAJORS } from '../servers/postgres-binary.js'
import { postgresForFile } from '../servers/postgres-server.js'

// Started before the first test, because that blocks the process.
const urls = new Map<string, string>()
for (const major of POSTGRES_MAJORS) {
  const server = await postgresForFile({ major })
  urls.set(server.version, server.url)
}

for (const [version, url] of urls) {
  describe(`PostgreSQL ${version}`, { concurrency: 8 }, () => {
    const pools = [1, 2].map(() => new pg.Pool({ connectionString: url }))
    after(() => Promise.all(pools.map((pool) => pool.end())))
    const open = (pool: pg.Pool) => postgres({ pool, timeoutMs: 10_000 }).store
    storeConformance(runner, async () => {
      const [store, second] = pools.map(open)
      if (!store || !second) throw new Error('There are two pools')
      return { store, second }
    }, { toleranceMs: 200, title: 'store' })
  })
}
