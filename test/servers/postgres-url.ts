import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { releaseLast } from '../../scripts/test-releases.mjs'
import { startPostgres } from './postgres-server.js'

/**
 * The address of an empty database for all tests of a file that only use it: on the server of
 * `DATABASE_URL`, on that of this run, or on a new one. Tests that stop, break or choose a server call `startPostgres`.
 */
export async function postgresUrl(): Promise<string> {
  const shared = process.env['DATABASE_URL'] ?? process.env['LONGHAUL_TEST_DATABASE_URL']
  if (shared === undefined) {
    const server = await startPostgres()
    releaseLast(() => server.stop())
    return server.url
  }
  const name = `longhaul_test_${randomBytes(8).toString('hex')}`
  await run(shared, `create database ${name}`)
  releaseLast(() => run(shared, `drop database ${name} with (force)`))
  const url = new URL(shared)
  url.pathname = `/${name}`
  return url.href
}

async function run(connectionString: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 10_000 })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
