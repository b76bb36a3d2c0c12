import assert from 'node:assert/strict'
import { isRunReplaced } from '../../engine/runs.js'
import type { Cases } from '../runner.js'
import { Latch, pause } from '../waiting.js'
import { HOUR, untilAborted, type EngineContext } from './context.js'

const pool = 'nobody'

/** Tests of tasks that expire, and of their files. */
export const expiryCases: Cases<EngineContext> = {
  'an expired task is absent for every call': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', key: 'key', owner: 'ann', pool, keepMs: context.delayMs })
    await context.past(task.expiresAt)
    for (const engine of [context.engine, other]) {
      assert.equal(await engine.read('one'), undefined)
      assert.equal(await engine.readByKey('key'), undefined)
      for (const of of ['all', { owner: 'ann' }] as const) assert.deepEqual(await context.ids({ of }, engine), [])
      assert.deepEqual(await context.ids({ statuses: ['queued'] }, engine), [])
      assert.equal(await context.conflict(task, { version: 1 }, { keepMs: HOUR }, engine), undefined)
      assert.equal(await engine.delete(task, 1), undefined)
      assert.deepEqual(await engine.counts(pool), { running: 0, waiting: 0, delayed: 0 })
    }
  },

  'a task that is kept longer does not expire': async (context) => {
    const task = await context.created({ id: 'one', pool, keepMs: context.delayMs })
    const kept = await context.changed(task, { version: 1 }, { keepMs: HOUR })
    await context.past(task.expiresAt)
    assert.deepEqual(await context.engine.read('one'), kept)
    assert.deepEqual(await context.ids(), ['one'])
  },

  'the id and the key of an expired task can be used at once': async (context) => {
    const old = await context.created({ id: 'one', key: 'key', pool, keepMs: context.delayMs })
    await context.past(old.expiresAt)
    const fresh = await context.created({ id: 'one', key: 'another', pool })
    const second = await context.created({ id: 'two', key: 'key', pool })
    assert.deepEqual(await context.ids(), [fresh, second].sort((a, b) => a.createdAt - b.createdAt).map(({ id }) => id))
    assert.deepEqual(await context.engine.readByKey('key'), second)
    assert.deepEqual(await context.engine.readByKey('another'), fresh)
    assert.equal(await context.conflict(old, { version: 1 }, { status: 'failed' }), undefined)
    assert.deepEqual(await context.engine.read('one'), fresh)
  },

  'an expired task does not run, and its callback is not sent': async (context) => {
    const task = await context.created({ id: 'one', keepMs: context.delayMs })
    const ended = await context.created({ id: 'two', pool })
    const change = { status: 'failed', callbackMs: 0, keepMs: context.delayMs } as const
    const { expiresAt } = await context.changed(ended, { version: 1 }, change)
    await context.past(Math.max(task.expiresAt, expiresAt))
    const worker = context.work(context.first)
    await context.created({ id: 'mark' })
    await context.reaches('mark', 'completed')
    await context.quiet()
    assert.deepEqual([worker.ids, worker.callbacks], [['mark'], []])
  },

  'of removals of files at most ten run at the same time, and they hold up no callback': async (context) => {
    const latch = new Latch()
    const remove = async (): Promise<boolean> => {
      await latch.opened
      return true
    }
    const worker = context.work(context.first, { remove })
    for (let n = 0; n < 30; n++) {
      const task = await context.ended(
        { id: `file-${String(n)}`, pool, hasFiles: true }, { status: 'failed' },
      )
      await context.engine.delete(task, 2)
    }
    await context.eventually(() => worker.removed.length >= 1, 'remove is called')
    await context.ended({ id: 'one', pool }, { status: 'failed', callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 1, 'the callback is sent')
    assert.ok(worker.removed.length <= 10, `${String(worker.removed.length)} removals run`)
    latch.open()
    await context.eventually(() => new Set(worker.removed.map(({ id }) => id)).size === 30, 'all files are removed')
  },

  'the files of an expired task are removed once': async (context) => {
    const worker = context.work(context.first)
    const task = await context.created({ id: 'one', pool, hasFiles: true, details: { file: 'a' } })
    const ended = await context.changed(task, { version: 1 }, { status: 'failed', keepMs: context.delayMs })
    await context.created({ id: 'plain', pool, keepMs: context.delayMs })
    await context.created({ id: 'stays', pool, hasFiles: true })
    await context.eventually(() => worker.removed.length >= 1, 'remove is called')
    assert.ok(await context.engine.now() >= ended.expiresAt, 'remove was called before the task expired')
    await context.quiet()
    const removed = worker.removed.map(({ id, birth, details }) => [id, birth, details])
    assert.deepEqual(removed, [['one', task.birth, ended.details]])
  },

  'the files of a deleted task are removed once, although its id and key are used again': async (context) => {
    const other = (await context.open()).engine
    const old = await context.created({ id: 'one', key: 'key', pool, hasFiles: true, details: { file: 'old' } })
    const ended = await context.changed(old, { version: 1 }, { status: 'completed' })
    assert.equal(await context.engine.delete(old, 2), undefined)
    for (const engine of [context.engine, other]) {
      assert.equal(await engine.read('one'), undefined)
      assert.equal(await engine.readByKey('key'), undefined)
      assert.deepEqual(await context.ids({}, engine), [])
    }
    const fresh = await context.created({ id: 'one', key: 'key', pool, hasFiles: true, details: { file: 'new' } })
    const worker = context.work(context.first)
    await context.eventually(() => worker.removed.length >= 1, 'remove is called')
    await context.quiet()
    assert.deepEqual(worker.removed.map(({ birth, details }) => [birth, details]), [[old.birth, ended.details]])
    assert.deepEqual(await other.readByKey('key'), fresh)
  },

  'a change tells whether a task has files': async (context) => {
    const task = await context.created({ id: 'gets', pool })
    await context.changed(task, { version: 1 }, { hasFiles: true, keepMs: context.delayMs })
    const loses = await context.created({ id: 'loses', pool, hasFiles: true })
    const { expiresAt } = await context.changed(loses, { version: 1 }, { hasFiles: false, keepMs: context.delayMs })
    await context.past(expiresAt)
    const worker = context.work(context.first)
    await context.eventually(() => worker.removed.length >= 1, 'remove is called')
    await context.quiet()
    assert.deepEqual(worker.removed.map(({ id }) => id), ['gets'])
  },

  'the files of an expired task are removed even if its id is used again': async (context) => {
    const old = await context.created({ id: 'one', key: 'key', pool, hasFiles: true, keepMs: context.delayMs, details: { file: 'old' } })
    await context.past(old.expiresAt)
    const fresh = await context.created({ id: 'one', key: 'key', pool, hasFiles: true, details: { file: 'new' } })
    const worker = context.work(context.first)
    await context.eventually(() => worker.removed.length >= 1, 'remove is called')
    await context.quiet()
    assert.deepEqual(worker.removed.map(({ birth, details }) => [birth, details]), [[old.birth, { file: 'old' }]])
    assert.deepEqual(await context.engine.read('one'), fresh)
    assert.deepEqual(await context.engine.readByKey('key'), fresh)
    assert.deepEqual(await context.listed(), [fresh])
  },
}

/** Tests of files whose removal fails. */
export const removalCases: Cases<EngineContext> = {
  'files whose removal failed are removed later': async (context) => {
    let calls = 0
    const worker = context.work(context.first, { remove: async () => ++calls > 1 })
    await context.created({ id: 'one', pool, hasFiles: true, keepMs: context.delayMs })
    await context.eventually(() => worker.removed.length >= 2, 'remove is called again')
    assert.equal(worker.removed[0]?.birth, worker.removed[1]?.birth)
    await pause(4 * context.toleranceMs)
    assert.equal(worker.removed.length, 2, 'remove was called after it succeeded')
  },
}

/** Tests of running tasks that expire. They wait for a lease. */
export const runningExpiryCases: Cases<EngineContext> = {
  'the run of a task that expires is stopped, and can write nothing': async (context) => {
    const worker = context.work(context.first, { run: untilAborted })
    await context.created({ id: 'one', key: 'key' })
    const begun = await worker.ran('one')
    // Not from the start: a slow machine would begin the run too late.
    await begun.change({ keepMs: context.delayMs })
    await context.eventually(() => begun.run.signal.aborted, 'the signal aborts')
    assert.ok(isRunReplaced(begun.run.signal.reason), 'the reason is no RunReplacedError')
    assert.deepEqual(await begun.change({ status: 'completed' }), { outcome: 'conflict', task: undefined })
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },
}

/** Tests of files when processes die. For shared engines. */
export const sharedExpiryCases: Cases<EngineContext> = {
  'the files of a task that a dead process left are removed by another': async (context) => {
    const task = await context.created({ id: 'one', pool, hasFiles: true, keepMs: context.delayMs })
    await context.first.kill?.()
    const worker = context.work(await context.open())
    await context.eventually(() => worker.removed.length === 1, 'remove is called')
    assert.equal(worker.removed[0]?.birth, task.birth)
  },

  'the files of a task are removed if the process that removes them dies': async (context) => {
    const first = context.work(context.first, { remove: () => new Promise(() => undefined) })
    await context.created({ id: 'one', pool, hasFiles: true, keepMs: context.delayMs })
    await context.eventually(() => first.removed.length === 1, 'remove is called')
    await context.first.kill?.()
    // The files may be reserved for the dead process for a time, of at most a minute.
    assert.equal(await (await context.open()).engine.read('one'), undefined)
  },
}
