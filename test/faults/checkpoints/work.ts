// The work of the tests of this folder, on Redis, PostgreSQL or SQLite by its address.
import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { defineTask, httpError, isHttpError, type TasksOptions } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { csv } from 'longhaul/csv'
import { FolderBlobs } from 'longhaul/files'
import { ndjsonUpload, type RecordOutcome, type UploadSource } from 'longhaul/ndjson'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import type { Blobs } from 'longhaul/stores'
import pg from 'pg'
import { z } from 'zod'
import { openSqliteFile } from '../../servers/open-database.js'

export interface Row { readonly n: number }

/** Number of records in one batch. */
export const BATCH = 100

/** Table of the imported rows. Each batch is one transaction. */
export interface Rows {
  write(taskId: string, numbers: readonly number[], cursor: string): Promise<void>
  cursorOf(taskId: string): Promise<string | undefined>
  /** The numbers in the order of their writes. */
  of(taskId: string): Promise<number[]>
}

/** Engine of a process, and what it has to close. */
export interface Site {
  readonly engine: Pick<TasksOptions, 'engine' | 'store' | 'blobs'>
  readonly blobs: Blobs
  readonly rows: Rows
  close(): Promise<void>
}

/** Options of the engine. A test of kills leaves them as they are. */
export interface EngineOptions {
  /** Namespace of the keys, or schema of the tables. The default of the package without it. */
  readonly name?: string
  readonly leaseMs?: number
}

/** Opens the databases of a process. `folder` has the blobs where the database has none. */
export function openSite(url: string, folder: string, options: EngineOptions = {}): Site {
  if (url.startsWith('sqlite:')) return openSqliteSite(url, options)
  return url.startsWith('postgres') ? openPostgres(url, options) : openRedis(url, folder, options)
}

/** Rows and tasks share one connection to the file. */
function openSqliteSite(url: string, options: EngineOptions): Site {
  const { database, parts: { engine, store, blobs }, close } = openSqliteFile(url, options)
  // The statements of the application wait for other processes.
  database.exec(`PRAGMA busy_timeout = 5000; CREATE TABLE IF NOT EXISTS rows (task TEXT, n INTEGER);
    CREATE TABLE IF NOT EXISTS cursors (task TEXT PRIMARY KEY, cursor TEXT)`)
  const all = <R>(sql: string, taskId: string): R[] => database.prepare(sql).all(taskId) as R[]
  const rows: Rows = {
    async write(taskId, numbers, cursor) {
      const [insert, move] = [
        database.prepare('INSERT INTO rows VALUES (?, ?)'),
        database.prepare('REPLACE INTO cursors VALUES (?, ?)'),
      ]
      database.exec('BEGIN IMMEDIATE')
      for (const n of numbers) insert.run(taskId, n)
      move.run(taskId, cursor)
      database.exec('COMMIT')
    },
    cursorOf: async (taskId) => all<{ cursor: string }>('SELECT cursor FROM cursors WHERE task = ?', taskId)[0]?.cursor,
    of: async (taskId) =>
      all<{ n: number }>('SELECT n FROM rows WHERE task = ? ORDER BY rowid', taskId).map(({ n }) => n),
  }
  return { engine: { engine, store, blobs }, blobs, rows, close }
}

function openPostgres(url: string, { name, ...options }: EngineOptions): Site {
  const pool = new pg.Pool({ connectionString: url })
  pool.on('error', () => undefined)
  const { engine, store, blobs } = postgres({ pool, ...options, ...name !== undefined && { schema: name } })
  const rows: Rows = {
    async write(taskId, numbers, cursor) {
      const client = await pool.connect()
      try {
        await client.query('begin')
        await client.query('insert into rows (task, n) select $1, unnest($2::int[])', [taskId, numbers])
        await client.query(
          'insert into cursors values ($1, $2) on conflict (task) do update set cursor = excluded.cursor',
          [taskId, cursor],
        )
        await client.query('commit')
      } finally {
        client.release()
      }
    },
    cursorOf: async (taskId) =>
      (await pool.query<{ cursor: string }>('select cursor from cursors where task = $1', [taskId])).rows[0]?.cursor,
    of: async (taskId) =>
      (await pool.query<{ n: number }>('select n from rows where task = $1 order by at', [taskId])).rows.map(
        ({ n }) => n,
      ),
  }
  return {
    engine: { engine, store, blobs }, blobs, rows,
    async close() {
      await store.close()
      await blobs.close()
      await pool.end()
    },
  }
}

function openRedis(url: string, folder: string, { name, ...options }: EngineOptions): Site {
  // A cluster has the addresses of its nodes.
  const client = url.includes(',')
    ? new Cluster(url.split(','), { slotsRefreshTimeout: 20_000, redisOptions: { maxRetriesPerRequest: null } })
    : new Redis(url, { maxRetriesPerRequest: null })
  const { engine, store } = redis({ client, ...options, ...name !== undefined && { namespace: name } })
  const blobs = new FolderBlobs(folder, { shared: true })
  const rows: Rows = {
    async write(taskId, numbers, cursor) {
      await client.multi().rpush(`rows:{${taskId}}`, ...numbers).set(`cursor:{${taskId}}`, cursor).exec()
    },
    cursorOf: async (taskId) => await client.get(`cursor:{${taskId}}`) ?? undefined,
    of: async (taskId) => (await client.lrange(`rows:{${taskId}}`, 0, -1)).map(Number),
  }
  return {
    engine: { engine, store, blobs }, blobs, rows,
    async close() {
      await store.close()
      await blobs.close()
      client.disconnect()
    },
  }
}

/** Kinds of work of these tests. `say` prints a line. */
export function definitionsOf(
  { blobs, rows }: Pick<Site, 'blobs' | 'rows'>,
  say: (line: string) => void = () => undefined,
) {
  /** Counts, and saves each number. */
  const count = defineTask({
    name: 'count',
    input: z.object({ to: z.number() }),
    checkpoint: z.object({ step: z.number() }),
    timeoutMs: 120_000,
    async run({ to }, { checkpoint, signal }) {
      const from = checkpoint.value?.step ?? 0
      say(`from ${from}`)
      for (let step = from + 1; step <= to; step++) {
        await sleep(20)
        try {
          await checkpoint.save({ step })
        } catch (error) {
          say(`refused ${isHttpError(error) ? error.code : (error as Error).name} aborted ${String(signal.aborted)}`)
          throw error
        }
        say(`step ${step}`)
      }
      return { from }
    },
  })
  const importer = (name: string, exactly: boolean, source?: UploadSource) =>
    ndjsonUpload<Row>({
      ...source && { source, maxLines: 1_000_000 },
      schema: z.object({ n: z.number() }),
      batchSize: BATCH,
      maxErrors: 1000,
      async write(records, { cursor, taskId = '' }) {
        await sleep(5)
        const outcomes = records.map(({ n }): RecordOutcome | undefined =>
          n % 97 === 3 ? { error: { code: 'taken', message: `The number ${n} is taken.` } } : undefined,
        )
        const numbers = records.filter((_, at) => outcomes[at] === undefined).map(({ n }) => n)
        await rows.write(taskId, numbers, cursor(outcomes))
        say('wrote')
        return outcomes
      },
      ...(exactly && { resume: ({ taskId = '' }) => rows.cursorOf(taskId) }),
      background: { name, blobs, ...source && { rejectedFile: true } },
    }).task
  const spreadsheet = csv({ columns: { n: { type: 'integer' }, Note: { property: 'note' } } })
  const bulk = (name: string, exactly: boolean) =>
    bulkCreate<{ id: number }, Row>({
      schema: z.object({ n: z.number() }),
      batchSize: BATCH,
      items: '/data/rows',
      maxItems: 10_000_000,
      maxBodyBytes: 2 ** 30,
      maxReportBytes: 2 ** 30,
      repository: {
        async createMany(drafts, { cursor, taskId = '' }) {
          await sleep(5)
          const outcomes = drafts.map(({ n }) =>
            n % 97 === 3 ? httpError('conflict', { message: `The number ${n} is taken.` }) : { id: n },
          )
          const numbers = drafts.filter((_, at) => !isHttpError(outcomes[at])).map(({ n }) => n)
          await rows.write(taskId, numbers, cursor?.(outcomes) ?? '')
          say('wrote')
          return outcomes
        },
      },
      ...(exactly && { resume: ({ taskId = '' }) => rows.cursorOf(taskId) }),
      background: { name, blobs },
    }).task
  return {
    count,
    once: importer('import-once', true),
    atLeastOnce: importer('import', false),
    csvOnce: importer('csv-once', true, spreadsheet),
    csvAtLeastOnce: importer('csv', false, spreadsheet),
    bulkOnce: bulk('bulk-once', true),
    bulkAtLeastOnce: bulk('bulk', false),
  }
}
