// An application whose database can be cut off, with imports, bulk tasks and an export in the background.
import { createServer } from 'node:http'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { createTasks, defineTask, httpError, isHttpError, router, taskEndpoints, type TasksOptions } from 'longhaul'
import { bulkCreate, bulkItems } from 'longhaul/bulk'
import { exportTask } from 'longhaul/export'
import { ndjsonUpload } from 'longhaul/ndjson'
import { attach } from 'longhaul/node'
import type { Blobs } from 'longhaul/stores'
import type { Call } from 'longhaul/resources'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { listen } from '../../kit/listen.js'

export interface Row { readonly n: number }
interface Written { readonly id: number }

/** Number of records in one batch. */
export const BATCH = 20

/** Storages of the tasks. They are not cut off. */
export type Storage = Pick<TasksOptions, 'engine' | 'store'> & { readonly blobs: Blobs }

/** What the tests create once in the database of the application. */
export const TABLES = `
  create table rows (app text, n int, at serial);
  create table keyed (app text, n int, primary key (app, n));
  create table cursors (app text primary key, cursor text)`

/**
 * Serves the tasks of one application. `app` is its name in the tables.
 *
 * @param onWrite - called inside the transaction of each batch, before its commit
 */
export async function serve(
  t: TestContext | undefined,
  storage: Storage,
  database: { readonly port: number; urlAt(port: number): string },
  app: string,
  onWrite: () => void,
) {
  const proxy = await TcpProxy.to(database.port)
  const pool = new pg.Pool({
    connectionString: database.urlAt(proxy.port),
    connectionTimeoutMillis: 1000,
    query_timeout: 1000,
    max: 4,
  })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => {
    client.on('error', () => undefined)
  })

  const isExact = app.includes('with a cursor')

  /** Throws a 503 as long as it is certain that nothing was written: until the commit. */
  async function transact<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    let client: pg.PoolClient | undefined
    let committing = false
    try {
      client = await pool.connect()
      await client.query('begin')
      const result = await work(client)
      onWrite()
      // With a cursor the commit itself is cut off, so nobody knows its outcome.
      if (!isExact) await client.query('select 1')
      committing = true
      await client.query('commit')
      client.release()
      return result
    } catch (error) {
      client?.release(true)
      throw committing || isHttpError(error) ? error : httpError('service_unavailable', { cause: error })
    }
  }
  const insert = 'insert into rows (app, n) select $1, unnest($2::int[])'
  const numbersOf = (rows: readonly Row[]): number[] => rows.map(({ n }) => n)
  async function moveCursor(client: pg.PoolClient, cursor: string, previous: string | undefined): Promise<void> {
    await client.query('insert into cursors values ($1) on conflict do nothing', [app])
    const { rowCount } = await client.query(
      'update cursors set cursor = $2 where app = $1 and cursor is not distinct from $3',
      [app, cursor, previous],
    )
    if (rowCount === 0) throw httpError('attempt_replaced')
  }
  const resume = async (): Promise<string | undefined> =>
    (await pool.query<{ cursor: string }>('select cursor from cursors where app = $1 for update', [app])).rows[0]
      ?.cursor
  const createMany = (drafts: readonly Row[], { cursor, previous }: Call): Promise<Written[]> =>
    transact(async (client) => {
      await client.query(insert, [app, numbersOf(drafts)])
      const written = drafts.map(({ n }) => ({ id: n }))
      if (cursor && isExact) await moveCursor(client, cursor(written), previous)
      return written
    })
  const create = ({ n }: Row): Promise<Written> =>
    transact(async (client) => {
      await client.query(insert, [app, [n]])
      return { id: n }
    })
  const { blobs, ...engine } = storage
  const shared = { batchSize: BATCH, onError: () => undefined }
  const exact = isExact && { resume }
  const work = {
    import: ndjsonUpload<Row>({
      batchSize: BATCH,
      ...exact,
      background: { name: 'import', blobs },
      write: (records, { cursor, previous }) =>
        transact(async (client) => {
          if (isExact) {
            await client.query(insert, [app, numbersOf(records)])
            await moveCursor(client, cursor(), previous)
          } else {
            await client.query('insert into keyed (app, n) select $1, unnest($2::int[]) on conflict do nothing', [
              app,
              numbersOf(records),
            ])
          }
        }),
    }),
    bulk: bulkCreate<Written, Row>({
      ...shared,
      ...exact,
      repository: { createMany },
      background: { name: 'bulk', blobs },
    }),
    single: bulkCreate<Written, Row>({
      ...shared,
      repository: { create },
      concurrency: 1,
      background: { name: 'single', blobs },
    }),
    atomic: bulkCreate<Written, Row>({
      ...shared,
      atomic: true,
      background: { name: 'atomic', blobs },
      repository: {
        createMany,
        transaction: (inside) =>
          transact((client) =>
            inside({
              createMany: async (drafts: readonly Row[]) => {
                await client.query(insert, [app, numbersOf(drafts)])
                return drafts.map(({ n }) => ({ id: n }))
              },
            }),
          ),
      },
    }),
  }
  const exports = exportTask<unknown, Row>({
    name: 'export',
    partRecords: BATCH,
    async *records(_, { from }) {
      for (let at = from(); ; at += BATCH) {
        if (at > 0) onWrite()
        const { rows } = await pool.query<Row>('select n from generate_series($1::int, $2) as n where n < 200', [
          at,
          at + BATCH - 1,
        ])
        if (rows.length === 0) return
        yield rows
      }
    },
  })
  const other = defineTask({ name: 'other', run: () => ({}) })
  const definitions = [exports, other, ...Object.values(work).map(({ task }) => task)]
  const tasks = createTasks({ ...engine, blobs, definitions, concurrency: 1, onError: () => undefined })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const server = createServer()
  attach(
    server,
    router({
      'POST /import': work.import.handler(endpoints),
      'POST /bulk': work.bulk.handler(endpoints),
      'POST /single': work.single.handler(endpoints),
      'POST /atomic': work.atomic.handler(endpoints),
      'POST /export': endpoints.submit(exports),
      'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
      'GET|HEAD /tasks/{id}/files/{name}': endpoints.files,
      'GET|HEAD /tasks/{id}/items': bulkItems({ endpoints, blobs }),
    }),
  )
  const running = await listen(server)
  let closing: Promise<void> | undefined
  const close = (): Promise<void> =>
    (closing ??= (async () => {
      await tasks.close({ drainMs: 0 })
      await running.close()
      await pool.end()
      proxy.close()
    })())
  t?.after(close)
  return { proxy, port: running.port, tasks, runOther: () => tasks.submit(other, {}), close }
}
