// A bulk task that is killed at any point and continues, on memory blobs.
import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import {
  bulkCreate, bulkItems, type BulkTask, type BulkTaskResult, type SpooledBatch,
} from '../../../src/bulk/index.js'
import { httpError, isHttpError, type HttpError } from '../../../src/http/errors.js'
import type { Call } from '../../../src/repositories/repository.js'
import type { RecordPosition } from '../../../src/records/position.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import { partKeys, type PartList } from '../../../src/stores/parts.js'
import type { PartsCheckpoint } from '../../../src/tasks/definition/run-context.js'
import type { TaskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { inject, testContext } from '../../../src/testing/index.js'

interface Row { readonly n: number, readonly text?: string | undefined }
interface Written { readonly id: string }

const BLOB = `bulk-create/${'a'.repeat(22)}`
const TASK = 'test'
const BATCH = 7

/** How the application writes: with a stored cursor, without one, one by one, or all or nothing. */
type Mode = 'cursor' | 'many' | 'one' | 'atomic' | 'atomic cursor'

interface Way {
  readonly mode?: Mode
  readonly items?: '' | '/data/users'
  readonly coding?: 'identity' | 'gzip'
  /** The n-th time that one of the points is reached. */
  readonly kills?: readonly number[]
  readonly streamAboveBytes?: number
  readonly maxReportBytes?: number
  readonly maxInlineBytes?: number
}

interface Bulk {
  readonly result: BulkTaskResult
  readonly all: string
  readonly failed: string
  /** The numbers that the database has, in the order of the writes. */
  readonly rows: readonly number[]
  readonly runs: number
  readonly blobs: MemoryBlobs
  readonly parts: PartList
  readonly release: () => unknown
}

async function bulkOf(values: readonly unknown[], way: Way = {}): Promise<Bulk> {
  const { items = '', coding = 'identity', kills = [] } = way
  const text = JSON.stringify(
    items === '' ? values : { before: ['}'], data: { users: values, after: 1 } },
    null,
    values.length % 2,
  )
  const body = coding === 'gzip' ? gzipSync(text) : Buffer.from(text)
  const blobs = new MemoryBlobs()
  await blobs.put(BLOB, inPieces(body, 777), { ttlMs: 600_000 })
  const database: Database = { rows: [], cursor: undefined }
  const spooled: SpooledBatch = { blob: BLOB, coding, size: body.length, items: values.length, list: 'all' }
  let saved: unknown
  let parts: PartList = []
  let left = kills
  for (let attempt = 1; ; attempt++) {
    const life = new Life(left)
    const task = taskOf(way, database, life, life.watch(blobs))
    const context = {
      ...testContext(task, { attempt, ...(saved !== undefined && { checkpoint: saved as never }) }),
      taskId: TASK,
    }
    const { save } = context.checkpoint
    const checkpoint: PartsCheckpoint<RecordPosition> = context.checkpoint
    checkpoint.save = async (value, list) => {
      await life.point()
      await save(value)
      saved = JSON.parse(JSON.stringify(value))
      parts = list ?? parts
      assert.ok(Buffer.byteLength(JSON.stringify(value)) <= 65_536)
      await life.point()
    }
    const result = await Promise.race([task.run(spooled, context), life.ended])
    left = life.left
    if (result === undefined) continue
    return {
      result, rows: database.rows, runs: attempt, blobs, parts,
      release: () => task.external?.release(BLOB, { id: TASK, attempt, status: 'completed', parts }),
      all: await reportOf(blobs, parts, ''), failed: await reportOf(blobs, parts, 'only=failed'),
    }
  }
}

/** What outlives a process, beside the blobs and the checkpoint. */
interface Database { rows: number[], cursor: string | undefined }

/** Life of a process. When it is killed, nothing that it waits for ever settles. */
class Life {
  left: readonly number[]
  readonly ended: Promise<undefined>
  private isDead = false
  private end: () => void = () => undefined

  constructor(kills: readonly number[]) {
    this.left = kills
    this.ended = new Promise((resolve) => { this.end = () => { resolve(undefined) } })
  }

  /** A point at which the process may be killed. */
  async point(): Promise<void> {
    const [next, ...later] = this.left
    if (!this.isDead && next === undefined) return
    if (!this.isDead && next !== 0) {
      this.left = [Number(next) - 1, ...later]
      return
    }
    if (!this.isDead) this.left = later
    this.isDead = true
    this.end()
    await new Promise(() => undefined)
  }

  watch(blobs: MemoryBlobs): Blobs {
    return {
      shared: false, stat: (key) => blobs.stat(key), open: (key, range) => blobs.open(key, range),
      delete: (key) => blobs.delete(key), renew: (key, ttlMs) => blobs.renew(key, ttlMs), close: () => blobs.close(),
      put: async (...args: Parameters<Blobs['put']>) => {
        await this.point()
        const info = await blobs.put(...args)
        await this.point()
        return info
      },
    }
  }
}

function taskOf(way: Way, database: Database, life: Life, blobs: Blobs): BulkTask {
  const { mode = 'many', items = '', streamAboveBytes = 2000, maxReportBytes = 3000, maxInlineBytes = 500 } = way
  const atomic = mode.startsWith('atomic')
  const createMany = async (drafts: readonly Row[], call: Call): Promise<(Written | HttpError)[]> => {
    await life.point()
    assert.equal(call.taskId, TASK)
    if (mode === 'cursor') assert.equal(call.previous, database.cursor)
    const outcomes = drafts.map((draft) => (atomic ? { id: `id-${draft.n}` } : outcomeOf(draft)))
    const cursor = call.cursor?.(outcomes)
    await life.point()
    // One transaction.
    database.rows.push(...drafts.filter((_, at) => !isHttpError(outcomes[at])).map(({ n }) => n))
    database.cursor = cursor
    await life.point()
    return outcomes
  }
  const create = async (draft: Row): Promise<Written> => {
    await life.point()
    const outcome = outcomeOf(draft)
    if (isHttpError(outcome)) throw outcome
    database.rows.push(draft.n)
    await life.point()
    return outcome
  }
  const transaction = async <R>(work: (inside: never) => Promise<R>, call: Call): Promise<R> => {
    const rows: number[] = []
    const inside = {
      createMany: async (drafts: readonly Row[], inner: Call) => {
        assert.equal(inner.cursor, undefined)
        await life.point()
        rows.push(...drafts.map(({ n }) => n))
        return drafts.map(({ n }) => ({ id: `id-${n}` }))
      },
    }
    assert.throws(() => call.cursor?.(), /after work has resolved/)
    if (mode === 'atomic cursor') assert.equal(call.previous, database.cursor)
    const result = await work(inside as never)
    await life.point()
    database.rows.push(...rows)
    database.cursor = call.cursor?.()
    await life.point()
    return result
  }
  return bulkCreate<Written, Row>({
    repository: mode === 'one' ? { create } : { createMany, ...(atomic && { transaction }) },
    atomic,
    schema: z.object({ n: z.number(), text: z.string().optional() }),
    key: ({ n }) => String(n),
    onError: () => undefined,
    batchSize: BATCH,
    concurrency: 3,
    items,
    otherMembers: 'ignore',
    streamAboveBytes,
    maxReportBytes,
    ...(mode.includes('cursor') && {
      resume: ({ taskId }) => {
        assert.equal(taskId, TASK)
        return database.cursor
      },
    }),
    background: { name: 'create', blobs, attempts: 1000, maxInlineBytes },
  }).task
}

function outcomeOf({ n }: Row): Written | HttpError {
  if (n % 11 !== 3) return { id: n % 2 === 0 ? `id-${n}` : `"${n}"` }
  const details = [{ pointer: '/n', message: 'is taken' }]
  return httpError('conflict', { message: `The number ${n} is taken: ${'very '.repeat(n % 5)}`, details })
}

/** Reads the items of the completed task as a client does. */
async function reportOf(blobs: MemoryBlobs, parts: PartList, query: string): Promise<string> {
  const task = { status: 'completed', attempt: 1, details: { external: BLOB, parts } }
  const endpoints = { find: () => task } as unknown as TaskEndpoints
  const response = await inject(bulkItems({ endpoints, blobs }), { path: `/items?${query}` })
  return response.status === 200 ? response.text() : ''
}

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const seen = ({ result, all, failed }: Bulk): object => ({ result, all, failed })

/** Items of all kinds. `n` counts the records; `same` repeats an earlier one. */
function itemsOf(kinds: readonly string[]): unknown[] {
  let n = 0
  return kinds.map((kind) => {
    if (kind === 'record') return { n: n++ }
    if (kind === 'wide') return { n: n++, text: 'wide '.repeat(200) }
    if (kind === 'same') return { n: Math.max(n - 5, 0) }
    if (kind === 'inexact') return { n: 2 ** 53 + 2 }
    return kind === 'invalid' ? { n: 'x' } : 5
  })
}

const byNumber = (a: number, b: number): number => a - b

const kinds = fc.array(
  fc.constantFrom('record', 'record', 'record', 'record', 'wide', 'same', 'invalid', 'inexact', 'other'),
  { minLength: 1, maxLength: 300, size: 'max' },
)
const kills = fc.array(fc.nat(40), { maxLength: 12, size: 'max' })
const ways = fc.record({
  items: fc.constantFrom('', '/data/users'), coding: fc.constantFrom('identity', 'gzip'),
  streamAboveBytes: fc.constantFrom(0, 500, 1_000_000), maxInlineBytes: fc.constantFrom(0, 500, 1_000_000),
}) as fc.Arbitrary<Way>

describe('a bulk task that is killed at any point', () => {
  test('writes each item once with a cursor, with the report of an undisturbed run', async () => {
    await fc.assert(fc.asyncProperty(kinds, kills, ways, async (all, at, way) => {
      const values = itemsOf(all)
      const calm = await bulkOf(values, { ...way, mode: 'cursor' })
      const killed = await bulkOf(values, { ...way, mode: 'cursor', kills: at })
      assert.deepEqual(seen(killed), seen(calm))
      assert.deepEqual(killed.rows, calm.rows)
    }), { numRuns: 80 })
  })

  for (const mode of ['many', 'one'] as const) {
    test(`writes at most one batch twice for each kill without a cursor, with the same report (${mode})`, async () => {
      await fc.assert(fc.asyncProperty(kinds, kills, ways, async (all, at, way) => {
        const values = itemsOf(all)
        const calm = await bulkOf(values, { ...way, mode })
        const killed = await bulkOf(values, { ...way, mode, kills: at })
        assert.deepEqual(seen(killed), seen(calm))
        assert.deepEqual([...new Set(killed.rows)].toSorted(byNumber), [...new Set(calm.rows)].toSorted(byNumber))
        assert.ok(killed.rows.length - calm.rows.length <= BATCH * (killed.runs - 1))
      }), { numRuns: 80 })
    })
  }

  test('writes an atomic batch at least once, or exactly once with a cursor, with the same report', async () => {
    const good = fc.array(fc.constantFrom('record', 'wide'), { minLength: 1, maxLength: 200, size: 'max' })
    await fc.assert(fc.asyncProperty(good, kills, ways, fc.boolean(), async (all, at, way, bad) => {
      const values = [...itemsOf(all), ...bad ? [{ n: 'x' }] : []]
      const calm = await bulkOf(values, { ...way, mode: 'atomic cursor' })
      assert.equal(calm.rows.length, bad ? 0 : values.length)
      const once = await bulkOf(values, { ...way, mode: 'atomic cursor', kills: at })
      assert.deepEqual([seen(once), once.rows], [seen(calm), calm.rows])
      const atLeastOnce = await bulkOf(values, { ...way, mode: 'atomic', kills: at })
      assert.deepEqual(seen(atLeastOnce), seen(calm))
      assert.deepEqual([...new Set(atLeastOnce.rows)], calm.rows)
    }), { numRuns: 60 })
  })

  test('keeps a report that does not fit into a checkpoint, until the task ends', async () => {
    const values = itemsOf(Array.from({ length: 3000 }, (_, at) => (at % 9 === 8 ? 'invalid' : 'record')))
    for (const mode of ['cursor', 'many', 'one'] as const) {
      const way = { mode, maxReportBytes: 200_000, maxInlineBytes: 100 }
      const calm = await bulkOf(values, way)
      assert.ok(calm.all.length > 150_000)
      const killed = await bulkOf(values, { ...way, kills: [500, 200, 10, 3, 100, 100] })
      assert.equal(killed.runs, 7)
      assert.deepEqual(seen(killed), seen(calm))
      const parts = partKeys(BLOB, killed.parts).length
      assert.ok(parts > 5)
      assert.ok(killed.blobs.usage().blobs > parts, 'the body, and the parts')
      await killed.release()
      assert.equal(killed.blobs.usage().blobs, parts, 'the parts are the report')
    }
  })
})
