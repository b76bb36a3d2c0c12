import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createTasks, defineTask, taskEndpoints, type SubmitTransaction } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import { inject } from 'longhaul/testing'
import pg from 'pg'
import { pgBouncerForFile } from '../../servers/pgbouncer.js'
import { startPostgres } from '../../servers/postgres-server.js'

const server = await startPostgres()
after(() => server.stop())
const send = defineTask({ name: 'send', run: () => ({ message: 'sent' }) })
const definitions = [send]

describe('a transaction can submit over', () => {
  it('a pool whose connections are all in transactions', async () => {
    const pool = new pg.Pool({ connectionString: server.url, max: 3 })
    const parts = postgres({ pool })
    const tasks = createTasks({ ...parts, definitions })
    const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const transaction: SubmitTransaction = async (_request, _input, submitIn) => {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        await submitIn(client)
        await client.query('SELECT pg_sleep(0.01)')
        await client.query('COMMIT')
      } catch (error) {
        // Otherwise the next user of the connection has the locks of this transaction.
        await client.query('ROLLBACK')
        throw error
      } finally {
        client.release()
      }
    }
    const handler = submit(send, { transaction })
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        inject(handler, {
          method: 'POST',
          path: '/',
          body: {},
          headers: { 'prefer': 'respond-async', 'idempotency-key': `key-${String(n % 15)}` },
        }),
      ),
    )
    const statuses = answers.map(({ status }) => status)
    assert.deepEqual(new Set(statuses), new Set([202]), statuses.join())
    const ids = new Set(answers.map(({ headers }) => String(headers['location']).slice('/tasks/'.length)))
    assert.equal(ids.size, 15)
    for (const id of ids) assert.equal((await tasks.wait(id, { timeoutMs: 60_000 }))?.status, 'completed')
    await tasks.close()
    await parts.store.close()
    await pool.end()
  })

  it('a pooler in transaction mode', async () => {
    const pooler = await pgBouncerForFile(server)
    const pool = new pg.Pool({ connectionString: pooler.url })
    const parts = postgres({ pool })
    const tasks = createTasks({ ...parts, definitions })
    const client = await pool.connect()
    await client.query('BEGIN')
    const task = await tasks.submit(send, {}, { transaction: client })
    await client.query('COMMIT')
    assert.equal((await task.wait({ timeoutMs: 60_000 }))?.status, 'completed')
    await assert.rejects(tasks.submit(send, {}, { transaction: client }), { message: /not open/ })
    client.release()
    await tasks.close()
    await parts.store.close()
    await pool.end()
  })
})
