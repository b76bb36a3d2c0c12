// A run whose application stores the cursor ends after a suspension in which another run has begun.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryBlobs } from '../../../../adapters/memory/index.js'
import { bulkCreate } from '../../../../src/bulk/create.js'
import { httpError } from '../../../../src/http/errors.js'
import { ndjsonUpload } from '../../../../src/ndjson/upload.js'
import { testContext } from '../../../../src/testing/index.js'

const BODIES = {
  bulk: { blob: `bulk-create/${'a'.repeat(22)}`, text: '[{"n":1},{"n":2},{"n":3},{"n":4}]' },
  import: { blob: `ndjson-upload/${'a'.repeat(22)}`, text: '{"n":1}\n{"n":2}\n{"n":3}\n{"n":4}\n' },
}

/** Tasks that call `write` for each record. The application stores the cursor of each. */
function tasksOf(blobs: MemoryBlobs, write: () => void) {
  const bulk = bulkCreate<{ id: number }, object>({
    batchSize: 1, resume: () => undefined, onError: () => undefined,
    repository: {
      createMany: (drafts) => {
        write()
        return drafts.map((_, id) => ({ id }))
      },
    },
    background: { name: 'bulk', blobs },
  }).task
  const upload = ndjsonUpload({
    batchSize: 1,
    resume: () => undefined,
    write,
    background: { name: 'import', blobs },
  }).task
  return { bulk, upload }
}

/** Runs a task until its end. Returns the code of its error. */
async function ended(kind: keyof typeof BODIES, write: () => void, save: () => Promise<void>): Promise<unknown> {
  const blobs = new MemoryBlobs()
  const { blob, text } = BODIES[kind]
  await blobs.put(blob, (async function* () { yield Buffer.from(text) })(), { ttlMs: 60_000 })
  const { bulk, upload } = tasksOf(blobs, write)
  const spooled = { blob, coding: 'identity', size: text.length }
  try {
    if (kind === 'bulk') {
      const context = { ...testContext(bulk), taskId: 'task' }
      context.checkpoint.save = save
      await bulk.run({ ...spooled, items: 4, list: 'none' }, context)
    } else {
      const context = { ...testContext(upload), taskId: 'task' }
      context.checkpoint.save = save
      await upload.run(spooled, context)
    }
  } catch (error) {
    return (error as { code?: unknown }).code
  } finally {
    await blobs.close()
  }
  return undefined
}

/** Stops this thread, as a suspended process. */
function suspend(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

for (const kind of ['bulk', 'import'] as const) describe(`a run with a cursor (${kind})`, () => {
  test('writes no further batch after a suspension if another run has begun', async () => {
    let [writes, saves] = [0, 0]
    const write = (): void => { if (++writes === 2) suspend(700) }
    const code = await ended(kind, write, async () => { if (++saves > 1) throw httpError('attempt_replaced') })
    assert.deepEqual([code, writes, saves], ['attempt_replaced', 2, 2])
  })

  // A bulk task also saves the list of the parts of its report, at its end.
  test('saves no checkpoint after its first batch while its batches are fast', async () => {
    let [writes, saves] = [0, 0]
    const code = await ended(kind, () => { writes++ }, async () => { saves++ })
    assert.deepEqual([code, writes, saves], [undefined, 4, kind === 'bulk' ? 2 : 1])
  })
})
