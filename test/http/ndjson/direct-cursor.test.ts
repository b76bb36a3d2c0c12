// Direct uploads with an Idempotency-Key whose application stores a cursor, and positions that expire.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import pg from 'pg'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { memory, MemoryBlobs, MemoryTaskEngine } from 'longhaul/memory'
import { ndjsonUpload, type RecordOutcome, type UploadResult } from 'longhaul/ndjson'
import { attach } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import { StoreUnavailableError, type Store } from 'longhaul/stores'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { listen } from '../kit/hosts.js'
import { ask } from '../kit/wire.js'

interface Row { readonly n: number }

const BATCH = 100

/** Lines of which each fiftieth is not JSON, and each 97th number is refused by `write`. */
function bodyOf(count: number, width: number): Buffer {
  const text = 'x'.repeat(width)
  const lines = Array.from({ length: count }, (_, n) => n % 50 === 7 ? 'not JSON' : `{"n":${n},"text":"${text}"}`)
  return Buffer.from(`${lines.join('\n')}\n`)
}

function expectedOf(count: number) {
  const all = Array.from({ length: count }, (_, n) => n)
  const written = all.filter((n) => n % 50 !== 7 && n % 97 !== 3)
  const failed = all.filter((n) => !written.includes(n)).map((n) => n + 1)
  return { written, failed, summary: { total: count, succeeded: written.length, failed: failed.length } }
}

/** A store whose saves of positions fail while `isAway` is true. */
function failable(store: Store) {
  const state = { isAway: false }
  const failing: Store = {
    shared: store.shared, close: () => store.close(), get: (key) => store.get(key),
    watch: (...all) => store.watch(...all), create: (...all) => store.create(...all),
    delete: (...all) => store.delete(...all), increment: (...all) => store.increment(...all),
    replace: async (...all) => {
      if (state.isAway && all[0].endsWith(':progress')) throw new StoreUnavailableError('The store is away')
      return store.replace(...all)
    },
  }
  return { failing, state }
}

/** A server over a store, and the database of its application: the rows, and a cursor for each upload. */
async function serve(t: TestContext, store: Store, { hasCursor = true, retentionMs = 60_000 } = {}) {
  const rows: number[] = []
  const cursors = new Map<string | undefined, string>()
  const resumed: string[] = []
  const on = { write: () => {} }
  const upload = ndjsonUpload<Row>({
    batchSize: BATCH, maxErrors: 10_000,
    write(records, { cursor, uploadId }) {
      const outcomes = records.map(({ n }): RecordOutcome | undefined => (
        n % 97 === 3 ? { error: { code: 'taken', message: 'It is taken.' } } : undefined
      ))
      rows.push(...records.filter((_, at) => outcomes[at] === undefined).map(({ n }) => n))
      cursors.set(uploadId, cursor(outcomes))
      on.write()
      return outcomes
    },
    ...hasCursor && {
      resume({ uploadId }) {
        resumed.push(uploadId)
        return cursors.get(uploadId)
      },
    },
    background: { name: 'rows', blobs: new MemoryBlobs() },
  })
  const tasks = createTasks({ engine: new MemoryTaskEngine(), store, definitions: [upload.task], retentionMs })
  const server = createServer()
  attach(server, router({ 'POST /rows': upload.handler(taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })) }))
  const running = await listen(server)
  t.after(async () => {
    await tasks.close()
    await running.close()
  })
  const send = async (body: Buffer, headers: Record<string, string>) => {
    const answer = await ask(running.port, 'POST', '/rows', { headers: { 'content-type': 'application/x-ndjson', ...headers }, body })
    const json = answer.headers['content-type'] === 'application/x-ndjson' ? {} : JSON.parse(answer.body) as object
    return { ...answer, json: json as UploadResult & { code?: string, committed?: { bytes: number } } }
  }
  const committed = async (key: string) => {
    const { json } = await send(Buffer.of(), { 'idempotency-key': key, 'upload-offset': '0' })
    assert.equal(json.code, 'upload_incomplete')
    return json.committed?.bytes ?? NaN
  }
  return { rows, cursors, resumed, on, send, committed }
}

describe('a direct upload whose application stores a cursor', () => {
  const sizes = { 'above 1 MiB': { count: 8000, width: 180 }, 'up to 1 MiB': { count: 1000, width: 10 } }
  for (const [size, { count, width }] of Object.entries(sizes)) {
    for (const whole of [true, false]) {
      test(`${size}, ${whole ? 'sent again' : 'the rest'}: a batch that was written but not saved is not written twice`, async (t) => {
        const { failing, state } = failable(memory().store)
        const { rows, resumed, on, send, committed } = await serve(t, failing)
        const body = bodyOf(count, width)
        let left = 4
        on.write = () => { state.isAway = --left === 0 }
        const first = await send(body, { 'idempotency-key': '"import"' })
        assert.equal(first.status, 503)
        assert.deepEqual(resumed, [], 'the first request has no cursor to ask for')
        state.isAway = false
        const offset = whole ? 0 : await committed('"import"')
        assert.equal(rows.length > 2 * BATCH, true)
        const answer = await send(body.subarray(offset), { 'idempotency-key': '"import"', ...!whole && { 'upload-offset': String(offset) } })
        const { written, failed, summary } = expectedOf(count)
        assert.deepEqual([answer.status, answer.json.summary], [200, summary])
        assert.deepEqual(answer.json.errors.map(({ line }) => line), failed)
        assert.deepEqual(rows, written)
        assert.equal(resumed.length, 1)
        const again = await send(body, { 'idempotency-key': '"import"' })
        assert.deepEqual([again.body, rows.length], [answer.body, written.length])
      })
    }
  }

  test('without it, that batch is written twice', async (t) => {
    const { failing, state } = failable(memory().store)
    const { rows, on, send } = await serve(t, failing, { hasCursor: false })
    const body = bodyOf(8000, 180)
    let left = 4
    on.write = () => { state.isAway = --left === 0 }
    assert.equal((await send(body, { 'idempotency-key': '"import"' })).status, 503)
    state.isAway = false
    const answer = await send(body, { 'idempotency-key': '"import"' })
    const { written, summary } = expectedOf(8000)
    assert.deepEqual(answer.json.summary, summary)
    assert.deepEqual([...new Set(rows)], written)
    assert.ok(rows.length > written.length && rows.length <= written.length + BATCH)
  })

  test('each key is an upload of its own; an upload that nothing continues has no id', async (t) => {
    const { cursors, send } = await serve(t, memory().store)
    const body = bodyOf(10, 10)
    for (const key of ['"one"', '"two"']) await send(body, { 'idempotency-key': key })
    assert.deepEqual([...cursors.keys()].map((id) => typeof id), ['string', 'string'])
    cursors.clear()
    await send(body, {})
    await send(body, { 'idempotency-key': '"lines"', 'accept': 'application/x-ndjson' })
    assert.deepEqual([...cursors.keys()], [undefined])
  })

  test('a cursor that is none is an error, and nothing is written again', async (t) => {
    const { failing, state } = failable(memory().store)
    const { rows, cursors, on, send } = await serve(t, failing)
    on.write = () => { state.isAway = true }
    await send(bodyOf(1000, 10), { 'idempotency-key': '"import"' })
    state.isAway = false
    const { length } = rows
    for (const id of cursors.keys()) cursors.set(id, 'no cursor')
    assert.equal((await send(bodyOf(1000, 10), { 'idempotency-key': '"import"' })).status, 500)
    assert.equal(rows.length, length)
  })
})

const stores: Record<string, (t: TestContext) => Promise<Store> | Store> = {
  'memory': () => memory().store,
  'Redis': async (t) => {
    const client = new Redis(await redisUrl())
    const { store } = redis({ client, namespace: randomBytes(6).toString('hex') })
    t.after(async () => {
      await store.close()
      client.disconnect()
    })
    return store
  },
  'PostgreSQL': async (t) => {
    const pool = new pg.Pool({ connectionString: await postgresUrl() })
    const { store } = postgres({ pool })
    t.after(async () => {
      await store.close()
      await pool.end()
    })
    return store
  },
}

describe('the position of a direct upload expires', () => {
  for (const [name, open] of Object.entries(stores)) {
    test(`${name}: the rest is then refused, and the key is that of a new upload`, async (t) => {
      const { failing, state } = failable(await open(t))
      const { rows, cursors, on, send, committed } = await serve(t, failing, { retentionMs: 3000 })
      const body = bodyOf(8000, 180)
      const { written, summary } = expectedOf(8000)
      let left = 20
      on.write = () => { state.isAway = --left === 0 }
      assert.equal((await send(body, { 'idempotency-key': '"import"' })).status, 503)
      state.isAway = false
      const offset = await committed('"import"')
      assert.ok(offset > 0)
      while (await committed('"import"') > 0);
      const rest = await send(body.subarray(offset), { 'idempotency-key': '"import"', 'upload-offset': String(offset) })
      assert.deepEqual([rest.status, rest.json.code, rest.json.committed], [409, 'upload_incomplete', { lines: 0, bytes: 0 }])
      rows.length = 0
      const whole = await send(body, { 'idempotency-key': '"import"' })
      assert.deepEqual([whole.status, whole.json.summary], [200, summary])
      assert.deepEqual(rows, written, 'its cursor is not that of the expired upload')
      assert.equal(cursors.size, 2)
    })
  }
})
