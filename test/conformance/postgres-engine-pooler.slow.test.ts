import * as runner from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { pgBouncerForFile } from '../servers/pgbouncer.js'
import { postgresForFile } from '../servers/postgres-server.js'
import { engineOptions, serverFixture } from './postgres-engine-fixture.js'

const pooler = await pgBouncerForFile(await postgresForFile())

// No notice arrives, so what other processes do is found by looking for it.
engineConformance(runner, async (settings) => serverFixture(pooler.url, settings), {
  ...engineOptions,
  title: 'PostgresTaskEngine behind PgBouncer in transaction mode',
  toleranceMs: 1500,
  timeoutMs: 60_000,
})
