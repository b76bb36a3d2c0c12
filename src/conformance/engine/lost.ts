import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type { ListedStatus, TaskEngine } from '../../engine/engine.js'
import { isFinalStatus, type NewTask, type StoredTask } from '../../engine/task.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { StoreUnavailableError } from '../../stores/store.js'
import type { Cases } from '../runner.js'
import { Latch, pause } from '../waiting.js'
import { HOUR, taskOf, untilOpened, type EngineContext } from './context.js'
import { withFaults } from './faults.js'

const pool = 'nobody'
const callers = ['ann']

/** Makes a call on an engine that loses the response. */
async function lose(engine: TaskEngine, call: (lossy: TaskEngine) => MaybePromise<unknown>): Promise<void> {
  const lossy = withFaults(engine, () => 'lost')
  await assert.rejects(async () => call(lossy), StoreUnavailableError)
}

/** Tests of calls whose response is lost: the change was made wholly, and a repetition says so. */
export const lostCases: Cases<EngineContext> = {
  'the response is lost of a create': async (context) => {
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', limit: COUNTED, owner: 'ann', pool })
    await lose(context.engine, (lossy) => lossy.create(task))
    const other = (await context.open()).engine
    const [stored] = await assertWhole(context, other, callers)
    assert.deepEqual(await context.engine.create(task), { outcome: 'created', task: stored })
    await assertWhole(context, other, callers)
  },

  'the response is lost of a create, which somebody else repeats with the same key': async (context) => {
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

  'the response is lost of an end of a run': async (context) => {
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

  'the response is lost of a checkpoint, which is saved again': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    const task = await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    await lose(context.engine, (lossy) => lossy.change(task, { run: 1 }, { checkpoint: 'half' }))
    await context.changed(task, { run: 1 }, { checkpoint: 'half' })
    assert.deepEqual(await context.stored('one'), begun.task)
    await begun.end({ status: 'queued' })
    assert.equal((await worker.ran('one', 2)).run.checkpoint, 'half')
    worker.begun[1]?.latch.open()
  },

  'the response is lost of a retry, which makes one further run': async (context) => {
    const worker = context.work(context.first)
    const task = await context.ended(
      { id: 'one', caller: 'ann', limit: COUNTED, pool }, { status: 'failed' },
    )
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

  'the response is lost of a cancellation': async (context) => {
    const task = await context.created({ id: 'one', caller: 'ann', limit: COUNTED, pool })
    await lose(context.engine, (lossy) => lossy.change(task, { version: 1 }, { status: 'cancelled' }))
    const now = await context.conflict(task, { version: 1 }, { status: 'cancelled' })
    assert.deepEqual([now?.status, now?.version], ['cancelled', 2])
    await assertWhole(context, context.engine, callers)
  },

  'the response is lost of a deletion': async (context) => {
    const task = await context.ended(
      { id: 'one', key: 'key', caller: 'ann', limit: COUNTED, pool }, { status: 'failed' },
    )
    await lose(context.engine, async (lossy) => lossy.delete(task, 2))
    assert.equal(await context.engine.delete(task, 2), undefined)
    assert.deepEqual(await assertWhole(context, context.engine, callers), [])
    const fresh = await context.created({ id: 'one', key: 'key', pool })
    assert.equal(await context.engine.delete(task, 2), undefined)
    assert.deepEqual(await context.engine.read('one'), fresh)
  },
}

const ROUNDS = 6

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
    // In the last round the call gets its response.
    if (round === ROUNDS - 1) await context.soon(outcome, 'the call gets its response')
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
      const task = await context.ended(
        { id: `task-${String(round)}`, caller: 'ann', limit: COUNTED, pool }, { status: 'failed' },
      )
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
      const task = await context.ended(
        { id, key: id, owner: 'ann', caller: 'ann', limit: COUNTED, pool }, { status: 'failed' },
      )
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

/** Limit that counts the tasks of these cases. */
export const COUNTED = { group: 'counted', max: 100 }

const STATUSES: readonly ListedStatus[] = [
  'scheduled', 'queued', 'processing', 'completed', 'failed', 'cancelled',
]

/**
 * Checks that nothing is left half: each task is found by id, by key and in one list, and
 * `COUNTED` counts the unfinished tasks of each caller, no more and no fewer. Starts again if a task changes
 * meanwhile, because a call of a killed process may still be under way.
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
  const lists = await Promise.all(STATUSES.map((status) => context.ids({ statuses: [status] }, engine)))
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
