import assert from 'node:assert/strict'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { ndjsonUpload, type RecordOutcome, type UploadResult } from '../../../src/ndjson/index.js'
import type { UploadOptions } from '../../../src/ndjson/upload-options.js'
import type { RecordPosition } from '../../../src/records/position.js'
import type { PartList } from '../../../src/stores/parts.js'
import type { PartsCheckpoint } from '../../../src/tasks/definition/run-context.js'
import { testContext } from '../../../src/testing/index.js'

interface Row { readonly n: number }

const KILLED = new Error('killed')
const BLOB = `ndjson-upload/${'a'.repeat(22)}`

/** Points at which a process may die: around the write of the application and around the save. */
type Point = 'before write' | 'in write' | 'after write' | 'before save' | 'after save'
const POINTS: readonly Point[] = ['before write', 'in write', 'after write', 'before save', 'after save']

interface Import {
  readonly result: UploadResult
  /** The numbers that the database has, in the order of the writes. */
  readonly rows: readonly number[]
  readonly runs: number
}

/** Imports a body, and dies at these points: the n-th time that one is reached. */
async function importOf(
  body: Uint8Array, options: Partial<UploadOptions<Row>>,
  { coding = 'identity', cursor = false, kills = [], pieces = 65_536, blobs = new MemoryBlobs() }: {
    coding?: string, cursor?: boolean, kills?: readonly number[], pieces?: number, blobs?: MemoryBlobs
  } = {},
): Promise<Import> {
  const sent = coding === 'gzip' ? gzipSync(body) : body
  await blobs.put(BLOB, inPieces(sent, pieces), { ttlMs: 600_000 })
  const rows: number[] = []
  let stored: string | undefined
  let saved: unknown
  let left = [...kills]
  const point = (_: Point): void => {
    const [next] = left
    if (next === undefined) return
    left = next === 0 ? left.slice(1) : [next - 1, ...left.slice(1)]
    if (next === 0) throw KILLED
  }
  const { task } = ndjsonUpload<Row>({
    schema: z.object({ n: z.number() }), batchSize: 7, ...options,
    write: (records, context) => {
      point('before write')
      if (cursor) assert.equal(context.previous, stored)
      const outcomes = records.map(({ n }): RecordOutcome | undefined => (
        n % 11 === 3 ? { error: { code: 'taken', message: `The number ${n} is taken.` } } : undefined
      ))
      const at = context.cursor(outcomes)
      point('in write')
      // One transaction.
      rows.push(...records.filter((_, index) => outcomes[index] === undefined).map(({ n }) => n))
      stored = at
      point('after write')
      return outcomes
    },
    ...cursor && { resume: () => stored },
    background: { name: 'up', blobs, attempts: 1000 },
  })
  for (let attempt = 1; ; attempt++) {
    const context = testContext(task, { attempt, ...saved !== undefined && { checkpoint: saved as never } })
    const { save } = context.checkpoint
    context.checkpoint.save = async (value) => {
      point('before save')
      await save(value)
      saved = context.saved.at(-1)
      point('after save')
    }
    try {
      const result = await task.run({ blob: BLOB, coding, size: sent.length }, context)
      return { result, rows, runs: attempt }
    } catch (error) {
      assert.equal(error, KILLED)
    }
  }
}

/** Blobs that yield all bytes from the start of a range as one piece. */
class OnePieceBlobs extends MemoryBlobs {
  override async open(...range: Parameters<MemoryBlobs['open']>): Promise<AsyncIterable<Uint8Array> | undefined> {
    const bytes = await super.open(...range)
    return bytes && inPieces(await buffer(bytes), Infinity)
  }
}

/** A body with lines of all kinds. `n` counts the records. */
function bodyOf(kinds: readonly string[]): Buffer {
  let n = 0
  const lines = kinds.map((kind) => {
    if (kind === 'record') return `{"n":${n++}}`
    if (kind === 'wide') return `{"n":${n++},"text":"${'wide '.repeat(300)}"}`
    if (kind === 'invalid') return '{"n":"x"}'
    if (kind === 'bad') return 'not JSON'
    if (kind === 'long') return `{"text":"${'x'.repeat(3000)}"}`
    return ''
  })
  return Buffer.from(lines.join('\n'))
}

const kinds = fc.array(fc.constantFrom('record', 'record', 'record', 'wide', 'invalid', 'bad', 'long', 'blank'), {
  maxLength: 400,
  size: 'max',
})
const kills = fc.array(fc.nat(40), { maxLength: 12, size: 'max' })

describe('an import that is killed at any point', () => {
  for (const coding of ['identity', 'gzip']) {
    test(`writes each record once with a cursor, with the report of an undisturbed run (${coding})`, async () => {
      await fc.assert(fc.asyncProperty(kinds, kills, fc.integer({ min: 1, max: 3000 }), async (lines, at, pieces) => {
        const body = bodyOf(lines)
        const options = { maxLineBytes: 2000, maxErrors: 20 }
        const calm = await importOf(body, options, { pieces })
        const killed = await importOf(body, options, { kills: at, cursor: true, pieces, coding })
        assert.deepEqual(killed.result, calm.result)
        assert.deepEqual(killed.rows, calm.rows)
      }), { numRuns: 60 })
    })

    test(`writes at most one batch twice for each kill without a cursor, with the same report (${coding})`, async () => {
      await fc.assert(
        fc.asyncProperty(kinds, kills, fc.integer({ min: 1, max: 3000 }), async (lines, at, pieces) => {
          const body = bodyOf(lines)
          const options = { maxLineBytes: 2000, maxErrors: 20 }
          const calm = await importOf(body, options, { pieces })
          const killed = await importOf(body, options, { kills: at, pieces, coding })
          assert.deepEqual(killed.result, calm.result)
          assert.deepEqual([...new Set(killed.rows)], calm.rows)
          assert.ok(killed.rows.length - calm.rows.length <= 7 * (killed.runs - 1))
        }),
        { numRuns: 60 },
      )
    })
  }

  test('writes each record once if it is killed at each point and has bad lines', async () => {
    const body = bodyOf(Array.from({ length: 120 }, (_, at) => (at % 5 === 4 ? 'bad' : 'record')))
    const calm = await importOf(body, {})
    for (let at = 0; at < 14 * POINTS.length; at++) {
      const killed = await importOf(body, {}, { kills: [at] })
      assert.equal(killed.runs, 2, `point ${at} is reached`)
      assert.deepEqual(killed.result, calm.result)
      assert.ok(killed.rows.length - calm.rows.length <= 7, 'at most one batch is written again')
    }
  })

  test('keeps errors that do not fit into a checkpoint, in their order', async () => {
    const lines = Array.from({ length: 3000 }, (_, at) => `{"n":"${at} ${'x'.repeat(200)}"}`)
    const body = Buffer.from(
      [...lines, ...Array.from({ length: 500 }, (_, at) => `{"n":${at}}`)]
        .join('\n')
        .replaceAll('{"n":"7', '{"n":7}\n{"n":"7'),
    )
    const options = { maxErrors: 2500 }
    const calm = await importOf(body, options)
    assert.equal(calm.result.items.length, 2500)
    for (const cursor of [true, false]) {
      const killed = await importOf(body, options, { kills: [30, 60, 40, 5, 5, 20], cursor })
      assert.equal(killed.runs, 7)
      assert.deepEqual(killed.result, calm.result)
    }
  })

  test('commits no earlier position when a run reads a long line again', async () => {
    const lines = Array.from({ length: 6000 }, (_, n) => `{"n":${n}}`)
    // The second run divides the bytes into other blocks, because it begins at the long line.
    lines[0] = `{"n":0,"text":"${'x'.repeat(30_000)}"}`
    lines[1] = `{"n":1,"text":"${'x'.repeat(1_040_000)}"}`
    const body = Buffer.from(lines.join('\n'))
    const calm = await importOf(body, {})
    const saved = 200 * POINTS.length
    for (let at = 0; at < 2 * POINTS.length; at++) {
      const killed = await importOf(body, {}, { kills: [saved, at], blobs: new OnePieceBlobs() })
      assert.equal(killed.runs, 3)
      assert.deepEqual(killed.result, calm.result)
      assert.ok(killed.rows.length - calm.rows.length <= 14, 'at most one batch for each kill is written again')
    }
  })

  test('reads only the rest of the spooled bytes in a resumed run', async () => {
    const blobs = new MemoryBlobs()
    const body = Buffer.from(Array.from({ length: 40_000 }, (_, n) => `{"n":${n}}`).join('\n'))
    await blobs.put(BLOB, inPieces(body, 65_536), { ttlMs: 60_000 })
    const starts: (number | undefined)[] = []
    const watched = Object.assign(Object.create(blobs) as MemoryBlobs, {
      open: (key: string, range?: { start?: number }) => {
        starts.push(range?.start)
        return blobs.open(key, range)
      },
    })
    let stopAt = 20_000
    const { task } = ndjsonUpload<Row>({
      write: (records) => { if ((records[0] as Row).n >= stopAt) throw KILLED },
      background: { name: 'up', blobs: watched, attempts: 2 },
    })
    const spooled = { blob: BLOB, coding: 'identity', size: body.length }
    const first = testContext(task, { attempt: 1 })
    await assert.rejects(async () => task.run(spooled, first), KILLED)
    stopAt = Infinity
    const second = testContext(task, { attempt: 2, checkpoint: first.saved.at(-1) as never })
    const result = await task.run(spooled, second)
    assert.equal(result.summary.succeeded, 40_000)
    const [from] = starts.slice(1)
    assert.ok(from !== undefined && from > body.length / 3, `it read from byte ${String(from)}`)
    assert.ok((second.reports[0]?.done ?? 0) > from, 'progress goes on where it was')
  })

  test('ends with a message that says what resume must return, if resume returns something else', async () => {
    const blobs = new MemoryBlobs()
    await blobs.put(BLOB, inPieces(Buffer.from('{"n":1}'), 10), { ttlMs: 60_000 })
    for (const stored of ['', '{}', 'line 5', '{"byte":-1,"errors":[]}']) {
      const { task } = ndjsonUpload<Row>({
        write: () => undefined,
        resume: () => stored,
        background: { name: 'up', blobs, attempts: 2 },
      })
      await assert.rejects(
        async () => task.run({ blob: BLOB, coding: 'identity', size: 7 }, testContext(task, { attempt: 2 })),
        /resume must return a text that cursor\(\) has made/,
      )
    }
  })

  test('is rejected at construction if resume is not a function, or if background is missing', () => {
    const write = (): undefined => undefined
    assert.throws(() => ndjsonUpload({ write, resume: () => undefined }), /resume needs background/)
    const background = { name: 'up', blobs: new MemoryBlobs() }
    assert.throws(() => ndjsonUpload({ write, resume: 'now' as never, background }), /resume must be a function/)
  })

  test('deletes the stored errors with the upload', async () => {
    const blobs = new MemoryBlobs()
    const lines = Array.from({ length: 2000 }, (_, at) => `not JSON ${at}`)
    const body = Buffer.from([...lines, '{"n":1}'].join('\n'))
    await blobs.put(BLOB, inPieces(body, 1000), { ttlMs: 60_000 })
    const { task } = ndjsonUpload({ write: () => undefined, maxErrors: 2000, background: { name: 'up', blobs } })
    const context = testContext(task, {})
    let parts: PartList | undefined
    const { save } = context.checkpoint
    const checkpoint: PartsCheckpoint<RecordPosition> = context.checkpoint
    checkpoint.save = async (value, list = parts) => {
      parts = list
      await save(value)
    }
    await task.run({ blob: BLOB, coding: 'identity', size: body.length }, context)
    assert.ok(blobs.usage().blobs > 1, 'errors are stored')
    await task.external?.release(BLOB, { id: 'test', attempt: 1, status: 'completed', parts })
    assert.equal(blobs.usage().blobs, 0)
  })
})

async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
