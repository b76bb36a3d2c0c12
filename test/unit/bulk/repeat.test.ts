// A bulk task whose repository fails: what the next attempt repeats, and what it must not repeat.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { bulkCreate, type BulkTask, type SpooledBatch } from '../../../src/bulk/index.js'
import { httpError, isHttpError } from '../../../src/http/errors.js'
import type { Call } from '../../../src/repositories/repository.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import { testContext } from '../../../src/testing/index.js'
import { ask, statuses } from '../kit/bulk.js'
import { keepAlive } from '../../kit/wait.js'

interface Row { readonly n: number }
interface Written { readonly id: string }
type Options = Partial<Parameters<typeof bulkCreate<Written, Row>>[0]>

const BLOB = `bulk-create/${'a'.repeat(22)}`
const ATTEMPTS = 3
const idsOf = (drafts: readonly Row[]): Written[] => drafts.map(({ n }) => ({ id: String(n) }))
const unavailable = (): Error => httpError('service_unavailable')
const lost = (): Error => new Error('The connection was lost')

async function* oneOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

/** A task over ten rows, and its attempts: each continues at the checkpoint of the one before. */
async function open(options: Options) {
  const blobs = new MemoryBlobs()
  const values = Array.from({ length: 10 }, (_, n) => ({ n }))
  const body = JSON.stringify(values)
  await blobs.put(BLOB, oneOf(body), { ttlMs: 60_000 })
  const spooled: SpooledBatch = { blob: BLOB, coding: 'identity', size: body.length, items: 10, list: 'all' }
  const { task } = bulkCreate<Written, Row>({
    batchSize: 5, onError: () => undefined, repository: {}, ...options,
    background: { name: 'create', blobs, attempts: ATTEMPTS },
  } as Parameters<typeof bulkCreate<Written, Row>>[0] & { background: object }) as { task: BulkTask }
  let saved: unknown
  const run = async (attempt: number) => {
    const context = testContext(task, { attempt, ...saved !== undefined && { checkpoint: saved as never } })
    try {
      const { items = [] } = await task.run(spooled, { ...context, taskId: 'test' })
      return items.map(({ status }) => status)
    } finally {
      saved = context.saved.at(-1) ?? saved
    }
  }
  return { run, blobs }
}

/** A repository that fails in the given calls of `createMany`, before or after the write. */
function failing(calls: Readonly<Record<number, () => Error>>, when: 'before' | 'after' = 'before') {
  const rows: number[] = []
  let count = 0
  let stored: string | undefined
  const createMany = (drafts: readonly Row[], { cursor }: Call): Written[] => {
    const error = calls[++count]
    if (error && when === 'before') throw error()
    rows.push(...drafts.map(({ n }) => n))
    stored = cursor?.(idsOf(drafts))
    if (error) throw error()
    return idsOf(drafts)
  }
  return { rows, repository: { createMany }, resume: () => stored }
}

const isCode = (code: string) => (error: unknown): boolean => isHttpError(error) && error.code === code
const all = Array.from({ length: 10 }, (_, n) => n)
const created = all.map(() => 201)

describe('a bulk task', () => {
  test('repeats a batch that the repository has not written, after a 503 or 429', async () => {
    for (const code of ['service_unavailable', 'too_many_requests'] as const) {
      const { rows, repository } = failing({ 2: () => httpError(code), 3: () => httpError(code) })
      const { run } = await open({ repository })
      await assert.rejects(run(1), isCode(code))
      await assert.rejects(run(2), isCode(code))
      assert.deepEqual(await run(3), created)
      assert.deepEqual(rows, all)
    }
  })

  test('fails if the repository is unavailable in the last attempt too, and a retry continues at the same batch', async () => {
    const { rows, repository } = failing({ 2: unavailable })
    const { run } = await open({ repository })
    await assert.rejects(run(ATTEMPTS), isCode('service_unavailable'))
    assert.deepEqual(await run(ATTEMPTS), created)
    assert.deepEqual(rows, all)
  })

  test('never repeats a batch of unknown outcome without a cursor, and waits before the next batch', async () => {
    for (const [when, expected] of [['before', [5, 6, 7, 8, 9]], ['after', all]] as const) {
      const { rows, repository } = failing({ 1: lost }, when)
      const { run } = await open({ repository })
      await assert.rejects(run(1), isCode('write_outcome_unknown'))
      assert.equal(rows.length, when === 'after' ? 5 : 0)
      assert.deepEqual(await run(2), [500, 500, 500, 500, 500, 201, 201, 201, 201, 201])
      assert.deepEqual(rows, expected)
    }
  })

  test('continues with the next batch in the last attempt', async () => {
    const { rows, repository } = failing({ 1: lost })
    const { run } = await open({ repository })
    assert.deepEqual(await run(ATTEMPTS), [500, 500, 500, 500, 500, 201, 201, 201, 201, 201])
    assert.deepEqual(rows, [5, 6, 7, 8, 9])
  })

  test('makes no second write for a synchronous request, whose report names the items that were not written', async () => {
    for (const [error, status] of [[unavailable, 503], [lost, 500]] as const) {
      const { repository } = failing({ 2: error })
      const handler = bulkCreate<Written, Row>({ batchSize: 5, onError: () => undefined, repository })
      const response = await ask(handler, { body: all.map((n) => ({ n })) })
      assert.deepEqual(
        [response.status, statuses(response)],
        [207, [201, 201, 201, 201, 201, ...Array.from({ length: 5 }, () => status)]],
      )
    }
  })

  test('with a cursor repeats a batch of unknown outcome, and writes each item once', async () => {
    for (const when of ['before', 'after'] as const) {
      const { rows, repository, resume } = failing({ 2: lost }, when)
      const { run } = await open({ repository, resume })
      await assert.rejects(run(1), /The connection was lost/)
      assert.deepEqual(await run(2), created)
      assert.deepEqual(rows, all)
    }
    const { repository, resume } = failing({ 2: lost })
    const { run } = await open({ repository, resume })
    assert.deepEqual(
      await run(ATTEMPTS),
      [201, 201, 201, 201, 201, 500, 500, 500, 500, 500],
      'in the last attempt its outcome is unknown',
    )
  })

  test('does not repeat a batch that the client\'s error has rejected', async () => {
    const { repository, resume } = failing({ 2: () => httpError('conflict') })
    const { run } = await open({ repository, resume })
    assert.deepEqual(await run(1), [201, 201, 201, 201, 201, 500, 500, 500, 500, 500])
  })

  test('with single writes repeats no written record, even if the writes end in another order', async () => {
    const rows: number[] = []
    let isAway = true
    const create = async ({ n }: Row): Promise<Written> => {
      // 2 fails while 3 and 4 are being written; 5 is not begun any more.
      await new Promise((resolve) => { setTimeout(resolve, n === 3 || n === 4 ? 20 : 1) })
      if (isAway && n >= 2 && n !== 3) throw unavailable()
      rows.push(n)
      return { id: String(n) }
    }
    const { run } = await open({ repository: { create }, concurrency: 3, batchSize: 500 })
    await assert.rejects(run(1), isCode('service_unavailable'))
    assert.deepEqual(rows, [0, 1, 3])
    isAway = false
    assert.deepEqual(await run(2), [201, 201, 503, 201, 201, 201, 201, 201, 201, 201])
    assert.deepEqual(rows.toSorted((a, b) => a - b), [0, 1, 3, 4, 5, 6, 7, 8, 9])
  })

  test('with an atomic batch starts over after any error before the commit', async () => {
    for (const error of [unavailable, lost]) {
      for (const method of ['create', 'createMany'] as const) {
        let rows: number[] = []
        let left = 1
        const inside = (into: number[]) => ({
          create: ({ n }: Row) => {
            if (n === 7 && left-- > 0) throw error()
            into.push(n)
            return { id: String(n) }
          },
          createMany: (drafts: readonly Row[]) => {
            if (drafts[0]?.n === 5 && left-- > 0) throw error()
            into.push(...drafts.map(({ n }) => n))
            return idsOf(drafts)
          },
        })
        const transaction = async <R>(work: (repository: never) => Promise<R>): Promise<R> => {
          const into: number[] = []
          const { [method]: write } = inside(into)
          const result = await work({ [method]: write } as never)
          rows = into
          return result
        }
        const { run } = await open({ atomic: true, repository: { [method]: inside([])[method], transaction } })
        await assert.rejects(run(1), error === lost ? /The connection was lost/ : isCode('service_unavailable'))
        assert.deepEqual(rows, [])
        assert.deepEqual(await run(2), created)
        assert.deepEqual(rows, all)
      }
    }
  })

  test('with an atomic batch repeats a commit of unknown outcome only with a cursor', async () => {
    for (const hasCursor of [true, false]) {
      let rows: number[] = []
      let stored: string | undefined
      let left = 1
      const transaction = async <R>(work: (repository: never) => Promise<R>, call: Call): Promise<R> => {
        const result = await work({ createMany: idsOf } as never)
        rows = [...rows, ...all]
        stored = call.cursor?.()
        if (left-- > 0) throw lost()
        return result
      }
      const { run } = await open({
        atomic: true, repository: { createMany: idsOf, transaction }, ...hasCursor && { resume: () => stored },
      })
      if (hasCursor) await assert.rejects(run(1), /The connection was lost/)
      assert.deepEqual(await run(hasCursor ? 2 : 1), hasCursor ? created : all.map(() => 500))
      assert.deepEqual(rows, all)
    }
  })

  test('waits for blobs that are unavailable, so that its report is complete', async (t) => {
    // The timers of the library do not keep the process alive.
    keepAlive(t)
    const { rows, repository } = failing({})
    const { run, blobs } = await open({ repository })
    const put = blobs.put.bind(blobs)
    let left = 3
    blobs.put = async (key, ...rest) => {
      if (key === `${BLOB}/1/0` && left-- > 0) throw new StoreUnavailableError('The blobs are away')
      return put(key, ...rest)
    }
    assert.deepEqual(await run(1), created)
    assert.ok(await blobs.stat(`${BLOB}/1/0`))
    assert.deepEqual(rows, all)
  })
})
