#!/usr/bin/env node
import { runCommand, type OpenPool } from './command.js'

/** `pg` is an optional peer: it is loaded only for a command that needs a database. */
async function open(url: string): Promise<OpenPool> {
  const { default: pg } = await import('pg').catch((cause: unknown) => {
    throw new Error('It needs pg: npm install pg@8', { cause })
  })
  const pool = new pg.Pool({
    connectionString: url, connectionTimeoutMillis: 10_000, max: 1, application_name: 'longhaul',
  })
  return { pool, close: () => pool.end() }
}

// The reader of a pipe may end first, such as `head`.
process.stdout.on('error', () => undefined)
const { output, exitCode } = await runCommand(process.argv.slice(2), process.env, open)
;(exitCode === 0 ? process.stdout : process.stderr).write(output)
process.exitCode = exitCode
