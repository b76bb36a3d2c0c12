// Runs that others replace, and runs whose engine is away: what they do, and what is left.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { jsonSchema } from '../../../../src/schema/json-schema.js'
import { StoreUnavailableError } from '../../../../src/stores/store.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import type { TaskContext } from '../../../../src/tasks/definition/run-context.js'
import type { TasksOptions } from '../../../../src/tasks/core/tasks-options.js'
import { HandEngine } from '../../kit/hand-engine.js'
import { Spy, spyEngine, SpyStore } from '../../kit/tasks.js'
import { deferred, eventually } from '../../../kit/wait.js'

/** Two processes of one engine, which fails when the test says so. */
function setUp(
  t: TestContext, run: (context: TaskContext) => unknown,
  { durable = true, ...more }: Partial<TasksOptions> & { readonly durable?: boolean } = {},
) {
  const spy = new Spy()
  const hand = new HandEngine(durable)
  const heard: unknown[] = []
  const released: string[] = []
  const work = defineTask({
    name: 'work', maxPerOwner: 1, attempts: 3, external: { of: () => 'a file', release: (name) => released.push(name) },
    run: (_, context) => run(context),
  })
  const open = (engine: HandEngine) => createTasks({
    store: new SpyStore(memory().store, spy, true), engine: spyEngine(engine, spy), definitions: [work],
    onError: (error) => { heard.push(error) }, progressIntervalMs: 0, ...more,
  })
  const tasks = open(hand)
  const others = open(hand.another())
  t.after(() => tasks.close({ drainMs: 0 }))
  return { spy, hand, heard, released, work, tasks, others }
}

/** Runs until its signal aborts; `signals` of all runs in the order in which they began. */
function lasting() {
  const signals: AbortSignal[] = []
  const run = ({ signal }: TaskContext) => new Promise<never>((_, reject) => {
    signals.push(signal)
    signal.addEventListener('abort', () => { reject(signal.reason as Error) })
  })
  return { signals, run }
}

/** Makes the pauses between two calls of an engine short. */
function hurry(t: TestContext): void {
  const real = setTimeout
  t.mock.method(globalThis, 'setTimeout', (work: () => void) => real(work, 1))
}

describe('a replaced run', () => {
  test('is aborted, writes nothing, and releases nothing that a later run needs', async (t) => {
    const { signals, run } = lasting()
    const { hand, released, heard, work, tasks, spy } = setUp(t, run)
    const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
    const first = hand.deliver(id)
    await eventually(() => signals.length === 1)
    const second = hand.takeOver(id)
    await first
    await eventually(() => signals.length === 2)
    assert.equal(
      spy.calls.filter((call) => call.startsWith('change')).length,
      1,
      'the later run notes that the first was lost',
    )
    assert.deepEqual([released, heard, signals.map(({ aborted }) => aborted)], [[], [], [true, false]])
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' })
    await tasks.cancel(id)
    await second
    await tasks.submit(work, 1, { owner: 'ann' })
    assert.deepEqual(released, [], 'a retry may need it')
  })

  for (const durable of [true, false]) {
    test(`writes no progress and no result if it continues (durable engine: ${String(durable)})`, async (t) => {
      const gates = [deferred<string>(), deferred<string>()]
      const reports: ((done: number) => void)[] = []
      const { hand, tasks, work, spy, heard } = setUp(t, async ({ attempt, progress }) => {
        reports.push(progress)
        return { message: await (gates[attempt - 1] ?? assert.fail()).promise }
      }, { durable })
      const { taskId: id } = await tasks.submit(work, 1)
      const first = hand.deliver(id)
      await eventually(() => reports.length === 1)
      const second = hand.takeOver(id)
      await eventually(() => reports.length === 2)
      reports[0]?.(50)
      gates[0]?.resolve('late')
      await first
      assert.deepEqual([(await tasks.get(id))?.status, (await tasks.get(id))?.progress], ['processing', undefined])
      assert.equal((await tasks.health()).running, 1)
      gates[1]?.resolve('right')
      await second
      assert.deepEqual((await tasks.get(id))?.result, { message: 'right' })
      assert.equal((await tasks.health()).running, 0)
      assert.deepEqual(heard, [])
      assert.ok(spy.calls.length < 20, spy.calls.join())
    })
  }

  test('is aborted without an error if its task no longer exists', async (t) => {
    const { signals, run } = lasting()
    const { hand, released, heard, work, tasks } = setUp(t, run)
    const { taskId: id } = await tasks.submit(work, 1)
    const done = hand.deliver(id)
    await eventually(() => signals.length === 1)
    hand.drop(id)
    await done
    assert.deepEqual([signals[0]?.aborted, released, heard], [true, [], []])
  })
})

describe('a failed run with attempts left', () => {
  for (const what of ['cancelled', 'gone'] as const) {
    test(`is not retried if its task was ${what} before it was notified`, async (t) => {
      const { hand, heard, work, tasks, others } = setUp(t, async () => {
        if (what === 'cancelled') await others.cancel('one')
        else hand.drop('one')
        throw new Error('not yet')
      })
      await tasks.submit(work, 1, { id: 'one' })
      await hand.deliver('one')
      assert.equal((await tasks.get('one'))?.status, what === 'cancelled' ? 'cancelled' : undefined)
      assert.ok(heard.every((error) => error instanceof Error && error.message === 'not yet'))
    })
  }

  test('waits for its next attempt, with its progress, even if the engine is unavailable for a moment', async (t) => {
    const { hand, heard, spy, work, tasks } = setUp(t, ({ progress }) => {
      progress(1)
      progress(2)
      let left = 3
      spy.fault = (call) => (call.startsWith('change') && left-- > 0 ? 'before' : undefined)
      throw new Error('not yet')
    })
    const { taskId: id } = await tasks.submit(work, 1)
    await hand.deliver(id)
    assert.deepEqual([hand.at(id).status, (await tasks.get(id))?.progress?.done], ['queued', 2])
    assert.ok(hand.delayOf(id) > 0)
    assert.deepEqual(heard.map((error) => (error as Error).message), ['not yet'])
  })
})

describe('a task whose workers die', () => {
  test('ends as task_lost after maxCrashes runs in a row, even if the engine is unavailable at first', async (t) => {
    const { signals, run } = lasting()
    const { hand, spy, heard, released, work, tasks } = setUp(t, run, { maxCrashes: 2 })
    const { taskId: id } = await tasks.submit(work, 1)
    const runs = [hand.deliver(id)]
    await eventually(() => signals.length === 1)
    runs.push(hand.takeOver(id))
    await eventually(() => signals.length === 2)
    let left = 2
    spy.fault = (call) => (call.startsWith('change') && left-- > 0 ? 'before' : undefined)
    await hand.takeOver(id)
    await Promise.all(runs)
    const task = await tasks.get(id)
    assert.deepEqual([task?.status, task?.error?.code, signals.length], ['failed', 'task_lost', 2])
    assert.deepEqual([heard, released], [[], []])
    assert.deepEqual(
      task?.attempts?.map(({ error }) => error?.code),
      ['task_interrupted', 'task_interrupted', 'task_lost'],
    )
  })

  test('runs again and loses no attempt, which its next run shows', async (t) => {
    const { signals, run } = lasting()
    const seen: [number, boolean][] = []
    const { hand, work, tasks } = setUp(t, (context) => {
      seen.push([context.attempt, context.lastAttempt])
      return context.attempt === 4 ? { message: 'done' } : run(context)
    }, { maxCrashes: 4 })
    const { taskId: id } = await tasks.submit(work, 1)
    void hand.deliver(id)
    for (let count = 1; count <= 3; count++) {
      await eventually(() => signals.length === count)
      void hand.takeOver(id)
    }
    await eventually(() => hand.at(id).status === 'completed')
    assert.deepEqual(seen, [[1, false], [2, false], [3, false], [4, false]])
  })
})

test('an engine that stays unavailable is reported to onError, and close ends', async (t) => {
  hurry(t)
  const { hand, work, tasks, spy, heard } = setUp(t, () => undefined)
  const { taskId: id } = await tasks.submit(work, 1)
  spy.fault = () => 'before'
  await hand.deliver(id)
  assert.deepEqual([heard.length, heard[0] instanceof StoreUnavailableError], [1, true])
  spy.fault = () => undefined
  assert.equal((await tasks.get(id))?.status, 'processing', 'its run is lost with its lease')
})

for (const durable of [true, false]) {
  test(`a worker that closes ${durable ? 'gives a run back that others continue' : 'fails a run that nobody continues'}`, async (t) => {
    const { signals, run } = lasting()
    const { hand, work, tasks, heard } = setUp(t, run, { durable })
    const { taskId: id } = await tasks.submit(work, 1)
    const delivered = hand.deliver(id)
    await eventually(() => signals.length === 1)
    await tasks.close({ drainMs: 0 })
    await delivered
    assert.equal(hand.at(id).status, durable ? 'queued' : 'failed')
    assert.deepEqual(heard, [])
    if (durable) assert.equal(hand.delayOf(id) <= 0, true)
  })
}

test('a task that only this process can run fails if the schema of its definition rejects the stored input', async (t) => {
  const hand = new HandEngine(false)
  const parts = { store: memory().store, onError: () => undefined }
  const any = defineTask({ name: 'work', run: () => 1 })
  const strict = defineTask({ name: 'work', input: jsonSchema({ type: 'object' }), run: () => 1 })
  const web = createTasks({ ...parts, engine: hand.another(), definitions: [any], worker: false })
  const { taskId: id } = await web.submit(any, 5)
  const worker = createTasks({ ...parts, engine: hand, definitions: [strict] })
  t.after(() => worker.close({ drainMs: 0 }))
  await hand.deliver(id)
  assert.deepEqual([(await web.get(id))?.status, (await web.get(id))?.error?.code], ['failed', 'invalid_input'])
})

test('a task that only this process can run fails if the process does not know its kind of work', async (t) => {
  const hand = new HandEngine(false)
  const parts = { store: memory().store, onError: () => undefined }
  const work = defineTask({ name: 'work', run: () => 1 })
  const web = createTasks({ ...parts, engine: hand.another(), definitions: [work], worker: false })
  const { taskId: id } = await web.submit(work, 5)
  const worker = createTasks({ ...parts, engine: hand, definitions: [defineTask({ name: 'other', run: () => 1 })] })
  t.after(() => worker.close({ drainMs: 0 }))
  await hand.deliver(id)
  assert.equal((await web.get(id))?.error?.code, 'unknown_task')
})
