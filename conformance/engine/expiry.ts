import assert from 'node:assert/strict'
import { isRunReplaced } from '../../src/engine/runs.js'
import type { Cases } from '../runner.js'
import { deferred, pause } from '../wait.js'
import { HOUR, untilAborted, type EngineContext, type Worker } from './context.js'

const pool = 'nobody'

/** Waits for a removal, and for further ones. Returns the births and details of the tasks. */
async function removed(context: EngineContext, worker: Worker): Promise<unknown[]> {
  await context.eventually(() => worker.removed.length >= 1, 'remove is called')
  await context.quiet()
  return worker.removed.map(({ birth, details }) => [birth, details])
}

/** Tests of tasks that expire, and of their files. */
export const expiryCases: Cases<EngineContext> = {
  'an expired task is absent for every call': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', key: 'key', owner: 'ann', pool, keepMs: context.delayMs })
    await context.past(task.expiresAt)
    for (const engine of [context.engine, other]) {
      await context.absent('one', 'key', engine)
      assert.deepEqual(await context.ids({ of: { owner: 'ann' } }, engine), [])
      assert.deepEqual(await context.ids({ statuses: ['queued'] }, engine), [])
      assert.equal(await context.conflict(task, { version: 1 }, { keepMs: HOUR }, engine), undefined)
      assert.equal(await engine.delete(task, 1), undefined)
      assert.deepEqual(await engine.counts(pool), { running: 0, waiting: 0, delayed: 0 })
    }
  },

  'a task whose lifetime is prolonged does not expire': async (context) => {
    const task = await context.created({ id: 'one', pool, keepMs: context.windowMs })
    const kept = await context.changed(task, { version: 1 }, { keepMs: HOUR })
    await context.past(task.expiresAt)
    assert.deepEqual(await context.listed(), [kept])
    assert.deepEqual(await context.engine.read('one'), kept)
  },

  'an expired task does not run, and its callback is not sent': async (context) => {
    const task = await context.created({ id: 'one', keepMs: context.delayMs })
    const change = { status: 'failed', callbackMs: 0, keepMs: context.delayMs } as const
    const { expiresAt } = await context.ended({ id: 'two' }, change)
    await context.past(Math.max(task.expiresAt, expiresAt))
    const worker = context.work()
    await context.created({ id: 'mark' })
    await context.reaches('mark', 'completed')
    await context.quiet()
    assert.deepEqual([worker.ids, worker.callbacks], [['mark'], []])
  },

  'at most ten removals of files run at the same time, and they delay no callback': async (context) => {
    const latch = deferred()
    const remove = async (): Promise<boolean> => {
      await latch.promise
      return true
    }
    const worker = context.work({ remove })
    for (let n = 0; n < 30; n++) {
      const task = await context.ended({ id: `file-${String(n)}`, hasFiles: true })
      await context.engine.delete(task, 2)
    }
    await context.eventually(() => worker.removed.length >= 1, 'remove is called')
    await context.ended({ id: 'one' }, { status: 'failed', callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 1, 'the callback is sent')
    assert.ok(worker.removed.length <= 10, `${String(worker.removed.length)} removals run`)
    latch.resolve()
    await context.eventually(() => new Set(worker.removed.map(({ id }) => id)).size === 30, 'all files are removed')
  },

  'the files of an expired task are removed once': async (context) => {
    const worker = context.work()
    const change = { status: 'failed', keepMs: context.delayMs } as const
    const ended = await context.ended({ id: 'one', hasFiles: true, details: { file: 'a' } }, change)
    await context.created({ id: 'plain', pool, keepMs: context.delayMs })
    await context.created({ id: 'stays', pool, hasFiles: true })
    await context.eventually(() => worker.removed.length >= 1, 'remove is called')
    assert.ok(await context.engine.now() >= ended.expiresAt, 'remove was called before the task expired')
    assert.deepEqual(await removed(context, worker), [[ended.birth, ended.details]])
  },

  'the files of an expired or deleted task are removed once, although its id and key are used again':
    async (context) => {
      const other = (await context.open()).engine
      const gone = []
      const fresh = []
      for (const id of ['expired', 'deleted']) {
        const old = await context.ended({ id, key: id, hasFiles: true, details: { file: id } }, {
          status: 'completed', keepMs: id === 'expired' ? context.delayMs : HOUR,
        })
        if (id === 'expired') await context.past(old.expiresAt)
        else assert.equal(await context.engine.delete(old, 2), undefined)
        await context.absent(id, id, other)
        fresh.push(await context.created({ id, key: `${id} again`, pool, hasFiles: true }))
        fresh.push(await context.created({ id: `${id}-again`, key: id, pool, hasFiles: true }))
        assert.equal(await context.conflict(old, { version: 2 }, { details: {} }), undefined)
        gone.push([old.birth, old.details])
      }
      const worker = context.work()
      await context.eventually(() => worker.removed.length >= 2, 'remove is called for both tasks')
      assert.deepEqual((await removed(context, worker)).sort(), gone.sort())
      assert.deepEqual((await context.listed()).map(({ birth }) => birth).sort(), fresh.map(({ birth }) => birth).sort())
      for (const task of fresh) assert.deepEqual(await other.readByKey(task.key as string), task)
    },

  'a change sets whether a task has files': async (context) => {
    const task = await context.created({ id: 'gets', pool })
    const { birth, details } = await context.changed(task, { version: 1 }, { hasFiles: true, keepMs: context.delayMs })
    const loses = await context.created({ id: 'loses', pool, hasFiles: true })
    const { expiresAt } = await context.changed(loses, { version: 1 }, { hasFiles: false, keepMs: context.delayMs })
    await context.past(expiresAt)
    assert.deepEqual(await removed(context, context.work()), [[birth, details]])
  },
}

/** Tests of files whose removal fails. */
export const removalCases: Cases<EngineContext> = {
  'files whose removal failed are removed later': async (context) => {
    let calls = 0
    const worker = context.work({ remove: async () => ++calls > 1 })
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
    const worker = context.work({ run: untilAborted })
    await context.created({ id: 'one', key: 'key' })
    const begun = await worker.ran('one')
    // The lifetime is shortened now, because a slow machine may begin the run late.
    await begun.change({ keepMs: context.delayMs })
    await context.eventually(() => begun.run.signal.aborted, 'the signal aborts')
    assert.ok(isRunReplaced(begun.run.signal.reason), 'the reason is not a RunReplacedError')
    assert.deepEqual(await begun.change({ status: 'completed' }), { outcome: 'conflict', task: undefined })
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },
}

/** Tests of files when processes die. For shared engines. */
export const sharedExpiryCases: Cases<EngineContext> = {
  'another process removes the files of a task whose process has died': async (context) => {
    const task = await context.created({ id: 'one', pool, hasFiles: true, keepMs: context.delayMs })
    await context.first.kill?.()
    const worker = context.work({}, await context.open())
    assert.deepEqual(await removed(context, worker), [[task.birth, task.details]])
  },
}
