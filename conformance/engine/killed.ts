import assert from 'node:assert/strict'
import type { TaskEngine } from '../../src/engine/engine.js'
import type { StoredTask } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { pause } from '../wait.js'
import { HOUR, untilOpened, type EngineContext } from './context.js'
import { assertWhole, COUNTED } from './whole.js'

const pool = 'nobody'
const IDS = Array.from({ length: 6 }, (_, n) => `task-${String(n)}`)
const ann = { owner: 'ann', caller: 'ann', limit: COUNTED }

/**
 * Six times opens a process, prepares it, makes a call about a task, kills the process at another
 * moment of the call, and checks the task. The last call gets its response before: it is
 * acknowledged.
 */
async function killDuring(
  context: EngineContext,
  prepare: (engine: TaskEngine, id: string) => Promise<() => unknown>,
  check: (task: StoredTask | undefined, isAcknowledged: boolean, id: string) => Promise<void> | void,
): Promise<void> {
  for (const [round, id] of IDS.entries()) {
    const process = await context.fixture.open()
    const call = await prepare(process.engine, id)
    const outcome = Promise.resolve(call()).catch(() => undefined)
    const isAcknowledged = round === IDS.length - 1
    if (isAcknowledged) await context.soon(outcome, 'the call gets its response')
    else if (round > 0) await pause((round - 1) * 2)
    await process.kill?.()
    await context.quiet()
    const tasks = await assertWhole(context, context.engine, ['ann'])
    await check(tasks.find((task) => task.id === id), isAcknowledged, id)
  }
  await assertWhole(context, context.engine, ['ann'])
}

/** Waits until all tasks are completed, and their callbacks sent. */
function allCompleted(context: EngineContext): Promise<void> {
  return context.eventually(async () => (await context.listed()).every((task) => (
    task.status === 'completed' && task.callbackAt === undefined
  )), 'all tasks are completed, and their callbacks sent')
}

/**
 * Tests of calls during which the process is killed. A change is made completely, or not at all.
 */
export const halfCases: Cases<EngineContext> = {
  'a create is applied as a whole or not at all if its process is killed': async (context) => {
    await killDuring(context, async (killed, id) => {
      const task = context.task({ id, key: `key-${id}`, ...ann, pool })
      return () => killed.create(task)
    }, async (task, isAcknowledged, id) => {
      assert.ok(task ?? !isAcknowledged, 'an acknowledged task is absent')
      const key = `key-${id}`
      assert.deepEqual(await context.engine.readByKey(key), task)
      const again = context.task({ id: `${id}-again`, key, ...ann, pool })
      assert.equal((await context.engine.create(again)).outcome, task ? 'exists' : 'created')
    })
  },

  'an end of a run is applied with its callback or not at all if its process is killed': async (context) => {
    await killDuring(context, async (killed, id) => {
      await context.created({ id, ...ann, pool: id })
      const options = { places: { [id]: 1 }, callbacks: 0, run: untilOpened }
      const begun = await context.work(options, { engine: killed }).ran(id)
      return () => begun.change({ status: 'completed', result: `"${id}"`, callbackMs: 0, details: { end: id } })
    }, (task, isAcknowledged, id) => {
      const { status, result, details, callbackAt } = task ?? {}
      if (status !== 'completed') assert.ok(!isAcknowledged, 'an acknowledged end was undone')
      assert.deepEqual([status, result, details], status === 'completed'
        ? ['completed', `"${id}"`, { end: id }]
        : ['processing', undefined, { made: id }])
      assert.equal(callbackAt !== undefined, status === 'completed')
    })
    const worker = context.work({
      places: Object.fromEntries(IDS.map((id) => [id, 1])),
      run: async (_run, begun) => { await begun.change({ status: 'completed', callbackMs: 0 }) },
    })
    await allCompleted(context)
    assert.equal(worker.callbacks.length, IDS.length)
    await assertWhole(context, context.engine, ['ann'])
  },

  'a retry is applied as a whole or not at all if its process is killed': async (context) => {
    await killDuring(context, async (killed, id) => {
      const task = await context.ended({ id, ...ann })
      return () => killed.change(task, { version: 2 }, { status: 'queued', limit: COUNTED })
    }, (task, isAcknowledged) => {
      assert.equal(task?.status, task?.version === 3 ? 'queued' : 'failed')
      assert.ok(!isAcknowledged || task?.version === 3, 'an acknowledged retry was undone')
    })
  },

  'a deletion is applied as a whole or not at all if its process is killed': async (context) => {
    await killDuring(context, async (killed, id) => {
      const task = await context.ended({ id, key: id, ...ann })
      return () => killed.delete(task, 2)
    }, async (task, isAcknowledged, id) => {
      assert.deepEqual(await context.engine.readByKey(id), task)
      assert.ok(!isAcknowledged || !task, 'an acknowledged deletion was undone')
      if (task) await context.engine.delete(task, 2)
      await context.created({ id, key: id, ...ann, pool })
    })
  },

  'a begin of a run is applied as a whole or not at all if its process is killed': async (context) => {
    for (let n = 0; n < 12; n++) await context.created({ id: `task-${String(n)}`, ...ann, keepMs: HOUR })
    await killDuring(context, async (killed) => () => {
      context.work({ places: { default: 3 }, run: untilOpened }, { engine: killed })
      return pause(5)
    }, async () => {
      for (const { status, run, runStartedAt } of await context.listed()) {
        assert.equal(status, run > 0 ? 'processing' : 'queued')
        assert.equal(runStartedAt !== undefined, run > 0)
      }
    })
    const worker = context.work()
    await allCompleted(context)
    assert.ok(worker.begun.length >= 12, 'not every task ran')
    await assertWhole(context, context.engine, ['ann'])
  },
}
