import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory, MemoryBlobs } from '../../../adapters/memory/index.js'
import { isHttpError } from '../../../src/http/errors.js'
import { PartialLine } from '../../../src/ndjson/line-text.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import {
  readUploadOptions, type UploadBackgroundOptions, type UploadOptions,
} from '../../../src/ndjson/upload-options.js'
import { uploadTask } from '../../../src/ndjson/upload-task.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { testContext } from '../../../src/testing/index.js'
import { parsePrefer } from '../../../src/http/headers/prefer.js'
import { fakeRequest } from '../kit/request.js'

const ASKED = { coding: 'identity', resultType: 'application/json', isDry: false }

const BLOB = `ndjson-upload/${'a'.repeat(22)}`
const PIECES = ['{"id":1}\n', '{"id":2}\n{"id":3}\n', '{"id":4}\n'].map((text) => Buffer.from(text))
const SIZE = PIECES.reduce((sum, { byteLength }) => sum + byteLength, 0)

async function* given(pieces: readonly Buffer[]): AsyncGenerator<Uint8Array> {
  yield* pieces
}

/** A task whose upload is there, and what its run is given. */
async function spooled({
  signal = new AbortController().signal,
  write = () => undefined,
}: { signal?: AbortSignal; write?: () => undefined } = {}) {
  const blobs = new MemoryBlobs()
  await blobs.put(BLOB, given(PIECES), { ttlMs: 60_000 })
  const told: [number, number | undefined][] = []
  const options = readUploadOptions<{ id: number }>({ write, batchSize: 1, maxBodyBytes: 1000 })
  const upload = uploadTask(options, { name: 'up', blobs })
  const progress = (done: number, total?: number): void => {
    told.push([done, total])
  }
  const context = { ...testContext(upload.task, { owner: 'ann' }), signal, progress }
  return { blobs, upload, told, run: () => upload.task.run({ blob: BLOB, coding: 'identity', size: SIZE }, context) }
}

describe('the run of a spooled upload', () => {
  test('reports progress in bytes as sent', async () => {
    const { told, run } = await spooled()
    assert.deepEqual((await run()).summary, { total: 4, succeeded: 4, failed: 0 })
    assert.deepEqual(told.at(-1), [SIZE, SIZE])
    assert.deepEqual(told.map(([done]) => done), [...told.map(([done]) => done)].sort((a, b) => a - b), 'never less')
    assert.ok(told.every(([done]) => done > 0))
  })

  test('ends when the task is stopped, and writes no further batch', async () => {
    const stop = new AbortController()
    let written = 0
    const { run } = await spooled({ signal: stop.signal, write: () => { written++; stop.abort(new Error('stopped')) } })
    await assert.rejects(async () => run(), /stopped/)
    assert.equal(written, 1)
  })

  test('gets a 410 if the upload no longer exists', async () => {
    const { blobs, run } = await spooled()
    await blobs.delete(BLOB)
    await assert.rejects(async () => run(), (error) => isHttpError(error) && error.status === 410)
  })

  test('has the configured attempts, or none', () => {
    const background = { name: 'up', blobs: new MemoryBlobs() }
    const write = () => undefined
    const made = (more: Partial<UploadBackgroundOptions>) =>
      ndjsonUpload({ write, background: { ...background, ...more } }).task
    const { attempts, maxPerOwner, retentionMs } = made({ attempts: 3, maxPerOwner: 2, retentionMs: 5000 })
    assert.deepEqual([attempts, maxPerOwner, retentionMs], [3, 2, 5000])
    const { pool, priority } = made({ pool: 'heavy', priority: 5 })
    assert.deepEqual([pool, priority], ['heavy', 5])
    for (const name of ['maxPerOwner', 'retentionMs'] as const) assert.equal(made({})[name], undefined, name)
    assert.doesNotThrow(() => made({ blobRetentionMs: 1000 }))
    for (const blobRetentionMs of [999, Number.NaN])
      assert.throws(() => made({ blobRetentionMs }), /blobRetentionMs/, String(blobRetentionMs))
    for (const name of ['maxBodyBytes', 'maxDecodedBytes', 'maxRatio'] as const) {
      assert.doesNotThrow(() => ndjsonUpload({ write, [name]: 1, background }), name)
      for (const value of [0.5, 0, Number.NaN]) {
        assert.throws(() => ndjsonUpload({ write, [name]: value, background }), new RegExp(name), `${name} ${value}`)
      }
    }
  })

  test('writes as many records at once as allowed, for any division into chunks', async () => {
    const blobs = new MemoryBlobs()
    await blobs.put(BLOB, given(PIECES), { ttlMs: 60_000 })
    const inPieces = Object.assign(Object.create(blobs) as MemoryBlobs, { open: async () => given(PIECES) })
    for (const [batchSize, sizes] of [[undefined, [4]], [3, [3, 1]]] as const) {
      const written: number[] = []
      const { task } = ndjsonUpload({
        write: ({ length }) => {
          written.push(length)
        },
        ...(batchSize && { batchSize }),
        background: { name: 'up', blobs: inPieces },
      })
      await task.run({ blob: BLOB, coding: 'identity', size: SIZE }, testContext(task))
      assert.deepEqual(written, sizes)
    }
  })

  test('is rejected at construction if an option is invalid', () => {
    const options: UploadOptions = { write: () => undefined }
    const background = { name: 'up', blobs: new MemoryBlobs() }
    for (const wrong of [
      { write: undefined },
      { batchSize: 0 },
      { maxErrors: -1 },
      { maxLines: 0 },
      { maxLineBytes: 0 },
    ]) {
      const [name] = Object.keys(wrong)
      assert.throws(
        () => ndjsonUpload({ ...options, ...wrong, background } as never),
        new RegExp(`${name} (must|is missing)`),
        name,
      )
    }
  })

  test('is identified by its bytes, which are deleted if the task is not accepted', async () => {
    const { upload, blobs } = await spooled()
    const tasks = createTasks({ ...memory(), definitions: [upload.task] })
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const spool = (text: string) => {
      const request = fakeRequest({ body: text })
      return upload.spool(endpoints.open(request, parsePrefer(undefined)), request, ASKED)
    }
    const [one, same, other] = [await spool('{"id":1}'), await spool('{"id":1}'), await spool('{"id":2}')]
    assert.deepEqual(one.body, same.body)
    assert.notDeepEqual(one.body, other.body)
    const { blob } = one.input as { blob: string }
    assert.ok(await blobs.open(blob))
    await one.discard?.()
    assert.equal(await blobs.open(blob), undefined)
    await tasks.close()
  })
})

test('a line that is too long keeps its beginning, up to its limit', () => {
  const line = new PartialLine(10)
  assert.equal(line.add(Buffer.from('abcd')), undefined)
  assert.equal(line.add(Buffer.from('efghijklmnopqrstuvwxyz'))?.toString(), 'abcdefghij')
  assert.equal(line.add(Buffer.from('more')), undefined)
  assert.equal(line.end(), undefined)
})
