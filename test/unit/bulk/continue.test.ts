// A bulk task whose later run continues: what it reads, writes and reports.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory, MemoryBlobs } from '../../../adapters/memory/index.js'
import { bulkCreate, type SpooledBatch } from '../../../src/bulk/index.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import type { Call } from '../../../src/repositories/repository.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { testContext } from '../../../src/testing/index.js'
import { ask } from '../kit/bulk.js'

interface Row { readonly n: number }
interface Written { readonly id: string }

const BLOB = `bulk-create/${'a'.repeat(22)}`

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

describe('a bulk task that continues', () => {
  const create = (options: Partial<Parameters<typeof bulkCreate<Written, Row>>[0]>, blobs: Blobs) =>
    bulkCreate<Written, Row>({
      batchSize: 100,
      onError: () => undefined,
      ...options,
      repository: { createMany: () => [], ...options.repository },
      background: { name: 'create', blobs, attempts: 5 },
    })

  async function spooled(blobs: Blobs, count: number): Promise<SpooledBatch> {
    const body = Buffer.from(JSON.stringify(Array.from({ length: count }, (_, n) => ({ n }))))
    await blobs.put(BLOB, inPieces(body, 65_536), { ttlMs: 60_000 })
    return { blob: BLOB, coding: 'identity', size: body.length, items: count, list: 'none' }
  }

  const idsOf = (drafts: readonly Row[]): Written[] => drafts.map(({ n }) => ({ id: String(n) }))

  test('reads only the rest of the stored body, and continues the progress from there', async () => {
    const blobs = new MemoryBlobs()
    const body = await spooled(blobs, 40_000)
    const starts: number[] = []
    const watched: Blobs = {
      shared: false,
      stat: (key) => blobs.stat(key),
      put: (...args) => blobs.put(...args),
      delete: (key) => blobs.delete(key),
      renew: (key, ttlMs) => blobs.renew(key, ttlMs),
      close: () => blobs.close(),
      open: (key, range) => {
        if (key === BLOB) starts.push(range?.start ?? 0)
        return blobs.open(key, range)
      },
    }
    const first = new AbortController()
    const written: number[] = []
    const task = create({ streamAboveBytes: 1000, repository: { createMany: (drafts) => {
      if (Number(drafts[0]?.n) >= 20_000 && !first.signal.aborted) {
        first.abort(new Error('stopped'))
        throw new Error('The statement was cancelled')
      }
      written.push(...drafts.map(({ n }) => n))
      return idsOf(drafts)
    } } }, watched).task
    const one = { ...testContext(task, { attempt: 1 }), signal: first.signal }
    await assert.rejects(async () => task.run(body, one), /stopped/)
    const two = testContext(task, { attempt: 2, checkpoint: one.saved.at(-1) as never })
    const result = await task.run(body, two)
    assert.deepEqual(
      result.summary,
      { total: 40_000, succeeded: 40_000, failed: 0 },
      'a write that was aborted is not reported as unknown',
    )
    assert.deepEqual(written, Array.from({ length: 40_000 }, (_, n) => n))
    assert.ok(Number(starts.at(-1)) > body.size / 3, `it read from byte ${String(starts.at(-1))}`)
    assert.ok(Number(two.reports[0]?.done) >= 19_900, 'progress continues where it was')
  })

  test('only completes its report if all items are written already', async () => {
    const blobs = new MemoryBlobs()
    const body = await spooled(blobs, 250)
    let writes = 0
    const { task } = create({ repository: { createMany: (drafts) => {
      writes++
      return idsOf(drafts)
    } } }, blobs)
    const first = testContext(task, {})
    const result = await task.run({ ...body, list: 'all' }, first)
    const again = await task.run(
      { ...body, list: 'all' },
      testContext(task, { attempt: 2, checkpoint: first.saved.at(-1) as never }),
    )
    assert.deepEqual(again, result)
    assert.equal(writes, 3)
  })

  test('starts over if it is atomic and was not atomic before', async () => {
    const blobs = new MemoryBlobs()
    const body = await spooled(blobs, 250)
    const partly = create({ repository: { createMany: idsOf } }, blobs).task
    const first = testContext(partly, {})
    await partly.run(body, first)
    let written = 0
    const inside = { createMany: (drafts: readonly Row[]) => {
      written += drafts.length
      return idsOf(drafts)
    } }
    const whole = create({ atomic: true, repository: { ...inside, transaction: (work) => work(inside) } }, blobs).task
    const { summary } = await whole.run(body, testContext(whole, { attempt: 2, checkpoint: first.saved[0] as never }))
    assert.deepEqual([summary.succeeded, written], [250, 250])
  })

  test('ends with a message that says what resume must return, if resume returns something else', async () => {
    const blobs = new MemoryBlobs()
    const body = await spooled(blobs, 2)
    for (const stored of [
      '', '{}', 'item 5', '{"succeeded":-1,"failed":0,"length":0,"report":{"parts":[],"rest":""}}',
      '{"succeeded":1,"failed":0,"length":0,"report":{"parts":5,"rest":""}}',
    ]) {
      const { task } = create({ resume: () => stored }, blobs)
      await assert.rejects(
        async () => task.run(body, testContext(task, { attempt: 2 })),
        /bulkCreate: resume must return a text that cursor\(\) has made/,
      )
    }
  })

  test('needs one outcome for each item if it stores a cursor', async () => {
    const blobs = new MemoryBlobs()
    const body = await spooled(blobs, 2)
    const errors: unknown[] = []
    for (const outcomes of [undefined, [{ id: '1' }]]) {
      const { task } = create(
        {
          onError: (error) => errors.push(error),
          repository: {
            createMany: (drafts, { cursor }) => {
              cursor?.(outcomes)
              return idsOf(drafts)
            },
          },
        },
        blobs,
      )
      const { summary } = await task.run(body, testContext(task, { attempt: 5 }))
      assert.equal(summary.failed, 2)
    }
    assert.match(String(errors[0]), /cursor: pass the outcomes/)
    assert.match(String(errors[1]), /1 outcomes for 2 records/)
  })

  test('has no cursor if it is synchronous, and needs neither checkpoints nor blobs', async (t) => {
    const { store, engine, blobs } = memory()
    const calls: Call[] = []
    const bulk = create(
      {
        resume: () => assert.fail('a direct request does not resume'),
        repository: {
          createMany: (drafts, call) => {
            calls.push(call)
            return idsOf(drafts)
          },
        },
      },
      blobs,
    )
    const tasks = createTasks({ store, engine, definitions: [bulk.task] })
    t.after(() => tasks.close())
    const handler = bulk.handler(taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' }))
    const before = store.usage()
    const { status } = await ask(handler, { body: Array.from({ length: 250 }, (_, n) => ({ n })) })
    assert.equal(status, 201)
    assert.deepEqual(
      calls.map(({ cursor, taskId }) => [cursor, taskId]),
      [
        [undefined, undefined],
        [undefined, undefined],
        [undefined, undefined],
      ],
    )
    assert.equal(blobs.usage().blobs, 0)
    assert.deepEqual(store.usage(), before)
  })

  test('needs resume as a function, background, and a repository whose writes have a position', () => {
    const background = { name: 'create', blobs: new MemoryBlobs() }
    const repository = { createMany: () => [] }
    assert.throws(() => bulkCreate({ repository, resume: () => undefined }), /resume needs background/)
    assert.throws(() => bulkCreate({ repository, resume: 'now' as never, background }), /resume must be a function/)
    assert.throws(
      () => bulkCreate({ repository: { create: () => ({}) }, resume: () => undefined, background }),
      /resume needs a repository with createMany or updateMany/,
    )
  })
})
