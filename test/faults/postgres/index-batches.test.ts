// Writes to the task index are sent together. One that cannot be written now must not harm the others.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { listedTask } from '../../../src/conformance/task-index/context.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { eventually } from '../../unit/tasks/kit.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
const { store, index } = postgres({ pool })
after(async () => {
  await store.close()
  await pool.end()
})

async function ids(): Promise<string[]> {
  return (await index.list({ of: 'all', order: 'oldest', limit: 100 })).map(({ id }) => id)
}

async function statusOf(wanted: string): Promise<string[]> {
  const entries = await index.list({ of: 'all', order: 'oldest', limit: 100 })
  return entries.filter(({ id }) => id === wanted).map(({ status }) => status)
}

describe('a batch of the task index', () => {
  test('is written while a transaction of the application has locked a task that is dropped', async () => {
    await index.put(listedTask({ id: 'locked' }))
    await index.add('locked~job', 60_000)
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('SELECT 1 FROM longhaul.tasks, longhaul.task_checks FOR UPDATE')
      const dropped = index.drop([listedTask({ id: 'locked' })])
      index.remove('locked~job')
      await Promise.all([dropped, index.put(listedTask({ id: 'other' }))])
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
    assert.ok((await ids()).includes('other'))
  })

  test('is written without a task that is locked, and with it soon after', async () => {
    await index.put(listedTask({ id: 'busy', status: 'processing' }))
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query("SELECT 1 FROM longhaul.tasks WHERE id = 'busy' FOR UPDATE")
      index.putSoon(listedTask({ id: 'busy', status: 'completed', version: 2 }))
      await index.put(listedTask({ id: 'free' }))
      assert.deepEqual(await statusOf('busy'), ['processing'])
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
    await eventually(async () => (await statusOf('busy'))[0] === 'completed')
  })

  test('is written beside tasks whose owner PostgreSQL cannot hold', async () => {
    const owner = randomBytes(6000).toString('base64url')
    const beside = index.put(listedTask({ id: 'beside' }))
    await assert.rejects(index.put(listedTask({ id: 'long', owner })), TypeError)
    index.putSoon(listedTask({ id: 'long', owner }))
    index.putSoon(listedTask({ id: 'nul', owner: 'a\0b' }))
    await beside
    const later = index.put(listedTask({ id: 'later' }))
    await later
    assert.deepEqual((await ids()).filter((id) => ['beside', 'later', 'long', 'nul'].includes(id)), ['beside', 'later'])
  })
})
