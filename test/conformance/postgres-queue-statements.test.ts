import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { SQL_COMMANDS } from 'bullmq/dist/esm/postgres/sql-scripts.js'
import pg from 'pg'
import { bullMigrationSql } from '../../adapters/postgres/bullmq/schema.js'
import { Statements } from '../../adapters/postgres/bullmq/statements.js'
import { postgresUrl } from '../servers/postgres-url.js'

describe('the statements of the installed BullMQ', async () => {
  const pool = new pg.Pool({
    connectionString: await postgresUrl(), max: 1, options: '-c search_path=""',
  })
  // The server may end first.
  pool.on('error', () => undefined)
  after(() => pool.end())
  await pool.query(await bullMigrationSql('shop'))
  const statements = await Statements.of('shop')
  const commands = Object.entries(SQL_COMMANDS).filter(([name]) => !name.startsWith('listen_'))
  assert.ok(commands.length > 80, 'BullMQ keeps its statements elsewhere now')

  for (const [name, text] of commands) test(`${name} names its schema`, async () => {
    await pool.query(`PREPARE adapted AS ${statements.adapt(text).text}`)
    await pool.query('DEALLOCATE adapted')
  })

  test('a worker and a producer pass no time of their own', () => {
    const own = ['add_job', 'move_to_active', 'move_to_completed', 'move_to_completed_fetch',
      'move_to_failed', 'move_to_failed_fetch', 'move_to_delayed', 'move_active_to_wait',
      'move_stalled_jobs_to_wait', 'extend_lock', 'extend_locks', 'next_delay', 'next_signal']
    const without = own.filter((name) => (
      !statements.adapt(SQL_COMMANDS[`${name}.sql`] ?? '').text.includes('clock_timestamp()')
    ))
    assert.deepEqual(without, [])
  })

  test('the SQL of the migrations may run only once', async () => {
    await assert.rejects(pool.query(await bullMigrationSql('shop')), /already exists/)
    await pool.query('ROLLBACK')
  })
})
