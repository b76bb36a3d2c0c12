// Imports, bulk tasks and exports with default options, whose database has no connection for 6 s.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'
import { ask } from '../../http/kit/wire.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'
import { BATCH, serve, TABLES, type Storage } from './outage-work.js'
import { eventually, pause } from '../../kit/wait.js'

/** Time without a connection, in milliseconds. */
const OUTAGE_MS = 6000
const COUNT = 10 * BATCH
const numbers = Array.from({ length: COUNT }, (_, n) => n)
const rows = numbers.map((n) => ({ n }))

const database = await postgresForFile({ settings: { max_connections: 200 } })
await database.query(TABLES)
const folder = mkdtempSync(join(tmpdir(), 'longhaul-outage-'))
after(() => { rmSync(folder, { recursive: true, force: true }) })

let databases = 0
const engines: Readonly<Record<string, () => Promise<Storage>>> = {
  memory: async () => memory(),
  async Redis() {
    const client = new Redis(await redisUrl(), { maxRetriesPerRequest: null })
    after(() => { client.disconnect() })
    const { engine, store } = redis({ client, namespace: `outage-${process.pid}-${Math.random()}`.replace('.', '') })
    return { engine, store, blobs: new FolderBlobs(mkdtempSync(join(folder, 'blobs-')), { shared: true }) }
  },
  async PostgreSQL() {
    const name = `engine_${++databases}`
    await database.query(`create database ${name}`)
    const pool = new pg.Pool({ connectionString: database.url.replace(/postgres$/, name), max: 4 })
    pool.on('error', () => undefined)
    after(() => pool.end())
    return postgres({ pool })
  },
}

/** What is sent to each endpoint. */
const bodies = {
  import: ['application/x-ndjson', rows.map((row) => `${JSON.stringify(row)}\n`).join('')],
  bulk: ['application/json', JSON.stringify(rows)],
  export: ['application/json', '{}'],
} as const

/** The table that the rows of a kind of work are in. */
type Case = readonly [name: string, path: string, body: keyof typeof bodies, table?: 'rows' | 'keyed']

const cases: readonly Case[] = [
  ['an import with a cursor', 'import', 'import', 'rows'],
  ['an import without a cursor, whose writes are repeatable', 'import', 'import', 'keyed'],
  ['a bulk task with a cursor', 'bulk', 'bulk', 'rows'],
  ['a bulk task without a cursor', 'bulk', 'bulk', 'rows'],
  ['a bulk task that writes single records', 'single', 'bulk', 'rows'],
  ['an atomic bulk task', 'atomic', 'bulk', 'rows'],
  ['an export in parts', 'export', 'export'],
]

interface Status {
  readonly status: string
  readonly attempts?: readonly object[]
  readonly files?: readonly { readonly path: string }[]
}

/** The report of an undisturbed task, on each path. */
async function reportOf(port: number, path: string, status: Status, kind: string): Promise<object> {
  const { result, error } = status as { result?: object, error?: object }
  const text = async (at: string): Promise<string> => (await ask(port, 'GET', at)).body
  if (kind === 'bulk')
    return { result, error, items: await text(`${path}/items`), failed: await text(`${path}/items?only=failed`) }
  if (kind === 'export')
    return { result, error, files: await Promise.all((status.files ?? []).map((file) => text(file.path))) }
  return { result, error }
}

async function submit(port: number, [, path, kind]: Case): Promise<string> {
  const [type, body] = bodies[kind]
  const headers = { 'content-type': type, prefer: 'respond-async' }
  for (;;) {
    const { status, headers: { location = '' }, body: text } = await ask(port, 'POST', `/${path}`, { headers, body })
    // The machine may be too slow for an engine that has just been opened.
    if (status === 503) continue
    assert.equal(status, 202, text)
    return location
  }
}

async function statusOf(port: number, path: string): Promise<Status> {
  return JSON.parse((await ask(port, 'GET', path, { headers: { prefer: 'wait=1' } })).body) as Status
}

async function ended(port: number, path: string): Promise<Status> {
  let status = await statusOf(port, path)
  await eventually(async () => {
    status = await statusOf(port, path)
    return status.status !== 'processing'
  }, 90_000, `${path} ends`)
  return status
}

async function written(app: string, table: 'rows' | 'keyed'): Promise<unknown[]> {
  const order = table === 'rows' ? 'at' : 'n'
  return (await database.query(`select n from ${table} where app = $1 order by ${order}`, [app])).map(({ n }) => n)
}

const calmReports = new Map<Case, Promise<object>>()

/** Returns the report of an undisturbed task, which is the same on each engine. */
function calmReport(each: Case): Promise<object> {
  const known = calmReports.get(each)
  if (known) return known
  const report = (async () => {
    const site = await serve(undefined, memory(), database, `calm ${each[0]}`, () => undefined)
    const path = await submit(site.port, each)
    const result = await reportOf(site.port, path, await ended(site.port, path), each[2])
    await site.close()
    return result
  })()
  calmReports.set(each, report)
  return report
}

/** Runs one kind of work with an outage, and compares its report with that of an undisturbed task. */
async function run(t: TestContext, engine: string, outage: 'refuse' | 'swallow', each: Case): Promise<void> {
  const [name, path, kind, table] = each
  const app = `${engine} ${outage} ${name}`
  let writes = 0
  let begin = (): void => undefined
  const site = await serve(t, await (engines[engine] as () => Promise<Storage>)(), database, app, () => {
    if (++writes === (path === 'atomic' ? 1 : 4)) begin()
  })
  let isOver = false
  const outageEnds = new Promise<void>((resolve) => {
    begin = () => {
      site.proxy[outage]()
      void pause(OUTAGE_MS).then(async () => {
        isOver = true
        await (outage === 'refuse' ? site.proxy.accept() : site.proxy.heal())
        resolve()
      })
    }
  })
  const taskPath = await submit(site.port, each)
  await eventually(
    async () => ((await statusOf(site.port, taskPath)).attempts ?? []).length > 0,
    30_000,
    'the first run has failed',
  )
  // The only place is free while the task waits for its next attempt.
  const { taskId } = await site.runOther()
  assert.equal((await site.tasks.wait(taskId, { timeoutMs: 10_000 }))?.status, 'completed')
  assert.equal(isOver, false)
  await outageEnds
  const status = await ended(site.port, taskPath)
  assert.equal(status.status, 'completed', JSON.stringify(status).slice(0, 1000))
  const report = await reportOf(site.port, taskPath, status, kind)
  assert.deepEqual(anonymous(report), anonymous(await calmReport(each)))
  if (table) assert.deepEqual(await written(app, table), numbers)
}

/** Drops ids of tasks, which differ. */
function anonymous(report: object): unknown {
  return JSON.parse(JSON.stringify(report).replaceAll(/tasks\/[\w-]+/g, 'tasks/…'))
}

for (const [outage, title] of [['refuse', 'refuses connections'], ['swallow', 'does not respond']] as const) {
  describe(`a database that ${title} for ${OUTAGE_MS / 1000} s, with default options`, { concurrency: true }, () => {
    for (const engine of Object.keys(engines)) {
      for (const each of cases) {
        test(`${engine}: ${each[0]} completes, with the report of an undisturbed task`, async (t) => {
          await run(t, engine, outage, each)
        })
      }
    }
  })
}
