// The tables of longhaul/postgres: created by processes that start together, changed later, or only checked.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { createTasks, defineTask } from 'longhaul'
import { postgres, type PostgresOptions } from 'longhaul/postgres'
import pg from 'pg'
import { runCommand, USAGE } from '../../../adapters/postgres/command.js'
import { MIGRATIONS, migrationSql, type Migration } from '../../../adapters/postgres/migrations.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { program } from '../../servers/program.js'
import { Places } from '../../../src/engine/engine.js'
import { eventually } from '../../kit/wait.js'

const server = await postgresForFile()
const later = { ttlMs: 60_000 }
const all = MIGRATIONS.map(({ number }) => number)
const next = MIGRATIONS.length + 1
let schemas = 0

/** Returns the name of a schema that only one test uses. */
function newSchema(): string {
  return `migrations_${String(++schemas)}`
}

function storeOf(t: TestContext, schema: string, options: Partial<Omit<PostgresOptions, 'pool'>> = {}) {
  const pool = new pg.Pool({ connectionString: server.url, max: 2 })
  const { store } = postgres({ pool, schema, ...options })
  t.after(async () => {
    await store.close()
    await pool.end()
  })
  return store
}

async function applied(schema: string): Promise<unknown[]> {
  const rows = await server.query(`SELECT number FROM ${schema}.migrations ORDER BY number`)
  return rows.map((row) => row['number'])
}

/** Adds a migration for one test. */
function addLater(t: TestContext): void {
  const migrations = MIGRATIONS as Migration[]
  migrations.push({
    number: next, name: 'later',
    statements: (schema) => [`ALTER TABLE ${schema}.entries ADD COLUMN later text`],
  })
  t.after(() => { migrations.pop() })
}

/** Columns, types and indexes of a schema. */
async function shapeOf(schema: string): Promise<string> {
  const columns = await server.query(`SELECT table_name, column_name, data_type, is_nullable,
    collation_name FROM information_schema.columns WHERE table_schema = $1 ORDER BY 1, 2`, [schema])
  const indexes = await server.query(
    'SELECT indexdef FROM pg_indexes WHERE schemaname = $1 ORDER BY indexname', [schema],
  )
  assert.ok(columns.length > 0 && indexes.length > 0)
  return JSON.stringify([columns, indexes]).replaceAll(schema, 'schema')
}

describe('PostgreSQL migrations', () => {
  test('processes that start together create the tables once', async (t) => {
    const schema = newSchema()
    const stores = Array.from({ length: 8 }, () => storeOf(t, schema, { timeoutMs: 20_000 }))
    const created = await Promise.all(stores.map(async (store, n) => store.create('key', String(n), later)))
    assert.equal(created.filter((each) => each.created).length, 1)
    assert.deepEqual(await applied(schema), all)
  })

  test('a call waits longer than its time limit while another process creates the tables', async (t) => {
    const schema = newSchema()
    const other = new pg.Client({ connectionString: server.url })
    await other.connect()
    t.after(() => other.end())
    await other.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [`longhaul.${schema}`])
    const creating = storeOf(t, schema, { timeoutMs: 1000 }).create('key', 'value', later)
    creating.catch(() => undefined)
    await new Promise((resolve) => { setTimeout(resolve, 2000) })
    await other.query('SELECT pg_advisory_unlock_all()')
    assert.equal((await creating).created, true)
  })

  test('a role with no more than the rights of the guide runs a task', async (t) => {
    const schema = newSchema()
    await command('migrate', '--url', server.url, '--schema', schema)
    await server.query('CREATE ROLE limited LOGIN')
    await server.query(`GRANT USAGE ON SCHEMA ${schema} TO limited;
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO limited`)
    const url = new URL(server.url)
    url.username = 'limited'
    const pool = new pg.Pool({ connectionString: url.href })
    const { engine, store, blobs } = postgres({ pool, schema, migrate: false, timeoutMs: 20_000 })
    const double = defineTask({ name: 'double', run: () => ({ done: true }) })
    const tasks = createTasks({ engine, store, blobs, definitions: [double] })
    t.after(async () => {
      await tasks.close()
      await store.close()
      await blobs.close()
      await pool.end()
    })
    const task = await tasks.submit(double, {})
    assert.equal((await task.wait({ timeoutMs: 20_000 }))?.status, 'completed')
  })

  test('a failed migration leaves nothing, and the next call tries again', async (t) => {
    const schema = newSchema()
    await server.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.counters ()`)
    const store = storeOf(t, schema, { timeoutMs: 20_000 })
    await assert.rejects(async () => store.get('key'), {
      reason: 'unavailable', message: /"counters" already exists/,
    })
    const tables = await server.query('SELECT to_regclass($1) AS found', [`${schema}.entries`])
    assert.deepEqual(tables, [{ found: null }])
    await server.query(`DROP TABLE ${schema}.counters`)
    assert.equal(await store.get('key'), undefined)
  })

  test('a later migration keeps the existing entries', async (t) => {
    const schema = newSchema()
    await storeOf(t, schema, { timeoutMs: 20_000 }).create('key', 'value', later)
    addLater(t)
    const store = storeOf(t, schema, { timeoutMs: 20_000 })
    assert.equal((await store.get('key'))?.value, 'value')
    assert.deepEqual(await applied(schema), [...all, next])
  })

  test('tasks of the previous version continue to wait and run, and obey the limits of the new version', async (t) => {
    const schema = newSchema()
    await server.query(migrationSql(schema, MIGRATIONS.slice(0, 1)))
    // As that version has created a task that runs, and one that waits.
    await server.query(`INSERT INTO ${schema}.task_rows (id, birth, owner, caller, name, pool, priority, status, run,
  attempt, version, created_at, expires_at, sweep_at, due_at, turn, lease_until, taken_by, has_files, details, input)
SELECT id, 'b', 'ann', 'ann', 'report', 'default', 0, status, status, status, 1 + status, 1, 1e14, 1e14, 1,
  CASE WHEN status = 0 THEN 1 END, CASE WHEN status = 1 THEN 1e14 END, 'take', false, '{}', '1'
FROM (VALUES ('runs', 1), ('waits', 0)) AS tasks (id, status)`)
    const pool = new pg.Pool({ connectionString: server.url, max: 4 })
    const { engine } = postgres({ pool, schema, timeoutMs: 20_000 })
    t.after(async () => {
      await engine.close({ drainMs: 0 })
      await pool.end()
    })
    const begun: string[] = []
    engine.work({
      places: new Places(new Map([['default', 4]])), callbacks: 1,
      limits: new Map([['default', { maxPerCaller: 1 }]]),
    }, {
      run: async ({ task, lease }) => {
        begun.push(task.id)
        await engine.change(task, { lease }, { status: 'completed' })
      },
      callback: async () => undefined, remove: async () => true, abandon: () => undefined,
    })
    await eventually(async () => {
      const [row] = await server.query(`SELECT due_at, turn FROM ${schema}.task_rows WHERE id = 'waits'`)
      return row?.['due_at'] === Infinity && row['turn'] === null
    }, 20_000, 'the waiting task is held')
    // The look of that version, which gives a turn to what is due.
    assert.deepEqual(await server.query(`SELECT id FROM ${schema}.task_rows
  WHERE status = 0 AND turn IS NULL AND due_at <= 1e15`), [])
    assert.deepEqual(begun, [])
    const ended = await engine.change({ id: 'runs', birth: 'b' }, { lease: 'take' }, { status: 'completed' })
    assert.equal(ended.outcome, 'changed')
    await eventually(() => begun.length === 1, 20_000, 'the waiting task begins')
  })

  test('a migration that waits for a lock fails soon, so that statements that wait behind it continue', async (t) => {
    const schema = newSchema()
    await server.query(migrationSql(schema))
    addLater(t)
    const store = storeOf(t, schema, { timeoutMs: 20_000 })
    const other = new pg.Client({ connectionString: server.url })
    await other.connect()
    t.after(() => other.end())
    await other.query(`BEGIN; SELECT 1 FROM ${schema}.entries`)
    const attempt = assert.rejects(async () => store.get('key'), {
      reason: 'unavailable', message: /lock timeout/,
    })
    await eventually(async () => (await server.query(
      `SELECT 1 FROM pg_locks WHERE relation = $1::regclass AND mode = 'AccessExclusiveLock'
        AND NOT granted`, [`${schema}.entries`],
    )).length === 1, 10_000, 'the migration waits for the lock')
    assert.deepEqual(await server.query(`SELECT key FROM ${schema}.entries`), [])
    await attempt
    assert.deepEqual(await applied(schema), all)
    await other.query('COMMIT')
    assert.equal(await store.get('key'), undefined)
    assert.deepEqual(await applied(schema), [...all, next])
  })

  test('each call with migrate: false says what is missing, until it exists', async (t) => {
    const schema = newSchema()
    const store = storeOf(t, schema, { migrate: false, timeoutMs: 20_000 })
    const missing = {
      reason: 'unavailable',
      message: /lacks the migrations 1 "tables", 2 .*npx longhaul migrate --print/,
    }
    await assert.rejects(async () => store.get('key'), missing)
    await assert.rejects(async () => store.create('key', 'value', later), missing)
    const { output } = await command('migrate', '--print', '--schema', schema)
    await server.query(output)
    assert.equal((await store.create('key', 'value', later)).created, true)
  })
})

describe('npx longhaul migrate', () => {
  test('prints SQL that creates the same tables as the command', async () => {
    const [printed, created] = [newSchema(), newSchema()]
    await server.query((await command('migrate', '--print', '--schema', printed)).output)
    const first = await command('migrate', '--url', server.url, '--schema', created)
    assert.deepEqual({ ...first, output: '' }, { output: '', exitCode: 0 })
    assert.equal(first.output, 'Applied: 1 tables, 2 limits of running work, 3 tasks that ask, 4 lists of tenants\n')
    assert.equal(await shapeOf(printed), await shapeOf(created))
    assert.deepEqual(await command('migrate', '--url', server.url, '--schema', printed), {
      output: 'No migration is missing.\n', exitCode: 0,
    })
  })

  test('prints only missing migrations with --print and --url', async (t) => {
    const schema = newSchema()
    await server.query(migrationSql(schema))
    addLater(t)
    const { output } = await command('migrate', '--print', '--url', server.url, '--schema', schema)
    assert.doesNotMatch(output, /CREATE TABLE \S+\.entries \(/)
    await server.query(output)
    assert.deepEqual(await applied(schema), [...all, next])
    assert.deepEqual(await command('migrate', '--print', '--url', server.url, '--schema', schema), {
      output: '-- No migration is missing.\n', exitCode: 0,
    })
  })

  test('exits with 2 and the usage for wrong arguments, and with 1 for an unreachable database', async () => {
    const wrong = [
      ['migrate', '--prin'], ['migrat'], [], ['migrate'], ['migrate', '--schema', 'a;b', '--print'],
    ]
    for (const args of wrong) {
      const { output, exitCode } = await command(...args)
      assert.equal(exitCode, 2, args.join(' '))
      assert.ok(output.endsWith(USAGE), args.join(' '))
    }
    const first = async (...args: string[]) => (await command(...args)).output.split('\n')[0]
    assert.equal(await first('migrat'), 'There is no command "migrat".')
    assert.equal(await first('migrate', '--url', 'db/shop'), 'The address must begin with postgres://.')
    assert.deepEqual(await command('--help'), { output: USAGE, exitCode: 0 })
    const { output, exitCode } = await command('migrate', '--url', 'postgres://nobody@127.0.0.1:1/none')
    assert.equal(exitCode, 1)
    assert.match(output, /^longhaul migrate failed: .*ECONNREFUSED/)
  })

  test('reads DATABASE_URL and ends by itself as a process', async () => {
    const schema = newSchema()
    const main = join(import.meta.dirname, '../../../adapters/postgres/main.ts')
    const { stdout } = await promisify(execFile)(
      process.execPath, [...program(main), 'migrate', '--schema', schema],
      { env: { ...process.env, DATABASE_URL: server.url } },
    )
    assert.match(stdout, /^Applied: 1 tables/)
    assert.deepEqual(await applied(schema), all)
  })
})

function command(...args: string[]) {
  return runCommand(args, {})
}
