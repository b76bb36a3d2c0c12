import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { TaskChange } from '../../engine/task.js'
import { Json } from '../../runtime/json.js'
import type { Cases } from '../runner.js'
import { together } from '../waiting.js'
import { HOUR, type EngineContext } from './context.js'

const pool = 'nobody'

/** Share of one caller in the cases below. */
export const SHARE_LIMITS = { tasks: 12, bytes: 40_000 }

/** Creates and ends tasks of a caller, one after the other. Returns their ids. */
async function flood(
  context: EngineContext, caller: string, count: number, change: Partial<TaskChange> = {},
): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const id = `${caller}-${String(n).padStart(3, '0')}`
    const task = await context.created({ id, key: `key of ${id}`, owner: caller, caller, pool })
    await context.changed(task, { version: 1 }, { status: 'completed', keepMs: HOUR, ...change })
    ids.push(id)
  }
  return ids
}

/** Returns those of some tasks that are still there. */
async function left(context: EngineContext, ids: readonly string[]): Promise<string[]> {
  const tasks = await together(ids.length, (n) => context.engine.read(ids[n] as string))
  return ids.filter((_, n) => tasks[n] !== undefined)
}

/** Tests of what the final tasks of a caller may keep. */
export const shareCases: Cases<EngineContext> = {
  'a caller over its share loses its own oldest final tasks, and nobody else does': async (context) => {
    const worker = context.work(context.first)
    const bob = await flood(context, 'bob', 2)
    await context.created({ id: 'waits', caller: 'ann', pool })
    const ann = await flood(context, 'ann', 2 * SHARE_LIMITS.tasks)
    await context.eventually(async () => (await left(context, ann)).length <= SHARE_LIMITS.tasks, 'the oldest go')
    const kept = await left(context, ann)
    assert.deepEqual(kept, ann.slice(-kept.length), 'not the oldest went')
    assert.ok(kept.length >= SHARE_LIMITS.tasks / 2, `only ${String(kept.length)} stay`)
    assert.deepEqual(await left(context, [...bob, 'waits']), [...bob, 'waits'])
    assert.equal(await context.engine.readByKey('key of ann-000'), undefined)
    assert.deepEqual(await context.ids({ of: { owner: 'ann' } }), kept)
    assert.deepEqual(worker.removed, [])
    await context.created({ id: 'ann-000', key: 'key of ann-000', pool })
  },

  'the share is one of bytes too, of results, details, inputs and checkpoints': async (context) => {
    // Random, so that no engine compresses it.
    const text = JSON.stringify(randomBytes(4000).toString('base64'))
    const changes: readonly Partial<TaskChange>[] = [
      { result: text }, { details: { text } }, { status: 'failed', checkpoint: text },
    ]
    for (const [n, change] of changes.entries()) {
      const ids = await flood(context, `caller-${String(n)}`, 12, change)
      await context.eventually(
        async () => (await left(context, ids)).length * text.length <= SHARE_LIMITS.bytes, `the oldest go (${Object.keys(change).join()})`,
      )
      assert.equal((await left(context, ids)).at(-1), ids.at(-1), 'the newest went')
    }
    const inputs: string[] = []
    for (let n = 0; n < 12; n++) {
      const task = await context.created({ id: `input-${String(n)}`, caller: 'ann', pool, input: Json.of(text) })
      await context.changed(task, { version: 1 }, { status: 'failed' })
      inputs.push(task.id)
    }
    await context.eventually(
      async () => (await left(context, inputs)).length * text.length <= SHARE_LIMITS.bytes, 'the oldest go (input)',
    )
  },

  'files have a share of their own, and only tasks with files make room': async (context) => {
    const worker = context.work(context.first)
    const others = [...await flood(context, 'bob', 3, { files: { bytes: 900, max: 1000 }, hasFiles: true }).then((ids) => ids.slice(-1))]
    const plain = await flood(context, 'ann', 3)
    const ids: string[] = []
    for (let n = 0; n < 8; n++) {
      const task = await context.created({ id: `file-${String(n)}`, caller: 'ann', pool })
      await context.changed(task, { version: 1 }, { status: 'completed', hasFiles: true, files: { bytes: 300, max: 1000 } })
      ids.push(task.id)
    }
    await context.eventually(async () => (await left(context, ids)).length <= 3, 'the oldest go')
    assert.deepEqual(await left(context, ids), ids.slice(-3))
    assert.deepEqual(await left(context, [...others, ...plain]), [...others, ...plain])
    await context.eventually(() => worker.removed.filter(({ caller }) => caller === 'ann').length === 5, 'remove is called')
  },

  'a newest task whose files are larger than the share stays, and counts until it goes': async (context) => {
    const [first] = await flood(context, 'ann', 1, { files: { bytes: 10, max: 1000 } })
    const task = await context.created({ id: 'large', caller: 'ann', pool })
    await context.changed(task, { version: 1 }, { status: 'failed', files: { bytes: 5000, max: 1000 } })
    await context.eventually(async () => (await left(context, [first as string])).length === 0, 'the oldest goes')
    await context.changed(task, { version: 2 }, { files: { bytes: 600, max: 1000 } })
    const small = await context.created({ id: 'small', caller: 'ann', pool })
    await context.changed(small, { version: 1 }, { status: 'failed', files: { bytes: 300, max: 1000 } })
    await context.quiet()
    assert.deepEqual(await left(context, ['large', 'small']), ['large', 'small'])
    await context.changed(task, { version: 3 }, { status: 'queued' })
    const more = await context.created({ id: 'more', caller: 'ann', pool })
    await context.changed(more, { version: 1 }, { status: 'failed', files: { bytes: 600, max: 1000 } })
    await context.quiet()
    assert.deepEqual(await left(context, ['small', 'more']), ['small', 'more'])
  },

  'unfinished tasks stay, whatever their caller keeps': async (context) => {
    const retried = await context.created({ id: 'retried', caller: 'ann', pool })
    await context.changed(retried, { version: 1 }, { status: 'failed' })
    await context.changed(retried, { version: 2 }, { status: 'queued' })
    const waits: string[] = []
    for (let n = 0; n < 2 * SHARE_LIMITS.tasks; n++) {
      waits.push((await context.created({ id: `waits-${String(n)}`, caller: 'ann', pool })).id)
    }
    const ids = await flood(context, 'ann', 2 * SHARE_LIMITS.tasks)
    await context.eventually(async () => (await left(context, ids)).length <= SHARE_LIMITS.tasks, 'the oldest go')
    assert.deepEqual(await left(context, [...waits, 'retried']), [...waits, 'retried'])
  },

  'an old task that is kept long goes before a new one that is kept shortly': async (context) => {
    const first = await flood(context, 'ann', SHARE_LIMITS.tasks)
    const later: string[] = []
    for (let n = 0; n < SHARE_LIMITS.tasks / 2; n++) {
      const task = await context.created({ id: `short-${String(n)}`, caller: 'ann', pool })
      await context.changed(task, { version: 1 }, { status: 'completed', keepMs: HOUR / 2 })
      later.push(task.id)
    }
    await context.eventually(
      async () => (await left(context, [...first, ...later])).length <= SHARE_LIMITS.tasks, 'the oldest go',
    )
    assert.deepEqual(await left(context, later), later)
    assert.deepEqual(await left(context, first.slice(0, 1)), [])
  },

  'a task that is changed often counts once': async (context) => {
    const [first] = await flood(context, 'ann', 2, { status: 'failed' })
    const task = await context.stored('ann-001')
    for (let n = 0; n < 2 * SHARE_LIMITS.tasks; n++) {
      await context.changed(task, { version: 2 + n }, { details: { n } })
    }
    for (let n = 0; n < SHARE_LIMITS.tasks; n++) {
      const { version } = await context.stored('ann-001')
      await context.changed(task, { version }, { status: 'queued' })
      await context.changed(task, { version: version + 1 }, { status: 'failed' })
    }
    await context.quiet()
    assert.deepEqual(await left(context, [first as string, 'ann-001']), [first, 'ann-001'])
  },

  'a task that is deleted or expires counts no more': async (context) => {
    const ids = await flood(context, 'ann', 2)
    for (let n = 0; n < 2 * SHARE_LIMITS.tasks; n++) {
      const task = await context.created({ id: 'again', caller: 'ann', pool })
      await context.changed(task, { version: 1 }, { status: 'failed', result: '1' })
      await context.engine.delete(task, 2)
    }
    await context.quiet()
    assert.deepEqual(await left(context, ids), ids)
  },

  'the files of a task that goes are removed': async (context) => {
    const worker = context.work(context.first)
    const ids = await flood(context, 'ann', SHARE_LIMITS.tasks + 2, { hasFiles: true })
    await context.eventually(async () => (await left(context, ids)).length <= SHARE_LIMITS.tasks, 'the oldest go')
    await context.eventually(() => worker.removed.length >= 2, 'remove is called')
    const kept = await left(context, ids)
    await context.quiet()
    assert.deepEqual(worker.removed.map(({ id }) => id).sort(), ids.slice(0, ids.length - kept.length))
  },
}
