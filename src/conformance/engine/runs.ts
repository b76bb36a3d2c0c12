import assert from 'node:assert/strict'
import { Json } from '../../runtime/json.js'
import type { Cases } from '../runner.js'
import { pause, together } from '../waiting.js'
import { untilOpened, type EngineContext } from './context.js'

/** Tests of runs whose worker lives. */
export const runCases: Cases<EngineContext> = {
  'a task runs once, and its run is one visible change': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    const before = await context.engine.now()
    const task = await context.created({ id: 'one', key: 'key', owner: 'ann', caller: 'ann' })
    const { run, latch } = await worker.ran('one')
    const { startedAt = 0 } = run.task
    assert.ok(startedAt >= before && startedAt <= await context.engine.now(), 'startedAt is wrong')
    assert.deepEqual(run.task, {
      ...task, status: 'processing', version: 2, run: 1, attempt: 1, startedAt,
      runStartedAt: startedAt,
    })
    assert.deepEqual(await context.engine.read('one'), run.task)
    assert.deepEqual([run.checkpoint, run.crashed, run.signal.aborted], [undefined, undefined, false])
    await worker.begun[0]?.change({ status: 'completed', result: '1' })
    latch.open()
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },

  'any JSON value is an input, with its text and the order of its properties': async (context) => {
    const values = [
      null, 0, '', false, [], {}, 'text', -1.5e-9, 1e300,
      Array.from({ length: 20_000 }, (_, n) => ({ n, text: `é ${String(n)}` })),
      { z: 'a\u0000b', a: '\ud800', é: '\\u0000', '\u0000': 1, list: [{ y: 1, x: '😀\u2028' }] },
    ]
    const worker = context.work(context.first)
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
    const worker = context.work(context.first, {
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

  'each task runs once, whoever works, and never more at a time than there are places':
    async (context) => {
      const workers = []
      let running = 0
      let most = 0
      for (const process of new Set([context.first, await context.open(), await context.open()])) {
        workers.push(context.work(process, {
          places: { default: 3 },
          run: async (_run, begun) => {
            most = Math.max(most, ++running)
            await pause(3)
            running--
            await begun.change({ status: 'completed' })
          },
        }))
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

  'the same id or key in two processes at once has one run': async (context) => {
    const second = await context.open()
    const workers = [...new Set([context.first, second])].map((process) => context.work(process))
    for (let n = 0; n < 8; n++) {
      const [id, key] = [`task-${String(n)}`, `key-${String(n)}`]
      await Promise.all([
        context.engine.create(context.task({ id, key })),
        second.engine.create(context.task({ id, key })),
        context.engine.create(context.task({ id: `${id}-a`, key })),
        second.engine.create(context.task({ id: `${id}-b`, key })),
      ])
    }
    const tasks = await context.listed()
    assert.equal(tasks.length, 8)
    for (const { id } of tasks) await context.reaches(id, 'completed')
    await context.quiet()
    assert.equal(workers.flatMap((worker) => worker.begun).length, 8)
  },

  'places are those of all runs of the process': async (context) => {
    const worker = context.work(context.first, { places: { default: 2 }, run: untilOpened })
    assert.ok(worker.places.tryAcquire('default'), 'no place is free')
    for (const n of [1, 2, 3]) await context.created({ id: `task-${String(n)}` })
    await worker.began(1)
    await context.quiet()
    assert.equal(worker.begun.length, 1, 'more runs than free places')
    assert.equal(worker.places.freeIn('default'), 0)
    worker.places.release('default')
    await worker.began(2)
    await context.quiet()
    assert.equal(worker.begun.length, 2)
  },

  'a place is free again only when the promise of its run has resolved': async (context) => {
    const worker = context.work(context.first, { places: { default: 1 }, run: untilOpened })
    await context.created({ id: 'one' })
    await context.created({ id: 'two' })
    const first = await worker.began(1)
    await first.change({ status: 'completed' })
    await context.quiet()
    assert.equal(worker.begun.length, 1, 'a run began in a place that is not free')
    first.latch.open()
    await worker.began(2)
  },

  'a worker takes no tasks of pools that it has no places for': async (context) => {
    const second = await context.open()
    const worker = context.work(context.first, { places: { default: 2 } })
    await context.created({ id: 'heavy', pool: 'heavy' })
    await context.created({ id: 'light' })
    await worker.ran('light')
    await context.quiet()
    assert.deepEqual(worker.ids, ['light'])
    assert.equal(worker.places.freeIn('heavy'), 0)
    if (second !== context.first) await context.work(second, { places: { heavy: 1 } }).ran('heavy')
  },

  'a full pool does not delay another': async (context) => {
    const worker = context.work(context.first, { places: { heavy: 1, default: 1 }, run: untilOpened })
    for (const n of [1, 2]) await context.created({ id: `heavy-${String(n)}`, pool: 'heavy' })
    const first = await worker.began(1)
    await context.created({ id: 'light' })
    await worker.ran('light')
    assert.equal(worker.begun.length, 2, 'the pool runs more than it has places')
    await first.end({ status: 'completed' })
    await worker.began(3)
  },

  'tasks that fail keep no place of those that run': async (context) => {
    context.work(context.first, {
      places: { default: 2 },
      run: async ({ task }, begun) => {
        await begun.change({ status: task.id === 'good' ? 'completed' : 'failed' })
      },
    })
    for (let n = 0; n < 6; n++) await context.created({ id: `bad-${String(n)}` })
    await context.created({ id: 'good' })
    await context.reaches('good', 'completed')
  },

  'a delayed task runs after its delay, and delays no others': async (context) => {
    const worker = context.work(context.first)
    const at = performance.now()
    const late = await context.created({ id: 'late', start: { delayMs: 3 * context.delayMs } })
    await context.created({ id: 'prompt' })
    const begun = await worker.ran('late')
    assert.deepEqual(worker.ids, ['prompt', 'late'])
    const waited = begun.at - at
    assert.ok(waited >= 3 * context.delayMs - context.toleranceMs, `it began after ${String(waited)} ms`)
    assert.equal(begun.task.startAt, late.startAt)
  },

  'a task that is cancelled while it waits, or is delayed, does not run': async (context) => {
    const other = (await context.open()).engine
    const waits = await context.created({ id: 'waits' })
    const delayed = await context.created({ id: 'delayed', start: { delayMs: context.delayMs } })
    for (const task of [waits, delayed]) {
      const cancelled = await context.changed(task, { version: 1 }, { status: 'cancelled' }, other)
      assert.deepEqual([cancelled.status, cancelled.run, cancelled.attempt], ['cancelled', 0, 0])
    }
    const worker = context.work(context.first)
    await context.created({ id: 'mark', start: { delayMs: context.delayMs + context.toleranceMs } })
    await worker.ran('mark')
    assert.deepEqual(worker.ids, ['mark'])
  },

  'a run that saves a checkpoint has it in its next attempt, until it is removed': async (context) => {
    const checkpoints: (string | undefined)[] = []
    context.work(context.first, {
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
