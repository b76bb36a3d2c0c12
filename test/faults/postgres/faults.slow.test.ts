import { after, describe, test } from 'node:test'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import { Site } from './site.js'
import { pause } from '../../kit/wait.js'

const database = await postgresForFile({ fsync: true, settings: { max_connections: 30 } })
await database.kill()
const site = await Site.start(database)

describe('a server on PostgreSQL', () => {
  after(() => site.lostNothing())

  test('starts while PostgreSQL is down, rejects requests, and serves once PostgreSQL is up', async () => {
    await site.refused()
    await database.run()
    await site.works()
  })

  test('rejects requests while PostgreSQL is stopped for 5 s, and loses nothing', async () => {
    const path = await site.begun(2000)
    await database.shutDown()
    await Promise.all([site.refused(), pause(5000)])
    await database.run()
    await site.survives(path)
    await site.works()
  })

  test('keeps what was accepted if PostgreSQL is killed and restarted', async () => {
    const path = await site.begun(1500)
    await database.kill()
    await site.refused()
    await database.run()
    await site.survives(path)
    await site.works()
  })

  test('rejects requests while PostgreSQL is frozen for 5 s, and loses nothing', async () => {
    const path = await site.begun(2000)
    database.freeze()
    await Promise.all([site.refused(), pause(5000)])
    database.thaw()
    await site.survives(path)
    await site.works()
  })

  test('rejects requests in time while PostgreSQL is unreachable, and serves when it is reachable again', async () => {
    const path = await site.begun(500)
    site.proxy.swallow()
    await site.refused()
    await site.refused()
    site.proxy.heal()
    await site.survives(path)
    await site.works()
  })

  test('serves more slowly if PostgreSQL is 150 ms away', async () => {
    site.proxy.latencyMs = 300
    await site.works()
    site.proxy.latencyMs = 0
  })

  test('serves on new connections after PostgreSQL has ended all connections', async () => {
    const path = await site.begun(1500)
    await database.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = $1',
      ['client backend'],
    )
    await site.survives(path)
    await site.works()
  })

  test('rejects requests while PostgreSQL has no free connections, and serves when it has some', async () => {
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
      const { rowCount } = (await taken[0]?.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where pid <> all($1::int[]) and backend_type = $2',
        [await pidsOf(taken), 'client backend'],
      )) ?? { rowCount: 0 }
      if (rowCount === 0) return taken
    }
  }
}

async function pidsOf(clients: readonly pg.Client[]): Promise<readonly number[]> {
  const rows = await Promise.all(
    clients.map((client) => client.query<{ pid: number }>('select pg_backend_pid() as pid')),
  )
  return rows.map((result) => result.rows[0]?.pid ?? 0)
}
