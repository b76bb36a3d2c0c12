import assert from 'node:assert/strict'
import type { TaskEngine } from '../../engine/engine.js'
import { StoreUnavailableError } from '../../stores/store.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { Cases } from '../runner.js'
import { Latch } from '../waiting.js'
import { HOUR, taskOf, type EngineContext } from './context.js'
import { withFaults } from './faults.js'
import { untilOpened } from './worker.js'
import { assertWhole, COUNTED } from './whole.js'

const pool = 'nobody'
const callers = ['ann']

/** Makes a call on an engine that loses the answer. */
async function lose(engine: TaskEngine, call: (lossy: TaskEngine) => MaybePromise<unknown>): Promise<void> {
  const lossy = withFaults(engine, () => 'lost')
  await assert.rejects(async () => call(lossy), StoreUnavailableError)
}

/** Tests of calls whose answer is lost: the change was made wholly, and a repetition says so. */
export const lostCases: Cases<EngineContext> = {
  'the answer is lost of a create': async (context) => {
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', limit: COUNTED, owner: 'ann', pool })
    await lose(context.engine, (lossy) => lossy.create(task))
    const other = (await context.open()).engine
    const [stored] = await assertWhole(context, other, callers)
    assert.deepEqual(await context.engine.create(task), { outcome: 'created', task: stored })
    await assertWhole(context, other, callers)
  },

  'the answer is lost of a create, which somebody else repeats with the same key': async (context) => {
    const first = context.task({ id: 'one', key: 'key', pool })
    await lose(context.engine, (lossy) => lossy.create(first))
    const other = (await context.open()).engine
    const second = await other.create(context.task({ id: 'two', key: 'key', pool }))
    assert.deepEqual([second.outcome, taskOf(second).birth], ['exists', first.birth])
    assert.equal((await context.engine.create(first)).outcome, 'created')
    assert.deepEqual(await context.ids(), ['one'])
  },

  'a create that is slow, one with its key that is refused, and a third one make one task': async (context) => {
    const other = (await context.open()).engine
    const limit = { ...COUNTED, max: 1 }
    const busy = await context.created({ id: 'busy', caller: 'ann', limit, pool })
    const latch = new Latch()
    const slow = withFaults(context.engine, () => latch.opened)
    const first = slow.create(context.task({ id: 'one', key: 'key', caller: 'ann', limit: COUNTED, pool }))
    const again = (id: string) => other.create(context.task({ id, key: 'key', caller: 'ann', limit, pool }))
    assert.equal((await again('two')).outcome, 'caller_full')
    await context.changed(busy, { version: 1 }, { status: 'cancelled' }, other)
    const third = await again('three')
    latch.open()
    const outcomes = [third, await first, await again('four')]
    assert.equal(new Set(outcomes.map((outcome) => taskOf(outcome).birth)).size, 1)
    assert.equal((await assertWhole(context, other, callers)).length, 2)
  },

  'the answer is lost of an end of a run': async (context) => {
    const worker = context.work(context.first, { callbacks: 0, run: untilOpened })
    for (const status of ['completed', 'failed', 'cancelled'] as const) {
      const task = await context.created({ id: status, key: status, caller: 'ann', limit: COUNTED })
      const begun = await worker.ran(status)
      const end = { status, details: { ended: status }, callbackMs: 0, keepMs: HOUR } as const
      await lose(context.engine, (lossy) => lossy.change(task, { run: 1 }, end))
      const stored = await context.stored(status)
      assert.deepEqual([stored.status, stored.version, stored.details], [status, 3, end.details])
      assert.notEqual(stored.callbackAt, undefined)
      assert.deepEqual(await context.conflict(task, { run: 1 }, end), stored)
      begun.latch.open()
    }
    await assertWhole(context, (await context.open()).engine, callers)
  },

  'the answer is lost of an end of a run that queues its task again': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    const task = await context.created({ id: 'one', caller: 'ann', limit: COUNTED })
    const begun = await worker.ran('one')
    const change = { status: 'queued', delayMs: HOUR, checkpoint: 'half' } as const
    await lose(context.engine, (lossy) => lossy.change(task, { run: 1 }, change))
    const stored = await context.stored('one')
    assert.deepEqual([stored.status, stored.version], ['queued', 3])
    assert.deepEqual(await context.conflict(task, { run: 1 }, change), stored)
    begun.latch.open()
    await assertWhole(context, context.engine, callers)
  },

  'the answer is lost of a checkpoint, which is saved again': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    const task = await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    await lose(context.engine, (lossy) => lossy.change(task, { run: 1 }, { checkpoint: 'half' }))
    await context.changed(task, { run: 1 }, { checkpoint: 'half' })
    assert.deepEqual(await context.stored('one'), begun.task)
    await begun.change({ status: 'queued' })
    begun.latch.open()
    assert.equal((await worker.ran('one', 2)).run.checkpoint, 'half')
    worker.begun[1]?.latch.open()
  },

  'the answer is lost of a retry, which makes one further run': async (context) => {
    const worker = context.work(context.first)
    const task = await context.created({ id: 'one', caller: 'ann', limit: COUNTED, pool })
    await context.changed(task, { version: 1 }, { status: 'failed' })
    const retry = { status: 'queued', pool: 'default', limit: COUNTED } as const
    await lose(context.engine, (lossy) => lossy.change(task, { version: 2 }, retry))
    const now = await context.conflict(task, { version: 2 }, retry)
    assert.ok(now && now.version > 2, 'the retry was not made')
    await context.reaches('one', 'completed')
    assert.equal((await context.conflict(task, { version: 2 }, retry))?.status, 'completed')
    await context.quiet()
    assert.equal(worker.begun.length, 1)
    await assertWhole(context, (await context.open()).engine, callers)
  },

  'the answer is lost of a cancellation': async (context) => {
    const task = await context.created({ id: 'one', caller: 'ann', limit: COUNTED, pool })
    await lose(context.engine, (lossy) => lossy.change(task, { version: 1 }, { status: 'cancelled' }))
    const now = await context.conflict(task, { version: 1 }, { status: 'cancelled' })
    assert.deepEqual([now?.status, now?.version], ['cancelled', 2])
    await assertWhole(context, context.engine, callers)
  },

  'the answer is lost of a deletion': async (context) => {
    const task = await context.created({ id: 'one', key: 'key', caller: 'ann', limit: COUNTED, pool })
    await context.changed(task, { version: 1 }, { status: 'failed' })
    await lose(context.engine, async (lossy) => lossy.delete(task, 2))
    assert.equal(await context.engine.delete(task, 2), undefined)
    assert.deepEqual(await assertWhole(context, context.engine, callers), [])
    const fresh = await context.created({ id: 'one', key: 'key', pool })
    assert.equal(await context.engine.delete(task, 2), undefined)
    assert.deepEqual(await context.engine.read('one'), fresh)
  },

  'the answer is lost of the outcome of a callback': async (context) => {
    const worker = context.work(context.first, {
      callback: async (task) => {
        const expected = { callbackRun: task.callbackRun }
        await lose(context.engine, (lossy) => lossy.change(task, expected, { callbackMs: null, details: { sent: true } }))
        await context.engine.change(task, expected, { callbackMs: null, details: { sent: true } })
      },
    })
    const task = await context.created({ id: 'one', pool })
    await context.changed(task, { version: 1 }, { status: 'failed', callbackMs: 0 })
    await context.eventually(async () => (await context.stored('one')).callbackAt === undefined, 'it is sent')
    await context.quiet()
    assert.deepEqual((await context.stored('one')).details, { sent: true })
    assert.equal(worker.callbacks.length, 1)
  },

  'a call that fails before it is made changes nothing': async (context) => {
    const failing = withFaults(context.engine, () => 'failed')
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', limit: COUNTED, pool })
    await assert.rejects(async () => failing.create(task), StoreUnavailableError)
    assert.deepEqual(await assertWhole(context, context.engine, callers), [])
    await context.engine.create(task)
    await assert.rejects(async () => failing.change(task, { version: 1 }, { status: 'failed' }), StoreUnavailableError)
    const [stored] = await assertWhole(context, context.engine, callers)
    assert.deepEqual([stored?.status, stored?.version], ['queued', 1])
  },
}
