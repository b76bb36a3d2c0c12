import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { NewTask, TaskChange } from '../../src/engine/task.js'
import { Json } from '../../src/runtime/json.js'
import type { Cases } from '../runner.js'
import { pause, together } from '../wait.js'
import { HOUR, untilOpened, type EngineContext, type Worker } from './context.js'

/** Begins to work in one place. The run of a task holds the place until its latch is opened. */
function holding(context: EngineContext, id: string): Worker {
  return context.work({
    places: { default: 1 },
    run: async ({ task }, begun) => {
      if (task.id === id) await begun.latch.promise
      await begun.change({ status: 'completed' })
    },
  })
}

/** Tests of the order in which waiting tasks start, and of `counts`. */
export const turnCases: Cases<EngineContext> = {
  'tasks start by priority, and within a priority in the order of their creation': async (context) => {
    const tasks = [['bob', 3], ['ann', 2], ['ann', 0], ['ann', 1], ['ann', 1_000_000], ['ann', 1], ['ann', 0]] as const
    for (const [n, [caller, priority]] of tasks.entries()) {
      await context.created({ id: `task-${String(n)}`, priority, caller })
      await pause(2)
    }
    const worker = context.work({ places: { default: 1 } })
    await worker.began(tasks.length)
    assert.deepEqual(worker.ids, [2, 6, 3, 5, 1, 0, 4].map((n) => `task-${String(n)}`))
  },

  'a task keeps its priority after its delay': async (context) => {
    const worker = holding(context, 'first')
    await context.created({ id: 'first' })
    const first = await worker.ran('first')
    const start = { delayMs: context.toleranceMs }
    const low = await context.created({ id: 'low', priority: 9, start })
    const high = await context.created({ id: 'high', priority: 1, start })
    await context.past(Math.max(low.startAt ?? 0, high.startAt ?? 0) + context.toleranceMs)
    first.latch.resolve()
    await worker.began(3)
    assert.deepEqual(worker.ids, ['first', 'high', 'low'])
  },

  'a task of another caller starts after at most as many tasks as there are places':
    async (context) => {
      for (let n = 0; n < 40; n++) await context.created({ id: `ann-${String(n)}`, caller: 'ann' })
      const worker = context.work({ places: { default: 2 }, run: untilOpened })
      await worker.began(2)
      await context.created({ id: 'bob', caller: 'bob' })
      for (let n = 0; worker.of('bob').length === 0; n++) {
        assert.ok(n <= 2, `${String(n)} tasks of the other caller started first: ${worker.ids.join()}`)
        await end(worker, n)
        await worker.began(n + 3)
      }
    },

  'a new caller begins after about one turn of all, beside 100 callers with many tasks': async (context) => {
    const places = 10
    await together(100, async (n) => {
      for (let each = 0; each < 4; each++) {
        await context.created({ id: `caller-${String(n)}-${String(each)}`, caller: `caller-${String(n)}` })
      }
    })
    const worker = context.work({ places: { default: places }, run: untilOpened })
    await worker.began(places)
    await context.created({ id: 'new', caller: 'new' })
    for (let n = 0; worker.of('new').length === 0; n++) {
      assert.ok(n <= 100, `${String(n)} tasks ended first`)
      await end(worker, n)
      await worker.began(n + 1 + places)
    }
    const before = worker.ids.indexOf('new')
    assert.ok(before <= 100 + places, `${String(before)} tasks began first`)
  },

  'callers take turns, and the tasks of each start in their order': async (context) => {
    for (const caller of ['ann', 'bob', 'cid']) {
      for (let n = 0; n < 6; n++) {
        await context.created({ id: `${caller}-${String(n)}`, caller })
        await pause(2)
      }
    }
    const worker = context.work({ places: { default: 1 } })
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

  'a caller that pauses neither pays for earlier turns nor saves turns': async (context) => {
    const worker = holding(context, 'holds')
    for (let n = 0; n < 10; n++) await context.created({ id: `early-${String(n)}`, caller: 'ann' })
    await context.reaches('early-9', 'completed')
    await context.created({ id: 'holds', caller: 'cid' })
    const { latch } = await worker.ran('holds')
    for (let n = 0; n < 6; n++) {
      for (const caller of ['bob', 'ann']) await context.created({ id: `${caller}-${String(n)}`, caller })
    }
    latch.resolve()
    await worker.began(23)
    const ann = worker.ids.slice(11, 17).filter((id) => id.startsWith('ann'))
    assert.ok(ann.length >= 2 && ann.length <= 4, `the first were ${worker.ids.slice(11, 17).join()}`)
  },

  'counts() returns the running, waiting and delayed tasks of a pool': async (context) => {
    const other = (await context.open()).engine
    assert.deepEqual(await other.counts('default'), { running: 0, waiting: 0, delayed: 0 })
    const worker = context.work({ places: { default: 1 }, run: untilOpened })
    await context.created({ id: 'runs' })
    const runs = await worker.ran('runs')
    await context.created({ id: 'delayed', start: { delayMs: HOUR } })
    await context.created({ id: 'elsewhere', pool: 'other' })
    await context.ended({ id: 'ended', pool: 'default' })
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

/** Share of one caller in the cases below. */
export const SHARE_LIMITS = { tasks: 12, bytes: 40_000 }

interface Flood {
  /** Change that ends each task. Default: it is completed, and kept for an hour. */
  readonly change?: Partial<TaskChange>
  readonly task?: Partial<NewTask>
  /** Beginning of the ids. Default: the caller. */
  readonly name?: string
}

/** Creates and ends tasks of a caller, one after the other. Returns their ids. */
async function flood(
  context: EngineContext, caller: string, count: number, { change, task, name = caller }: Flood = {},
): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const id = `${name}-${String(n).padStart(3, '0')}`
    const ended = { status: 'completed', keepMs: HOUR, ...change } as const
    await context.ended({ ...task, id, key: `key of ${id}`, owner: caller, caller }, ended)
    ids.push(id)
  }
  return ids
}

/** Returns those of some tasks that still exist. */
async function left(context: EngineContext, ids: readonly string[]): Promise<string[]> {
  const tasks = await together(ids.length, (n) => context.engine.read(ids[n] as string))
  return ids.filter((_, n) => tasks[n] !== undefined)
}

/** Waits until no more than `count` of some tasks are left. Returns those. */
async function shrinks(context: EngineContext, ids: readonly string[], count: number): Promise<string[]> {
  await context.eventually(async () => (await left(context, ids)).length <= count, `at most ${String(count)} tasks are left`)
  return left(context, ids)
}

/** Tests of the final tasks that a caller may keep. */
export const shareCases: Cases<EngineContext> = {
  'a caller over its share loses its own oldest final tasks, and no others': async (context) => {
    const worker = context.work()
    const others = await flood(context, 'bob', 2)
    const retried = await context.ended({ id: 'retried', caller: 'ann' })
    await context.changed(retried, { version: 2 }, { status: 'queued' })
    others.push('retried')
    for (let n = 0; n < 2 * SHARE_LIMITS.tasks; n++) {
      others.push((await context.created({ id: `waits-${String(n)}`, caller: 'ann', pool: 'nobody' })).id)
    }
    const ann = await flood(context, 'ann', 2 * SHARE_LIMITS.tasks)
    const kept = await shrinks(context, ann, SHARE_LIMITS.tasks)
    assert.deepEqual(kept, ann.slice(-kept.length), 'newer tasks were removed before older ones')
    assert.ok(kept.length >= SHARE_LIMITS.tasks / 2, `only ${String(kept.length)} tasks stay`)
    assert.deepEqual(await left(context, others), others)
    assert.equal(await context.engine.readByKey('key of ann-000'), undefined)
    assert.deepEqual(await context.ids({ of: { owner: 'ann' } }), kept)
    assert.deepEqual(worker.removed, [])
    await context.created({ id: 'ann-000', key: 'key of ann-000', pool: 'nobody' })
  },

  'the share limits the bytes of results, details, inputs and checkpoints': async (context) => {
    // Random, so that no engine compresses it.
    const text = JSON.stringify(randomBytes(4000).toString('base64'))
    const input = Json.of(text)
    for (const [caller, change, task] of [
      ['result', { result: text }], ['details', { details: { text } }],
      ['checkpoint', { status: 'failed', checkpoint: text }], ['input', { status: 'failed' }, { input }],
    ] as const) {
      const ids = await flood(context, caller, 12, { change, task: task ?? {} })
      const kept = await shrinks(context, ids, Math.floor(SHARE_LIMITS.bytes / text.length))
      assert.equal(kept.at(-1), ids.at(-1), `the newest task was removed (${caller})`)
    }
  },

  'files have a separate share, and only tasks with files are removed for it': async (context) => {
    const worker = context.work()
    const stay = await flood(context, 'ann', 3)
    const files = { hasFiles: true, files: { bytes: 900, max: 1000 } }
    stay.push(...(await flood(context, 'bob', 3, { change: files })).slice(-1))
    const ids = await flood(context, 'ann', 8, {
      change: { ...files, files: { bytes: 300, max: 1000 } }, name: 'file',
    })
    assert.deepEqual(await shrinks(context, ids, 3), ids.slice(-3))
    assert.deepEqual(await left(context, stay), stay)
    await context.eventually(() => worker.removed.filter(({ caller }) => caller === 'ann').length === 5, 'remove is called')
  },

  'the newest task stays although its files are larger than the share, and it counts until it is removed': async (context) => {
    const end = (id: string, bytes: number) => (
      context.ended({ id, caller: 'ann' }, { status: 'failed', files: { bytes, max: 1000 } })
    )
    await end('first', 10)
    const task = await end('large', 5000)
    await shrinks(context, ['first'], 0)
    await context.changed(task, { version: 2 }, { files: { bytes: 600, max: 1000 } })
    await end('small', 300)
    await context.quiet()
    assert.deepEqual(await left(context, ['large', 'small']), ['large', 'small'])
    await context.changed(task, { version: 3 }, { status: 'queued' })
    await end('more', 600)
    await context.quiet()
    assert.deepEqual(await left(context, ['small', 'more']), ['small', 'more'])
  },

  'an old task with a long lifetime is removed before a new one with a short lifetime': async (context) => {
    const first = await flood(context, 'ann', SHARE_LIMITS.tasks)
    const later = await flood(context, 'ann', SHARE_LIMITS.tasks / 2, { change: { keepMs: HOUR / 2 }, name: 'short' })
    await shrinks(context, [...first, ...later], SHARE_LIMITS.tasks)
    assert.deepEqual(await left(context, later), later)
    assert.deepEqual(await left(context, first.slice(0, 1)), [])
  },

  'a task that is changed often counts once, and a deleted task does not count': async (context) => {
    const ids = await flood(context, 'ann', 2, { change: { status: 'failed' } })
    const task = await context.stored('ann-001')
    let { version } = task
    for (let n = 0; n < SHARE_LIMITS.tasks; n++) {
      for (const change of [{ details: { n } }, { status: 'queued' }, { status: 'failed' }] as const) {
        version = (await context.changed(task, { version }, change)).version
      }
      const again = await context.ended({ id: 'again', caller: 'ann' }, { status: 'failed', result: '1' })
      await context.engine.delete(again, 2)
    }
    await context.quiet()
    assert.deepEqual(await left(context, ids), ids)
  },
}
