import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { constants, gzipSync } from 'node:zlib'
import { bulkUpdate } from 'longhaul/bulk'
import { attach } from 'longhaul/node'
import type { Repository, Update } from 'longhaul/resources'
import { router } from 'longhaul'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import { listen } from '../../kit/listen.js'

interface Row { readonly id: number, readonly name: string }
type Rows = Pick<Repository<Row, never, { name: string }, number>, 'updateMany' | 'transaction'>

const POOL = 10

/** Rows of a table, changed with one of the connections of a pool. */
function rowsIn(pool: pg.Pool): Rows {
  const on = (db: pg.Pool | pg.PoolClient): Rows => ({
    updateMany: async (updates: readonly Update<number, { name: string }>[]) => {
      const values = [updates.map(({ id }) => id), updates.map(({ change }) => change.name)]
      const { rows } = await db.query<Row>(
        'UPDATE people p SET name = u.name FROM unnest($1::int[], $2::text[]) u(id, name) WHERE p.id = u.id RETURNING p.id, p.name',
        values,
      )
      return updates.map(({ id }) => rows.find((row) => row.id === id))
    },
  })
  return {
    ...on(pool),
    transaction: async <R>(work: (inside: Rows) => Promise<R>): Promise<R> => {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        const result = await work(on(client))
        await client.query('COMMIT')
        return result
      } catch (error) {
        await client.query('ROLLBACK')
        throw error
      } finally {
        client.release()
      }
    },
  }
}

const database = await postgresForFile()

test('ten clients that stop in the middle of an atomic batch hold no connection to the database', async (t) => {
  const pool = new pg.Pool({ connectionString: database.url, max: POOL })
  t.after(() => pool.end())
  await pool.query("CREATE TABLE people AS SELECT id, 'old' AS name FROM generate_series(1, 100000) id")
  await pool.query('ALTER TABLE people ADD PRIMARY KEY (id)')
  const handler = bulkUpdate<Row, { name: string }, number>({
    repository: rowsIn(pool),
    id: ({ id }) => id,
    change: ({ name }) => ({ name }),
  })
  const server = createServer()
  attach(server, router({ 'PATCH /people': handler }))
  const { port } = await listen(server)
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })

  // All but the end arrives: several batches can be decoded and read.
  const text = JSON.stringify({ updates: Array.from({ length: 90_000 }, (_, at) => ({ id: at + 1, name: 'new' })) })
  const begun = gzipSync(text, { finishFlush: constants.Z_SYNC_FLUSH })
  const connections = new Set<unknown>()
  for (let at = 0; at < POOL; at++) {
    const socket = connect(port, '127.0.0.1')
    sockets.push(socket)
    const [handled] = await Promise.all([
      once(server, 'request'),
      new Promise((resolve) => {
        socket.write(
          `PATCH /people HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: ${begun.byteLength + 1000}\r\n\r\n`,
        )
        socket.write(begun, resolve)
      }),
    ])
    connections.add(handled)
  }
  assert.equal(connections.size, POOL)

  const send = async (updates: readonly object[]): Promise<number> => {
    const response = await fetch(`http://127.0.0.1:${port}/people`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ updates }),
      signal: AbortSignal.timeout(20_000),
    })
    return response.status
  }
  // Several rounds, so that the server has had the turns to read what has arrived.
  for (let round = 1; round <= 20; round++) assert.equal(await send([{ id: round, name: `${round}` }]), 200)
  const { rows } = await pool.query<{ count: string }>(
    "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'",
  )
  assert.deepEqual([rows[0]?.count, pool.waitingCount, pool.idleCount === pool.totalCount], ['0', 0, true])
  assert.equal(await send([{ id: 1, name: 'x' }, { id: 999_999, name: 'y' }]), 422)
})
