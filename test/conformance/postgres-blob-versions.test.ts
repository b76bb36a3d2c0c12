// Versions of blobs in PostgreSQL: what readers keep, and what sweeps remove.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { postgres, type PostgresBlobs } from 'longhaul/postgres'
import { isStoreUnavailable } from 'longhaul/stores'
import pg from 'pg'
import { postgresUrl } from '../servers/postgres-url.js'

const KIB = 1024
/** Five chunks of 256 KiB, the last one with one byte. */
const SIZE = 1024 * KIB + 1
const later = { ttlMs: 600_000 }

describe('PostgresBlobs: versions', async () => {
  const pool = new pg.Pool({ connectionString: await postgresUrl() })
  after(() => pool.end())

  /** Blobs in a schema of their own. */
  function open(schema: string, max?: number): PostgresBlobs {
    const own = max === undefined ? pool : new pg.Pool({ ...pool.options, max })
    if (own !== pool) after(() => own.end())
    const { blobs } = postgres({ pool: own, schema })
    after(() => blobs.close())
    return blobs
  }

  async function count(schema: string): Promise<readonly number[]> {
    const tables = ['blobs', 'blob_versions', 'blob_chunks']
    const sql = tables.map((table) => `(select count(*) from ${schema}.${table})::int as ${table}`)
    const { rows: [row] } = await pool.query<Record<string, number>>(`select ${sql.join(', ')}`)
    return tables.map((table) => row?.[table] ?? -1)
  }

  async function sweepAll(...all: readonly PostgresBlobs[]): Promise<void> {
    while ((await Promise.all(all.map((blobs) => blobs.sweep()))).includes(true));
  }

  test('no row is larger than a chunk', async () => {
    await open('rows').put('key', bytes(SIZE), later)
    const { rows } = await pool.query(
      'select position::int, octet_length(data) from rows.blob_chunks order by position',
    )
    assert.deepEqual(rows.map(({ octet_length }) => octet_length), [
      256 * KIB, 256 * KIB, 256 * KIB, 256 * KIB, 1,
    ])
    assert.deepEqual(rows.map(({ position }) => position), [0, 1, 2, 3, 4].map((at) => at * 256 * KIB))
  })

  for (const end of ['replaced', 'deleted', 'expired']) {
    test(`a sweep keeps a blob that was ${end} for its current readers only`, async () => {
      const schema = `held_${end}`
      const blobs = open(schema)
      const other = open(schema)
      await blobs.put('key', bytes(SIZE), later)
      const reader = await begin(blobs)
      const late = (await blobs.open('key')) ?? assert.fail()
      if (end === 'replaced') await other.put('key', bytes(1), later)
      if (end === 'deleted') assert.equal(await other.delete('key'), true)
      if (end === 'expired') await expire(schema)
      await sweepAll(other, blobs)
      assert.equal((await count(schema))[2], end === 'replaced' ? 6 : 5)
      assert.equal(await reader.rest(), SIZE)
      await endLeases(schema)
      await sweepAll(other)
      assert.deepEqual(await count(schema), end === 'replaced' ? [1, 1, 1] : [0, 0, 0])
      await assert.rejects(sizeOf(late), isStoreUnavailable)
    })
  }

  test('a blob without readers is swept at once', async () => {
    const blobs = open('unread')
    for (let at = 0; at < 150; at++) await blobs.put(`key-${at}`, bytes(10), later)
    await blobs.put('large', bytes(10 * SIZE), later)
    await blobs.put('kept', bytes(10), later)
    await expire('unread', "key <> 'kept'")
    await sweepAll(blobs)
    assert.deepEqual(await count('unread'), [1, 1, 1])
    assert.equal((await blobs.stat('kept'))?.size, 10)
  })

  test('a reader that loses its lease fails, and never returns fewer bytes than requested', async () => {
    const blobs = open('lost')
    await blobs.put('key', bytes(SIZE), later)
    const reader = await begin(blobs)
    await blobs.delete('key')
    await endLeases('lost')
    await sweepAll(blobs)
    await assert.rejects(reader.rest(), isStoreUnavailable)
  })

  test('a sweep removes the chunks of a failed put, and not those of an active put', async () => {
    const blobs = open('failed')
    const failure = new Error('the client went away')
    await assert.rejects(blobs.put('key', failing(bytes(SIZE), failure), later), failure)
    const source = gate(bytes(SIZE))
    const put = blobs.put('slow', source.content, later)
    await source.waiting
    // The end of the failed put is written in the background.
    while ((await count('failed'))[1] !== 1) await sweepAll(blobs)
    assert.equal((await count('failed'))[0], 0)
    source.open()
    assert.equal((await put).size, SIZE)
    assert.equal(await sizeOf(await blobs.open('slow') ?? assert.fail()), SIZE)
  })

  test('a put fails and leaves nothing if its process was suspended until a sweep removed its chunks', async () => {
    const blobs = open('away')
    await blobs.put('key', bytes(10), later)
    const source = gate(bytes(SIZE))
    const put = assert.rejects(blobs.put('key', source.content, later), isStoreUnavailable)
    await source.waiting
    // Three of five chunks, and the other blob.
    while ((await count('away'))[2] !== 4) await setImmediate()
    await endLeases('away')
    await sweepAll(blobs)
    source.open()
    await put
    assert.equal((await blobs.stat('key'))?.size, 10)
    await sweepAll(blobs)
    assert.deepEqual(await count('away'), [1, 1, 1])
  })

  test('neither a slow reader nor slow content holds a connection', async () => {
    const blobs = open('slow', 1)
    await blobs.put('key', bytes(SIZE), later)
    const reader = await begin(blobs)
    const source = gate(bytes(SIZE))
    const put = blobs.put('other', source.content, later)
    await source.waiting
    assert.equal((await blobs.stat('key'))?.size, SIZE)
    source.open()
    await put
    assert.equal(await reader.rest(), SIZE)
  })

  test('content is not read faster than the database writes it', async () => {
    const blobs = open('locked')
    await blobs.put('key', bytes(10), later)
    const client = await pool.connect()
    await client.query('begin')
    await client.query('lock table locked.blob_chunks in exclusive mode')
    let taken = 0
    const content = tapped(bytes(100 * SIZE), () => { taken++ })
    await assert.rejects(blobs.put('key', content, later), isStoreUnavailable)
    await client.query('rollback')
    client.release()
    assert.ok(taken * 64 * KIB <= 3 * 256 * KIB, `${taken} pieces`)
    assert.equal((await open('locked').stat('key'))?.size, 10)
  })

  test('each blob stays whole while two processes write, read and sweep the same keys', async () => {
    const both = [open('race'), open('race')]
    const until = Date.now() + 3000
    const sizes = [1, 256 * KIB, 256 * KIB + 1, SIZE]
    const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)] as T
    let reads = 0
    const worker = async (): Promise<void> => {
      while (Date.now() < until || (reads <= 10 && Date.now() < until + 30_000)) {
        const blobs = pick(both)
        const key = pick(['a', 'b', 'c'])
        const act = Math.random()
        if (act < 0.35)
          await blobs.put(key, bytes(pick(sizes), Math.floor(Math.random() * 256)), { ttlMs: pick([-1, 20, 600_000]) })
        else if (act < 0.45) await blobs.delete(key)
        else if (act < 0.55) await blobs.sweep()
        else {
          const info = await blobs.stat(key)
          const content = info && (await blobs.open(key, { etag: info.etag }))
          if (!content) continue
          try {
            assert.equal(await sizeOf(content, true), info.size)
            reads++
          } catch (error) {
            // It was removed between `open` and the first chunk.
            if (!isStoreUnavailable(error) || !error.message.includes('removed before')) throw error
          }
        }
      }
    }
    await Promise.all(Array.from({ length: 8 }, worker))
    assert.ok(reads > 10, `${reads} reads`)
    await expire('race')
    await endLeases('race')
    await sweepAll(...both)
    assert.deepEqual(await count('race'), [0, 0, 0])
  })

  async function expire(schema: string, where = 'true'): Promise<void> {
    await pool.query(`update ${schema}.blobs set expires_at = now() where ${where}`)
    await pool.query(`update ${schema}.blob_versions set expires_at = now() where ${where}`)
  }

  /** As if every process that holds a lease was killed 15 minutes ago. */
  async function endLeases(schema: string): Promise<void> {
    await pool.query(`update ${schema}.blob_versions set lease_until = now()`)
  }
})

/** Yields `size` bytes of one value, in pieces of 64 KiB. */
async function* bytes(size: number, value = 7): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < size; at += 64 * KIB) yield Buffer.alloc(Math.min(64 * KIB, size - at), value)
}

async function* failing(content: AsyncIterable<Uint8Array>, error: Error): AsyncGenerator<Uint8Array> {
  yield* content
  throw error
}

async function* tapped(content: AsyncIterable<Uint8Array>, each: () => void): AsyncGenerator<Uint8Array> {
  for await (const piece of content) {
    each()
    yield piece
  }
}

/** Content that waits before its end until `open` is called. */
function gate(content: AsyncIterable<Uint8Array>): {
  readonly content: AsyncIterable<Uint8Array>, readonly waiting: Promise<void>, readonly open: () => void,
} {
  let open = (): void => undefined
  let wait = (): void => undefined
  const opened = new Promise<void>((resolve) => { open = resolve })
  const waiting = new Promise<void>((resolve) => { wait = resolve })
  const gated = async function* (): AsyncGenerator<Uint8Array> {
    for await (const piece of content) {
      if (piece.byteLength < 64 * KIB) {
        wait()
        await opened
      }
      yield piece
    }
  }
  return { content: gated(), waiting, open }
}

/** Reads the first chunk of a blob, and later the rest. */
async function begin(blobs: PostgresBlobs): Promise<{ readonly rest: () => Promise<number> }> {
  const content = (await blobs.open('key')) ?? assert.fail()
  const iterator = content[Symbol.asyncIterator]()
  const first = await iterator.next()
  assert.ok(first.done !== true)
  const size = first.value.byteLength
  return { rest: async () => size + await sizeOf({ [Symbol.asyncIterator]: () => iterator }) }
}

async function sizeOf(content: AsyncIterable<Uint8Array>, isUniform = false): Promise<number> {
  let size = 0
  let value: number | undefined
  for await (const piece of content) {
    value ??= piece[0]
    if (isUniform) assert.ok(piece.every((byte) => byte === value), 'bytes of another blob')
    size += piece.byteLength
  }
  return size
}
