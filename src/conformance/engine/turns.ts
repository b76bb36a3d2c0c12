import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { TaskChange } from '../../engine/task.js'
import { Json } from '../../runtime/json.js'
import type { Cases } from '../runner.js'
import { pause, together } from '../waiting.js'
import { HOUR, untilOpened, type EngineContext, type Worker } from './context.js'

/** Tests of the order in which waiting tasks start, and of `counts`. */
export const turnCases: Cases<EngineContext> = {
  'tasks start by priority, and in their order within one': async (context) => {
    const priorities = [2, 0, 1, 1_000_000, 1, 0]
    for (const [n, priority] of priorities.entries()) {
      await context.created({ id: `task-${String(n)}`, priority, caller: 'ann' })
      await pause(2)
    }
    const worker = context.work(context.first, { places: { default: 1 } })
    await worker.began(priorities.length)
    assert.deepEqual(worker.ids, [1, 5, 2, 4, 0, 3].map((n) => `task-${String(n)}`))
  },

  'a task keeps its priority after its delay': async (context) => {
    const worker = context.work(context.first, {
      places: { default: 1 },
      run: async ({ task }, begun) => {
        if (task.id === 'first') await begun.latch.opened
        await begun.change({ status: 'completed' })
      },
    })
    await context.created({ id: 'first' })
    const first = await worker.ran('first')
    const start = { delayMs: context.toleranceMs }
    const low = await context.created({ id: 'low', priority: 9, start })
    const high = await context.created({ id: 'high', priority: 1, start })
    await context.past(Math.max(low.startAt ?? 0, high.startAt ?? 0) + context.toleranceMs)
    first.latch.open()
    await worker.began(3)
    assert.deepEqual(worker.ids, ['first', 'high', 'low'])
  },

  'a task of another caller starts after as many as there are places, not after all that wait':
    async (context) => {
      for (let n = 0; n < 40; n++) await context.created({ id: `ann-${String(n)}`, caller: 'ann' })
      const worker = context.work(context.first, { places: { default: 2 }, run: untilOpened })
      await worker.began(2)
      await context.created({ id: 'bob', caller: 'bob' })
      for (let n = 0; worker.of('bob').length === 0; n++) {
        assert.ok(n <= 2, `${String(n)} tasks of the other caller started first: ${worker.ids.join()}`)
        await end(worker, n)
        await worker.began(n + 3)
      }
    },

  'callers take turns, and each starts its own in their order': async (context) => {
    for (const caller of ['ann', 'bob', 'cid']) {
      for (let n = 0; n < 6; n++) {
        await context.created({ id: `${caller}-${String(n)}`, caller })
        await pause(2)
      }
    }
    const worker = context.work(context.first, { places: { default: 1 } })
    await worker.began(18)
    for (const caller of ['ann', 'bob', 'cid']) {
      const own = worker.ids.filter((id) => id.startsWith(caller))
      assert.deepEqual(own, own.toSorted(), 'the order of one caller')
      for (const count of [6, 12]) {
        const started = worker.ids.slice(0, count).filter((id) => id.startsWith(caller)).length
        assert.ok(Math.abs(started - count / 3) <= 1, `the first were ${worker.ids.slice(0, count).join()}`)
      }
    }
  },

  'a caller that comes back pays for no earlier turns, and has saved none': async (context) => {
    const worker = context.work(context.first, {
      places: { default: 1 },
      run: async ({ task }, begun) => {
        if (task.id === 'holds') await begun.latch.opened
        await begun.change({ status: 'completed' })
      },
    })
    for (let n = 0; n < 10; n++) await context.created({ id: `early-${String(n)}`, caller: 'ann' })
    await context.reaches('early-9', 'completed')
    await context.created({ id: 'holds', caller: 'cid' })
    const { latch } = await worker.ran('holds')
    for (let n = 0; n < 6; n++) {
      for (const caller of ['bob', 'ann']) await context.created({ id: `${caller}-${String(n)}`, caller })
    }
    latch.open()
    await worker.began(23)
    const ann = worker.ids.slice(11, 17).filter((id) => id.startsWith('ann'))
    assert.ok(ann.length >= 2 && ann.length <= 4, `the first were ${worker.ids.slice(11, 17).join()}`)
  },

  'a lower priority waits, whosever turn it is': async (context) => {
    for (const n of [1, 2, 3]) await context.created({ id: `ann-${String(n)}`, caller: 'ann', priority: 1 })
    await context.created({ id: 'bob', caller: 'bob', priority: 2 })
    const worker = context.work(context.first, { places: { default: 1 } })
    await worker.began(4)
    assert.equal(worker.ids.at(-1), 'bob')
  },

  'counts tells what runs, waits and is delayed, by pool': async (context) => {
    const other = (await context.open()).engine
    assert.deepEqual(await other.counts('default'), { running: 0, waiting: 0, delayed: 0 })
    const worker = context.work(context.first, { places: { default: 1 }, run: untilOpened })
    await context.created({ id: 'runs' })
    const runs = await worker.ran('runs')
    await context.created({ id: 'delayed', start: { delayMs: HOUR } })
    await context.created({ id: 'elsewhere', pool: 'other' })
    await context.ended({ id: 'ended' }, { status: 'cancelled' })
    const first = await context.created({ id: 'first', priority: 5 })
    await context.quiet()
    for (const id of ['second', 'third']) await context.created({ id })
    const { oldestWaitingMs = -1, ...numbers } = await other.counts('default')
    assert.deepEqual(numbers, { running: 1, waiting: 3, delayed: 1 })
    const waited = await context.engine.now() - first.createdAt
    assert.ok(
      oldestWaitingMs >= context.toleranceMs / 2 && oldestWaitingMs <= waited,
      `the oldest task waits for ${String(oldestWaitingMs)} of ${String(waited)} ms`,
    )
    await runs.end({ status: 'queued', delayMs: HOUR })
    await worker.began(2)
    const then = await other.counts('default')
    assert.deepEqual([then.running, then.waiting, then.delayed], [1, 2, 2])
    for (const n of [1, 2, 3]) await end(worker, n)
    await context.eventually(async () => (await other.counts('default')).running === 0, 'none runs')
    assert.deepEqual(await other.counts('default'), { running: 0, waiting: 0, delayed: 2 })
    const elsewhere = await other.counts('other')
    assert.deepEqual([elsewhere.running, elsewhere.waiting, elsewhere.delayed], [0, 1, 0])
  },
}

/** Completes the nth run of a worker, once it has begun. */
async function end(worker: Worker, n: number): Promise<void> {
  const begun = await worker.began(n + 1)
  await begun.end({ status: 'completed' })
}

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
    await context.ended(
      { id, key: `key of ${id}`, owner: caller, caller, pool }, { status: 'completed', keepMs: HOUR, ...change },
    )
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
      const task = await context.ended(
        { id: `input-${String(n)}`, caller: 'ann', pool, input: Json.of(text) }, { status: 'failed' },
      )
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
      const task = await context.ended(
        { id: `file-${String(n)}`, caller: 'ann', pool }, { status: 'completed', hasFiles: true, files: { bytes: 300, max: 1000 } },
      )
      ids.push(task.id)
    }
    await context.eventually(async () => (await left(context, ids)).length <= 3, 'the oldest go')
    assert.deepEqual(await left(context, ids), ids.slice(-3))
    assert.deepEqual(await left(context, [...others, ...plain]), [...others, ...plain])
    await context.eventually(() => worker.removed.filter(({ caller }) => caller === 'ann').length === 5, 'remove is called')
  },

  'a newest task whose files are larger than the share stays, and counts until it goes': async (context) => {
    const [first] = await flood(context, 'ann', 1, { files: { bytes: 10, max: 1000 } })
    const task = await context.ended(
      { id: 'large', caller: 'ann', pool }, { status: 'failed', files: { bytes: 5000, max: 1000 } },
    )
    await context.eventually(async () => (await left(context, [first as string])).length === 0, 'the oldest goes')
    await context.changed(task, { version: 2 }, { files: { bytes: 600, max: 1000 } })
    await context.ended(
      { id: 'small', caller: 'ann', pool }, { status: 'failed', files: { bytes: 300, max: 1000 } },
    )
    await context.quiet()
    assert.deepEqual(await left(context, ['large', 'small']), ['large', 'small'])
    await context.changed(task, { version: 3 }, { status: 'queued' })
    await context.ended(
      { id: 'more', caller: 'ann', pool }, { status: 'failed', files: { bytes: 600, max: 1000 } },
    )
    await context.quiet()
    assert.deepEqual(await left(context, ['small', 'more']), ['small', 'more'])
  },

  'unfinished tasks stay, whatever their caller keeps': async (context) => {
    const retried = await context.ended(
      { id: 'retried', caller: 'ann', pool }, { status: 'failed' },
    )
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
      const task = await context.ended(
        { id: `short-${String(n)}`, caller: 'ann', pool }, { status: 'completed', keepMs: HOUR / 2 },
      )
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
      const task = await context.ended(
        { id: 'again', caller: 'ann', pool }, { status: 'failed', result: '1' },
      )
      await context.engine.delete(task, 2)
    }
    await context.quiet()
    assert.deepEqual(await left(context, ids), ids)
  },
}
