import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { LISTED_STATUSES, type TaskEngine } from '../../src/engine/engine.js'
import { isFinalStatus, type NewTask, type StoredTask } from '../../src/engine/task.js'
import { taskOf, type EngineContext } from './context.js'

/** Limit whose count `assertWhole` checks. */
export const COUNTED = { group: 'counted', max: 100 }

/**
 * Checks that no change was made in part: each task is found by id, by key and in one list, and
 * `COUNTED` counts exactly the unfinished tasks of each caller. Starts again if a task changes
 * meanwhile, because a call of a killed process may still be running. Returns all tasks.
 */
export async function assertWhole(
  context: EngineContext, engine: TaskEngine, callers: readonly string[],
): Promise<readonly StoredTask[]> {
  for (;;) {
    const tasks = await context.listed({}, engine)
    try {
      await check(context, engine, callers, tasks)
      return tasks
    } catch (error) {
      if (isDeepStrictEqual(await context.listed({}, engine), tasks)) throw error
    }
  }
}

async function check(
  context: EngineContext, engine: TaskEngine, callers: readonly string[],
  tasks: readonly StoredTask[],
): Promise<void> {
  const lists = await Promise.all(LISTED_STATUSES.map((status) => context.ids({ statuses: [status] }, engine)))
  assert.deepEqual(lists.flat().sort(), tasks.map(({ id }) => id).sort(), 'the lists differ')
  for (const task of tasks) {
    assert.deepEqual(await engine.read(task.id), task)
    if (task.key !== undefined) assert.deepEqual(await engine.readByKey(task.key), task)
    const isFinal = isFinalStatus(task.status)
    assert.equal(task.finishedAt !== undefined, isFinal, `finishedAt of a task that is ${task.status}`)
  }
  for (const caller of callers) await assertCounted(context, engine, caller, tasks)
}

/** Checks the number of unfinished tasks that `COUNTED` counts for a caller. */
async function assertCounted(
  context: EngineContext, engine: TaskEngine, caller: string, tasks: readonly StoredTask[],
): Promise<void> {
  const unfinished = tasks.filter((task) => task.caller === caller && !isFinalStatus(task.status))
  const probe = (max: number): NewTask => (
    context.task({ id: 'probe', caller, limit: { ...COUNTED, max }, pool: 'nobody' })
  )
  const count = unfinished.length
  const full = await engine.create(probe(count))
  assert.equal(full.outcome, 'caller_full', `the limit of ${caller} counts fewer than ${String(count)}`)
  const created = await engine.create(probe(count + 1))
  assert.equal(created.outcome, 'created', `the limit of ${caller} counts more than ${String(count)}`)
  const task = taskOf(created)
  await context.changed(task, { version: 1 }, { status: 'cancelled' }, engine)
  await engine.delete(task, 2)
}
