import assert from 'node:assert/strict'
import { Json } from '../../src/runtime/json.js'
import type { Cases } from '../runner.js'
import { pause, together } from '../wait.js'
import { untilOpened, type EngineContext } from './context.js'

/** Tests of runs whose worker lives. */
export const runCases: Cases<EngineContext> = {
  'a task runs once, and its run is one visible change': async (context) => {
    const before = await context.engine.now()
    const { worker, task, begun } = await context.running({ id: 'one', key: 'key', owner: 'ann', caller: 'ann' })
    const { run } = begun
    const { startedAt = 0 } = run.task
    assert.ok(startedAt >= before && startedAt <= await context.engine.now(), 'startedAt is wrong')
    assert.deepEqual(run.task, {
      ...task, status: 'processing', version: 2, run: 1, attempt: 1, startedAt,
      runStartedAt: startedAt,
    })
    assert.deepEqual(await context.engine.read('one'), run.task)
    assert.deepEqual([run.checkpoint, run.crashed, run.signal.aborted], [undefined, undefined, false])
    await begun.end({ status: 'completed', result: '1' })
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },

  'any JSON value is an input, with its text and the order of its properties': async (context) => {
    const values = [
      null, 0, '', false, [], {}, 'text', -1.5e-9, 1e300,
      Array.from({ length: 20_000 }, (_, n) => ({ n, text: `é ${String(n)}` })),
      { z: 'a\u0000b', a: '\ud800', é: '\\u0000', '\u0000': 1, list: [{ y: 1, x: '😀\u2028' }] },
    ]
    const worker = context.work()
    for (const [n, value] of values.entries()) {
      await context.created({ id: `value-${String(n)}`, input: Json.of(value) })
      await context.created({ id: `text-${String(n)}`, input: Json.fromText(JSON.stringify(value)) })
    }
    await context.created({ id: 'none', input: Json.of(undefined) })
    for (const [n, value] of values.entries()) {
      for (const kind of ['value', 'text']) {
        const { run } = await worker.ran(`${kind}-${String(n)}`)
        assert.equal(JSON.stringify(run.input.value), JSON.stringify(value))
      }
    }
    assert.equal((await worker.ran('none')).run.input.value, undefined)
  },

  'run is not called inside create': async (context) => {
    let isCreating = false
    let wasInside = false
    const worker = context.work({
      run: async (_run, begun) => {
        wasInside ||= isCreating
        await begun.change({ status: 'completed' })
      },
    })
    isCreating = true
    const created = context.engine.create(context.task({ id: 'one' }))
    isCreating = false
    await created
    await worker.ran('one')
    assert.equal(wasInside, false)
  },

  'each task runs once with several workers, and no more tasks run at a time than there are places':
    async (context) => {
      const workers = []
      let running = 0
      let most = 0
      for (const process of new Set([context.first, await context.open(), await context.open()])) {
        workers.push(context.work({
          places: { default: 3 },
          run: async (_run, begun) => {
            most = Math.max(most, ++running)
            await pause(3)
            running--
            await begun.change({ status: 'completed' })
          },
        }, process))
      }
      const ids = Array.from({ length: 60 }, (_, n) => `task-${String(n)}`)
      await together(60, (n) => context.created({ id: ids[n] as string }))
      await context.eventually(async () => (
        (await context.ids({ statuses: ['completed'] })).length === 60
      ), 'sixty tasks are completed')
      await context.quiet()
      assert.deepEqual(workers.flatMap((worker) => worker.ids).sort(), ids.toSorted())
      assert.ok(most <= 3 * workers.length, `${String(most)} ran at a time`)
      assert.ok(most >= 2, 'no two ran at a time')
      for (const { places } of workers) {
        await context.eventually(() => places.freeIn('default') === 3, 'all places are free again')
      }
    },

  'the runs of a process share its places, and free them when their handlers end': async (context) => {
    const worker = context.work({ places: { default: 2 }, run: untilOpened })
    assert.ok(worker.places.tryAcquire('default'), 'no place is free')
    for (const n of [1, 2, 3]) await context.created({ id: `task-${String(n)}` })
    const first = await worker.began(1)
    await context.quiet()
    assert.equal(worker.begun.length, 1, 'more runs than free places')
    assert.equal(worker.places.freeIn('default'), 0)
    worker.places.release('default')
    await worker.began(2)
    await first.change({ status: 'failed' })
    await context.quiet()
    assert.equal(worker.begun.length, 2, 'a run began before a handler ended')
    first.latch.resolve()
    await worker.began(3)
  },

  'a worker takes no tasks of pools that it has no places for': async (context) => {
    const second = await context.open()
    const worker = context.work({ places: { default: 2 } })
    await context.created({ id: 'heavy', pool: 'heavy' })
    await context.created({ id: 'light' })
    await worker.ran('light')
    await context.quiet()
    assert.deepEqual(worker.ids, ['light'])
    assert.equal(worker.places.freeIn('heavy'), 0)
    if (second !== context.first) await context.work({ places: { heavy: 1 } }, second).ran('heavy')
  },

  'a full pool delays no other pool': async (context) => {
    const worker = context.work({ places: { heavy: 1, default: 1 }, run: untilOpened })
    for (const n of [1, 2]) await context.created({ id: `heavy-${String(n)}`, pool: 'heavy' })
    const first = await worker.began(1)
    await context.created({ id: 'light' })
    await worker.ran('light')
    assert.equal(worker.begun.length, 2, 'the pool runs more than it has places')
    await first.end({ status: 'completed' })
    await worker.began(3)
  },

  'a delayed task runs after its delay, and delays no other task': async (context) => {
    const worker = context.work()
    const at = performance.now()
    const late = await context.created({ id: 'late', start: { delayMs: context.windowMs } })
    await context.created({ id: 'prompt' })
    const begun = await worker.ran('late')
    assert.deepEqual(worker.ids, ['prompt', 'late'])
    context.waited(begun.at - at, context.windowMs, 'the run began')
    assert.equal(begun.task.startAt, late.startAt)
  },

  'a task that is cancelled while it waits, is delayed, or waits for its next run, does not run': async (context) => {
    const other = (await context.open()).engine
    const waits = await context.created({ id: 'waits' })
    const delayed = await context.created({ id: 'delayed', start: { delayMs: context.windowMs } })
    for (const task of [waits, delayed]) {
      const cancelled = await context.changed(task, { version: 1 }, { status: 'cancelled' }, other)
      assert.deepEqual([cancelled.status, cancelled.run, cancelled.attempt], ['cancelled', 0, 0])
    }
    const later = context.windowMs
    const worker = context.work({
      run: async ({ task: { id } }, begun) => {
        await begun.change(id === 'again' ? { status: 'queued', delayMs: later } : { status: 'completed' })
      },
    })
    const again = await context.created({ id: 'again' })
    await context.eventually(async () => (await context.stored('again')).version === 3, 'its run ends')
    await context.changed(again, { version: 3 }, { status: 'cancelled' }, other)
    await context.created({ id: 'mark', start: { delayMs: later + context.toleranceMs } })
    await worker.ran('mark')
    assert.deepEqual(worker.ids, ['again', 'mark'])
  },

  'a run that saves a checkpoint has it in its next attempt, until it is removed': async (context) => {
    const checkpoints: (string | undefined)[] = []
    context.work({
      run: async ({ task, checkpoint }, begun) => {
        checkpoints.push(checkpoint)
        if (task.run === 1) await begun.change({ checkpoint: '{"line":1,"é":"\\u0000"}' })
        if (task.run === 2) await begun.change({ checkpoint: null })
        if (task.run === 3) await begun.change({ status: 'queued', checkpoint: 'with the end' })
        else await begun.change({ status: task.run === 4 ? 'completed' : 'queued' })
      },
    })
    await context.created({ id: 'one' })
    await context.reaches('one', 'completed')
    assert.deepEqual(checkpoints, [undefined, '{"line":1,"é":"\\u0000"}', undefined, 'with the end'])
  },
}
