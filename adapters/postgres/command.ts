import { parseArgs } from 'node:util'
import { readOptions } from '../../src/runtime/options.js'
import type { PostgresPool } from './connections.js'
import { migrate, migrationSql, missingSql, SCHEMA } from './migrations.js'

/** Exit code: 0 done, 1 failed, 2 the arguments are not valid. */
type Outcome = Readonly<{ output: string, exitCode: 0 | 1 | 2 }>

export const USAGE = `Usage:
  longhaul migrate --url postgres://…      applies the missing migrations
  longhaul migrate --print                 prints the SQL of all migrations
  longhaul migrate --print --url …         prints the SQL of the missing migrations

Options:
  --url URL        address of the database. Default: DATABASE_URL, except with --print
  --schema NAME    schema of the tables. Default: longhaul
`

/** Runs the command of `npx longhaul`. */
export async function runCommand(
  args: readonly string[], environment: Readonly<Record<string, string | undefined>>,
): Promise<Outcome> {
  let parsed: ReturnType<typeof parse>
  try {
    parsed = parse(args)
    readOptions('longhaul migrate', { schema: parsed.schema }, { schema: SCHEMA })
  } catch (error) {
    return misuse((error as Error).message)
  }
  const { command, schema, print, help } = parsed
  if (help) return { output: USAGE, exitCode: 0 }
  if (command === '') return { output: USAGE, exitCode: 2 }
  if (command !== 'migrate') return misuse(`There is no command "${command}".`)
  const url = parsed.url ?? (print ? undefined : environment['DATABASE_URL'])
  if (url === undefined) {
    if (!print) return misuse('Pass --url, or set DATABASE_URL.')
    return { output: migrationSql(schema), exitCode: 0 }
  }
  // `pg` reads any other string as a path on a host named "base".
  if (!/^(postgres(ql)?:|socket:|\/)/.test(url)) {
    return misuse('The address must begin with postgres://.')
  }
  try {
    return { output: await onDatabase(url, schema, print), exitCode: 0 }
  } catch (error) {
    return { output: `longhaul migrate failed: ${(error as Error).message}\n`, exitCode: 1 }
  }
}

function misuse(message: string): Outcome {
  return { output: `${message}\n\n${USAGE}`, exitCode: 2 }
}

function parse(args: readonly string[]) {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      url: { type: 'string' },
      schema: { type: 'string', default: 'longhaul' },
      print: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  return { command: positionals.join(' '), ...values }
}

async function onDatabase(url: string, schema: string, print: boolean): Promise<string> {
  const { default: pg } = await import('pg').catch((cause: unknown) => {
    throw new Error('It needs pg: npm install pg@8', { cause })
  })
  const pool: PostgresPool & { end(): Promise<void> } = new pg.Pool({
    connectionString: url, connectionTimeoutMillis: 10_000, max: 1, application_name: 'longhaul',
  })
  try {
    if (print) return await missingSql(pool, schema) || '-- No migration is missing.\n'
    const names = await migrate(pool, { schema })
    return names.length === 0 ? 'No migration is missing.\n' : `Applied: ${names.join(', ')}\n`
  } finally {
    await pool.end()
  }
}
