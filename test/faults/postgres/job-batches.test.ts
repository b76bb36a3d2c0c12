// Jobs of one turn of the event loop are added together. One that PostgreSQL refuses must not harm the others.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { PostgresQueue } from 'longhaul/postgres'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
const queue = new PostgresQueue({ pool })
after(async () => {
  await queue.close()
  await pool.end()
})

const job = (id: string) => ({ id, taskId: 'task', name: 'work', input: {} })

describe('a batch of jobs', () => {
  test('is added without a job whose id PostgreSQL cannot hold', async () => {
    const refused = ['a\0b', ':'.repeat(300) + 'é'.repeat(212)]
    const outcomes = await Promise.allSettled([
      queue.enqueue(job('before')), ...refused.map((id) => queue.enqueue(job(id))),
      queue.enqueue(job('after')),
    ])
    const statuses = outcomes.map(({ status }) => status)
    assert.deepEqual([statuses[0], statuses[1], statuses.at(-1)], ['fulfilled', 'rejected', 'fulfilled'])
    assert.deepEqual(await Promise.all([queue.has('before'), queue.has('after')]), [true, true])
  })

  test('takes as many attempts, and as long a delay, as JavaScript can count', async () => {
    const attempts = Number.MAX_SAFE_INTEGER
    await Promise.all([
      queue.enqueue(job('usual')), queue.enqueue(job('for ever'), { attempts }),
      queue.enqueue(job('never'), { delayMs: Number.MAX_VALUE }),
    ])
    const found = await Promise.all(['usual', 'for ever', 'never'].map((id) => queue.has(id)))
    assert.deepEqual(found, [true, true, true])
  })
})
