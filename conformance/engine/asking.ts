import assert from 'node:assert/strict'
import type { StoredTask } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { together } from '../wait.js'
import { HOUR, taskOf, untilOpened, type Begun, type EngineContext } from './context.js'

const ASKS = { status: 'input_required', delayMs: HOUR, details: { asks: true } } as const
const ANSWER = { status: 'queued', details: { answer: 1 } } as const

/** Lets a run ask, and ends its handler. Returns the task that waits. */
async function asked(begun: Begun, change: object = {}): Promise<StoredTask> {
  const made = await begun.end({ ...ASKS, ...change })
  assert.equal(made.outcome, 'changed')
  return taskOf(made)
}

/** Tests of tasks whose run has ended to wait for an answer. */
export const askingCases: Cases<EngineContext> = {
  'a run that asks ends without an attempt, keeps the time of its start, and can write nothing more':
    async (context) => {
      const other = (await context.open()).engine
      const { begun } = await context.running()
      const before = await context.engine.now()
      const waits = taskOf(await begun.change({ ...ASKS, keepMs: 2 * HOUR }))
      assert.deepEqual(waits, {
        ...begun.task, status: 'input_required', version: 3, attempt: 0, details: { asks: true },
        expiresAt: waits.expiresAt,
      })
      assert.ok(waits.expiresAt >= before + 2 * HOUR, 'the task is not kept longer')
      assert.deepEqual(await other.read('one'), waits)
      for (const change of [ASKS, { details: {} }, { checkpoint: 'late' }, { status: 'completed' }] as const) {
        assert.deepEqual(await begun.change(change), { outcome: 'conflict', task: waits })
      }
      begun.latch.resolve()
    },

  'a task that waits for an answer holds no place, and counts as delayed': async (context) => {
    const { worker, begun } = await context.running({ id: 'one' }, { places: { default: 1 } })
    await context.created({ id: 'next' })
    await asked(begun)
    const next = await worker.ran('next')
    assert.deepEqual(await context.engine.counts('default'), { running: 1, waiting: 0, delayed: 1 })
    next.latch.resolve()
  },

  'a task that waits for an answer stands in a list of its own': async (context) => {
    const { begun } = await context.running({ id: 'one', owner: 'ann' })
    await context.created({ id: 'queued', owner: 'ann', pool: 'nobody' })
    const waits = await asked(begun)
    const { engine } = await context.open()
    const of = { owner: 'ann' }
    assert.deepEqual(await context.listed({ of, statuses: ['input_required'] }, engine), [waits])
    assert.deepEqual(await context.ids({ of, statuses: ['queued'] }, engine), ['queued'])
    assert.deepEqual(await context.ids({ of, statuses: ['processing', 'scheduled'] }, engine), [])
    assert.deepEqual((await context.ids({ of }, engine)).sort(), ['one', 'queued'])
  },

  'an answer lets the task run at once, in the same attempt, with its checkpoint': async (context) => {
    const other = (await context.open()).engine
    const { worker, task, begun } = await context.running()
    await begun.change({ checkpoint: 'half' })
    const waits = await asked(begun)
    const answered = await context.changed(task, { version: waits.version }, ANSWER, other)
    assert.deepEqual([answered.status, answered.version], ['queued', waits.version + 1])
    const again = await worker.ran('one', 2)
    const { status, run, attempt, crashes, details, startedAt } = again.task
    assert.deepEqual([status, run, attempt, crashes, details], ['processing', 2, 1, 0, { answer: 1 }])
    assert.equal(startedAt, waits.startedAt)
    assert.deepEqual([again.run.checkpoint, again.run.crashed], ['half', undefined])
    assert.deepEqual(await context.ids({ statuses: ['input_required'] }), [])
    assert.deepEqual(await context.ids({ statuses: ['processing'] }), ['one'])
    assert.equal((await again.end({ status: 'completed', result: '1' })).outcome, 'changed')
  },

  'one of many answers at one version applies': async (context) => {
    const side = await context.sides()
    const { worker, task, begun } = await context.running()
    const { version } = await asked(begun)
    const outcomes = await together(10, (n) => (
      side(n).change(task, { version }, { ...ANSWER, details: { answer: n } })
    ))
    const winners = outcomes.filter(({ outcome }) => outcome === 'changed')
    assert.equal(winners.length, 1)
    const again = await worker.ran('one', 2)
    assert.deepEqual(again.task.details, taskOf(winners[0] as typeof outcomes[number]).details)
    again.latch.resolve()
  },

  'a part of an answer keeps the status and the time': async (context) => {
    const { worker, task, begun } = await context.running()
    const at = performance.now()
    const { version } = await asked(begun, { delayMs: context.windowMs })
    const part = await context.changed(task, { version }, { details: { part: 1 } })
    assert.equal(part.status, 'input_required')
    const again = await worker.ran('one', 2)
    context.waited(again.at - at, context.windowMs, 'the next run began')
    assert.deepEqual(again.task.details, { part: 1 })
    again.latch.resolve()
  },

  'a task whose time to answer is over runs again, and has its status until it does': async (context) => {
    const { worker, begun } = await context.running()
    const at = performance.now()
    await context.engine.setPaused('default', true)
    const waits = await asked(begun, { delayMs: context.delayMs })
    await context.past(await context.engine.now() + context.delayMs)
    await context.quiet()
    assert.deepEqual(await context.listed({ statuses: ['input_required'] }), [waits])
    assert.deepEqual(await context.ids({ statuses: ['queued'] }), [])
    const { running, waiting, delayed } = await context.engine.counts('default')
    assert.deepEqual([running, waiting, delayed], [0, 1, 0])
    await context.engine.setPaused('default', false)
    const again = await worker.ran('one', 2)
    context.waited(again.at - at, context.delayMs, 'the next run began')
    assert.deepEqual([again.task.attempt, again.task.version], [1, waits.version + 1])
    assert.deepEqual(await context.ids({ statuses: ['input_required'] }), [])
    again.latch.resolve()
  },

  'a task that waits for an answer counts as unfinished, and keeps its business key': async (context) => {
    const limit = { group: 'asks', max: 1 }
    const unique = { key: 'invoice', ifExists: 'replace' } as const
    const { task, begun } = await context.running({ id: 'one', caller: 'ann', limit, unique })
    const waits = await asked(begun)
    const other = context.task({ id: 'two', caller: 'ann', limit, pool: 'nobody' })
    assert.deepEqual(await context.engine.create(other), { outcome: 'caller_full' })
    const same = context.task({ id: 'three', unique, pool: 'nobody' })
    assert.deepEqual(await context.engine.create(same), { outcome: 'exists', task: waits })
    assert.deepEqual(await context.engine.delete(task, waits.version), waits)
    await context.changed(task, { version: waits.version }, { status: 'cancelled' })
    assert.equal((await context.engine.create(other)).outcome, 'created')
    assert.equal((await context.engine.create(same)).outcome, 'created')
  },

  'a task that waits for an answer can be cancelled, and then runs no more': async (context) => {
    const other = (await context.open()).engine
    const { worker, task, begun } = await context.running()
    const { version } = await asked(begun, { delayMs: context.windowMs })
    const cancelled = await context.changed(task, { version }, { status: 'cancelled' }, other)
    assert.ok(cancelled.finishedAt !== undefined, 'the cancelled task has no end')
    assert.deepEqual(await context.conflict(task, { version }, ANSWER), cancelled)
    assert.deepEqual(await context.ids({ statuses: ['input_required'] }), [])
    await context.past(await context.engine.now() + context.windowMs)
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },

  'a task that nobody answers expires': async (context) => {
    const { begun } = await context.running({ id: 'one', key: 'key' })
    const waits = await asked(begun, { keepMs: context.delayMs })
    await context.past(waits.expiresAt)
    await context.absent('one', 'key')
  },

  'a question that waits has a callback, and an answer before its outcome wins': async (context) => {
    const worker = context.work({ run: untilOpened, callback: () => new Promise(() => undefined) })
    const task = await context.created({ id: 'one' })
    const waits = await asked(await worker.ran('one'), { callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 1, 'the attempt begins')
    const sent = worker.callbacks[0] as StoredTask
    assert.deepEqual([sent.status, sent.version], ['input_required', waits.version])
    const callbackRun = { callbackRun: sent.callbackRun }
    assert.equal((await context.conflict(task, callbackRun, { callbackMs: null }))?.status, 'input_required')
    await context.changed(task, { version: sent.version }, { ...ANSWER, callbackMs: null })
    const late = await context.conflict(task, { version: sent.version }, { callbackMs: null, details: {} })
    assert.deepEqual(late?.details, ANSWER.details)
    const again = await worker.ran('one', 2)
    again.latch.resolve()
  },

  'the outcome of the callback of a question keeps the question': async (context) => {
    const worker = context.work({
      run: untilOpened,
      callback: async (task) => {
        await context.changed(task, { version: task.version }, { callbackMs: null, details: { sent: 1 } })
      },
    })
    await context.created({ id: 'one' })
    await asked(await worker.ran('one'), { callbackMs: 0 })
    await context.eventually(async () => (
      (await context.stored('one')).callbackAt === undefined
    ), 'the callback is sent')
    const { status, details } = await context.stored('one')
    assert.deepEqual([status, details], ['input_required', { sent: 1 }])
    await context.quiet()
    assert.equal(worker.callbacks.length, 1)
  },

  'a run that begins because the time is over removes the next attempt at the callback': async (context) => {
    const { worker, begun } = await context.running()
    await asked(begun, { delayMs: context.delayMs, callbackMs: HOUR })
    assert.ok((await context.stored('one')).callbackAt !== undefined, 'there is no callback')
    const again = await worker.ran('one', 2)
    assert.equal(again.task.callbackAt, undefined)
    assert.equal((await context.stored('one')).callbackAt, undefined)
    again.latch.resolve()
  },
}

/** Tests of questions beside lost runs. */
export const askingCrashCases: Cases<EngineContext> = {
  'a run that asks sets the number of consecutive crashes to 0': async (context) => {
    const worker = context.script({ 2: ASKS, 3: { status: 'completed' } })
    const task = await context.created({ id: 'one' })
    const waits = await context.reaches('one', 'input_required')
    assert.deepEqual([waits.attempt, waits.crashes], [1, 0])
    await context.changed(task, { version: waits.version }, ANSWER)
    await context.reaches('one', 'completed')
    assert.deepEqual(worker.begun.map((begun) => begun.task.attempt), [1, 2, 2])
  },
}

/** Tests of questions with several processes. */
export const sharedAskingCases: Cases<EngineContext> = {
  'an answer after the death of the process that asked lets another process run the task':
    async (context) => {
      const dies = await context.fixture.open()
      const first = context.work({ run: untilOpened }, dies)
      const task = await context.created({ id: 'one' })
      const waits = await asked(await first.ran('one'))
      await dies.kill?.()
      const second = context.work()
      await context.quiet()
      assert.deepEqual(await context.stored('one'), waits)
      await context.changed(task, { version: waits.version }, ANSWER)
      assert.equal((await second.ran('one')).run.crashed, undefined)
      await context.reaches('one', 'completed')
    },
}
