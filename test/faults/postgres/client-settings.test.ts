// Settings of `pg` and of the connection with which values come back in other forms than by default.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'

const server = await postgresForFile()

/** A value that is no number, as parsers for decimals and big integers return. */
class Decimal {
  constructor(private readonly text: string) {}
  valueOf(): string { return this.text }
  toString(): string { return this.text }
}

/** OIDs: int8, int2, int4, float4, float8, numeric; timestamptz; bytea; json, jsonb. */
const NUMBERS = [20, 21, 23, 700, 701, 1700]
const OTHERS = [1114, 1184, 17, 114, 3802]
type Parsers = Readonly<Record<number, (text: string) => unknown>>

function typesOf(parsers: Parsers) {
  return {
    getTypeParser: (oid: number, format?: 'text' | 'binary') => (
      parsers[oid] ?? pg.types.getTypeParser(oid, format)
    ),
  }
}

const parsersOf = (oids: readonly number[], parse: (text: string) => unknown): Parsers => (
  Object.fromEntries(oids.map((oid) => [oid, parse]))
)

const SETTINGS: Readonly<Record<string, pg.PoolConfig>> = {
  'parsers that return numbers as strings': { types: typesOf(parsersOf(NUMBERS, String)) },
  'parsers that return numbers as objects': {
    types: typesOf(parsersOf(NUMBERS, (text) => new Decimal(text))),
  },
  'parsers that return big integers': { types: typesOf(parsersOf([20, 21, 23], BigInt)) },
  'parsers that fail for dates, bytes and JSON': {
    types: typesOf(parsersOf(OTHERS, () => { throw new Error('not expected') })),
  },
  'other styles of dates, bytes, floats and strings': {
    options: '-c DateStyle=German -c TimeZone=Asia/Kathmandu -c bytea_output=escape -c extra_float_digits=0'
      + ' -c IntervalStyle=sql_standard -c standard_conforming_strings=on',
  },
  'a search_path without a schema of ours, and a statement_timeout': {
    options: '-c search_path=nowhere -c statement_timeout=20000',
  },
}

describe('PostgreSQL with settings of the client', () => {
  for (const [n, [name, config]] of Object.entries(SETTINGS).entries()) {
    for (const preparedStatements of [false, true]) {
      test(`works with ${name}${preparedStatements ? ', prepared' : ''}`, async (t) => {
        const pool = new pg.Pool({ connectionString: server.url, ...config })
        const parts = postgres({ pool, schema: `s${String(n)}_${String(preparedStatements)}`, preparedStatements })
        const work = defineTask({
          name: 'work', run: async ({ n }: { n: number }, { progress }) => {
            progress(1, 2)
            return { n }
          },
        })
        const tasks = createTasks({ ...parts, definitions: [work] })
        t.after(async () => {
          await tasks.close({ drainMs: 0 })
          await Promise.all([parts.store.close(), parts.blobs.close()])
          await pool.end()
        })
        const before = Date.now() - 60_000
        const later = await tasks.submit(work, { n: 0 }, { owner: 'ann', delayMs: 60_000 })
        const now = await tasks.submit(work, { n: 1.5 }, { owner: 'ann' })
        const ended = await now.wait({ timeoutMs: 20_000 })
        assert.ok(ended?.status === 'completed' && ended.result.n === 1.5)
        assert.ok(ended.createdAt.getTime() > before)
        assert.equal((await later.get())?.status, 'scheduled')
        const listed = (await tasks.ownedBy('ann').list()).items
        assert.deepEqual(listed.map(({ taskId }) => taskId).sort(), [later.taskId, now.taskId].sort())
        assert.deepEqual(await tasks.pools(), [
          { pool: 'default', isPaused: false, running: 0, waiting: 0, delayed: 1 },
        ])
        const stored = await parts.engine.read(now.taskId)
        for (const property of ['version', 'run', 'createdAt', 'expiresAt', 'priority'] as const) {
          assert.equal(typeof stored?.[property], 'number', property)
        }
        const { store, blobs } = parts
        const options = { ttlMs: 60_000 }
        assert.equal((await store.create('key', 'value', options)).created, true)
        assert.equal((await store.get('key') as { value: string }).value, 'value')
        await store.increment('count', 2, options)
        const { value, resetMs } = await store.increment('count', 3, options)
        assert.ok(value === 5 && typeof resetMs === 'number' && resetMs > 0)
        const bytes = new Uint8Array([0, 1, 128, 255])
        const put = await blobs.put('blob', (async function* () { yield bytes })(), options)
        assert.deepEqual(await blobs.stat('blob'), put)
        const read: Uint8Array[] = []
        for await (const chunk of await blobs.open('blob') ?? []) read.push(chunk)
        assert.deepEqual([...Buffer.concat(read)], [...bytes])
        await blobs.renew('blob', 90_000)
        assert.equal((await later.cancel())?.status, 'cancelled')
        assert.equal((await tasks.health()).ok, true)
      })
    }
  }

  test('a client with binary: true, which makes pg read numbers inexactly, gets an error at the first use', async (t) => {
    const pool = new pg.Pool({ connectionString: server.url, binary: true } as pg.PoolConfig)
    const { engine, store, blobs } = postgres({ pool })
    t.after(async () => {
      await Promise.all([store.close(), blobs.close(), engine.close({ drainMs: 0 })])
      await pool.end()
    })
    await assert.rejects(engine.now(), { name: 'TypeError', message: /Remove binary: true/ })
  })

  test('a prepared statement works after a change of the type of a column', async (t) => {
    const pool = new pg.Pool({ connectionString: server.url, max: 2 })
    const { engine, store, blobs } = postgres({ pool, schema: 'altered', preparedStatements: true })
    t.after(async () => {
      await Promise.all([store.close(), blobs.close(), engine.close({ drainMs: 0 })])
      await pool.end()
    })
    for (const type of ['varchar(600)', 'text']) {
      for (let n = 0; n < 3; n++) {
        await store.create('key', 'value', { ttlMs: 60_000 })
        await store.get('key')
        assert.equal(await engine.readByKey('nobody'), undefined)
      }
      await server.query(`ALTER TABLE altered.task_rows ALTER COLUMN result TYPE ${type}`)
      assert.equal(await engine.readByKey('nobody'), undefined)
    }
  })
})
