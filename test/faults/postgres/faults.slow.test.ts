import { after, describe, test } from 'node:test'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import { Site } from './site.js'
import { pause } from '../../kit/wait.js'

const database = await postgresForFile({ fsync: true, settings: { max_connections: 30 } })
await database.kill()
const site = await Site.start(database)

describe('a server whose PostgreSQL', () => {
  after(() => site.lostNothing())

  test('is down at boot starts, rejects, and serves once it is there', async () => {
    await site.refused()
    await database.run()
    await site.works()
  })

  test('is stopped for 5 s rejects meanwhile, and loses nothing', async () => {
    const path = await site.begun(2000)
    await database.shutDown()
    await Promise.all([site.refused(), pause(5000)])
    await database.run()
    await site.survives(path)
    await site.works()
  })

  test('is killed and started again keeps what was accepted', async () => {
    const path = await site.begun(1500)
    await database.kill()
    await site.refused()
    await database.run()
    await site.survives(path)
    await site.works()
  })

  test('does not answer for 5 s rejects meanwhile, and loses nothing', async () => {
    const path = await site.begun(2000)
    database.freeze()
    await Promise.all([site.refused(), pause(5000)])
    database.thaw()
    await site.survives(path)
    await site.works()
  })

  test('is behind a black hole rejects in time, and serves when it is back', async () => {
    const path = await site.begun(500)
    site.proxy.swallow()
    await site.refused()
    await site.refused()
    site.proxy.heal()
    await site.survives(path)
    await site.works()
  })

  test('is 150 ms away each way serves, slower', async () => {
    site.proxy.latencyMs = 300
    await site.works()
    site.proxy.latencyMs = 0
  })

  test('ends all connections serves on new ones', async () => {
    const path = await site.begun(1500)
    await database.query('select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = $1', ['client backend'])
    await site.survives(path)
    await site.works()
  })

  test('has no connections left rejects, and serves when there are some again', async () => {
    const path = await site.begun(500)
    const taken = await takeAllConnections()
    await site.refused()
    await Promise.all(taken.map((client) => client.end()))
    await site.survives(path)
    await site.works()
  })
})

/** Another client takes all of `max_connections`, also those of the server under test. */
async function takeAllConnections(): Promise<readonly pg.Client[]> {
  const taken: pg.Client[] = []
  for (;;) {
    const client = new pg.Client({ connectionString: database.url })
    client.on('error', () => undefined)
    try {
      await client.connect()
      taken.push(client)
    } catch {
      const { rowCount } = await taken[0]?.query('select pg_terminate_backend(pid) from pg_stat_activity where pid <> all($1::int[]) and backend_type = $2', [await pidsOf(taken), 'client backend']) ?? { rowCount: 0 }
      if (rowCount === 0) return taken
    }
  }
}

async function pidsOf(clients: readonly pg.Client[]): Promise<readonly number[]> {
  const rows = await Promise.all(clients.map((client) => client.query<{ pid: number }>('select pg_backend_pid() as pid')))
  return rows.map((result) => result.rows[0]?.pid ?? 0)
}
