import * as runner from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { postgresForFile } from '../servers/postgres-server.js'
import { engineOptions, serverFixture } from './postgres-engine-fixture.js'

const server = await postgresForFile({ settings: { max_connections: 300 } })

engineConformance(runner, async (needs) => serverFixture(server.url, needs), {
  ...engineOptions, title: 'PostgresTaskEngine on a server',
})
