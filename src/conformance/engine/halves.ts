import assert from 'node:assert/strict'
import type { TaskEngine } from '../../engine/engine.js'
import type { Cases } from '../runner.js'
import { pause } from '../waiting.js'
import { HOUR, type EngineContext } from './context.js'
import { assertWhole, COUNTED } from './whole.js'

const ROUNDS = 6
const callers = ['ann']
const pool = 'nobody'

/**
 * Opens a process, prepares it, makes a call, and kills the process at another moment of the call in
 * each round. `observer` is the engine of a process that lives.
 */
async function killDuring(
  context: EngineContext,
  prepare: (engine: TaskEngine, round: number) => Promise<(() => unknown)>,
  check: (round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const process = await context.fixture.open()
    const call = await prepare(process.engine, round)
    const outcome = Promise.resolve(call()).catch(() => undefined)
    // In the last round the call is answered.
    if (round === ROUNDS - 1) await context.soon(outcome, 'the call is answered')
    else if (round > 0) await pause((round - 1) * 2)
    await process.kill?.()
    await context.quiet()
    await check(round)
  }
}

/** Tests of calls during which the process is killed: a change is made wholly, or not at all. */
export const halfCases: Cases<EngineContext> = {
  'a process is killed during a create': async (context) => {
    const { engine } = context
    const made: string[] = []
    await killDuring(context, async (killed, round) => {
      const id = `task-${String(round)}`
      const task = context.task({ id, key: `key-${id}`, owner: 'ann', caller: 'ann', limit: COUNTED, pool })
      return () => killed.create(task)
    }, async (round) => {
      const id = `task-${String(round)}`
      const tasks = await assertWhole(context, engine, callers)
      const task = tasks.find((each) => each.id === id)
      const byKey = await engine.readByKey(`key-${id}`)
      assert.deepEqual(byKey, task)
      if (task) made.push(id)
      // Whatever happened, a client that sends it again makes one task.
      const again = context.task({ id: `${id}-again`, key: `key-${id}`, caller: 'ann', limit: COUNTED, pool })
      const outcome = await engine.create(again)
      assert.equal(outcome.outcome, byKey ? 'exists' : 'created')
    })
    assert.ok(made.includes(`task-${String(ROUNDS - 1)}`), 'an acknowledged task is gone')
    await assertWhole(context, engine, callers)
  },

  'a process is killed during an end of a run, with its callback': async (context) => {
    const { engine } = context
    await killDuring(context, async (killed, round) => {
      const id = `task-${String(round)}`
      await context.created({ id, caller: 'ann', limit: COUNTED, pool: id })
      const worker = context.work({ engine: killed }, {
        places: { [id]: 1 }, callbacks: 0, run: (_run, begun) => begun.latch.opened,
      })
      const begun = await worker.ran(id)
      return () => begun.change({ status: 'completed', result: `"${id}"`, callbackMs: 0, details: { end: id } })
    }, async (round) => {
      const id = `task-${String(round)}`
      await assertWhole(context, engine, callers)
      const task = await context.stored(id)
      if (task.status === 'completed') {
        assert.deepEqual([task.result, task.details], [`"${id}"`, { end: id }])
        assert.notEqual(task.callbackAt, undefined)
      } else {
        assert.notEqual(round, ROUNDS - 1, 'an acknowledged end is gone')
        assert.deepEqual([task.status, task.result, task.details], ['processing', undefined, { made: id }])
        assert.equal(task.callbackAt, undefined)
      }
    })
    const places = Object.fromEntries(Array.from({ length: ROUNDS }, (_, n) => [`task-${String(n)}`, 1]))
    const worker = context.work(context.first, {
      places, run: async (_run, begun) => { await begun.change({ status: 'completed', callbackMs: 0 }) },
    })
    await context.eventually(async () => (await context.listed()).every((task) => (
      task.status === 'completed' && task.callbackAt === undefined
    )), 'all are completed, and their callbacks sent')
    assert.equal(worker.callbacks.length, ROUNDS)
    await assertWhole(context, engine, callers)
  },

  'a process is killed during a retry': async (context) => {
    const { engine } = context
    await killDuring(context, async (killed, round) => {
      const task = await context.created({ id: `task-${String(round)}`, caller: 'ann', limit: COUNTED, pool })
      await context.changed(task, { version: 1 }, { status: 'failed' })
      return () => killed.change(task, { version: 2 }, { status: 'queued', limit: COUNTED })
    }, async (round) => {
      await assertWhole(context, engine, callers)
      const task = await context.stored(`task-${String(round)}`)
      assert.equal(task.status, task.version === 3 ? 'queued' : 'failed')
      if (round === ROUNDS - 1) assert.equal(task.version, 3, 'an acknowledged retry is gone')
    })
  },

  'a process is killed during a deletion': async (context) => {
    const { engine } = context
    await killDuring(context, async (killed, round) => {
      const id = `task-${String(round)}`
      const task = await context.created({ id, key: id, owner: 'ann', caller: 'ann', limit: COUNTED, pool })
      await context.changed(task, { version: 1 }, { status: 'failed' })
      return () => killed.delete(task, 2)
    }, async (round) => {
      const id = `task-${String(round)}`
      const tasks = await assertWhole(context, engine, callers)
      const task = tasks.find((each) => each.id === id)
      assert.deepEqual(await engine.readByKey(id), task)
      if (round === ROUNDS - 1) assert.equal(task, undefined, 'an acknowledged deletion is undone')
      if (task) await engine.delete(task, 2)
      await context.created({ id, key: id, owner: 'ann', caller: 'ann', limit: COUNTED, pool })
    })
  },

  'a process is killed during the beginning of runs': async (context) => {
    const { engine } = context
    for (let n = 0; n < 12; n++) await context.created({ id: `task-${String(n)}`, caller: 'ann', limit: COUNTED, keepMs: HOUR })
    await killDuring(context, async (killed) => () => {
      context.work({ engine: killed }, { places: { default: 3 }, run: (_run, begun) => begun.latch.opened })
      return pause(5)
    }, async () => {
      const tasks = await assertWhole(context, engine, callers)
      for (const { status, run, runStartedAt } of tasks) {
        assert.equal(status, run > 0 ? 'processing' : 'queued')
        assert.equal(runStartedAt !== undefined, run > 0)
      }
    })
    const worker = context.work(context.first)
    await context.eventually(async () => (await context.listed()).every(({ status }) => status === 'completed'), 'all are completed')
    assert.ok(worker.begun.length >= 12, 'not every task ran')
    await assertWhole(context, engine, callers)
  },
}
