import assert from 'node:assert/strict'
import type { RunLimits } from '../../src/engine/engine.js'
import type { TaskChange } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { pause } from '../wait.js'
import { HOUR, untilOpened, type Begun, type EngineContext, type Worker } from './context.js'

/** Begins to work under limits in two processes, or in one if the engine is not shared. */
async function workers(context: EngineContext, limits: RunLimits, places = 8): Promise<Worker[]> {
  const options = { run: untilOpened, places: { default: places }, limits: { default: limits } }
  const other = await context.open()
  const all = [context.work(options)]
  if (other !== context.first) all.push(context.work(options, other))
  return all
}

/** Creates tasks of a caller, one after the other. */
async function create(
  context: EngineContext, caller: string, count: number, more: { readonly name?: string } = {},
): Promise<void> {
  for (let n = 0; n < count; n++) await context.created({ ...more, id: `${caller}-${String(n)}`, caller })
}

function begunBy(all: readonly Worker[]): Begun[] {
  return all.flatMap(({ begun }) => begun).sort((one, other) => one.at - other.at)
}

function idsOf(all: readonly Worker[]): string[] {
  return begunBy(all).map(({ task }) => task.id)
}

/** Waits until tasks begin, and asserts that no others do. */
async function begin(context: EngineContext, all: readonly Worker[], ids: readonly string[]): Promise<void> {
  await context.eventually(() => idsOf(all).length >= ids.length, `${ids.join()} begin`)
  await context.quiet()
  assert.deepEqual(idsOf(all).toSorted(), [...ids].sort())
}

/** Ends the newest run of a task. */
async function end(all: readonly Worker[], id: string, change: TaskChange = { status: 'completed' }): Promise<void> {
  const begun = begunBy(all).findLast(({ task }) => task.id === id)
  assert.ok(begun, `${id} has not begun`)
  assert.equal((await begun.end(change)).outcome, 'changed')
}

/** Tests of the limits of what runs. */
export const runLimitCases: Cases<EngineContext> = {
  'a caller runs its share over all processes, and the tasks of other callers begin': async (context) => {
    const all = await workers(context, { maxPerCaller: 2 })
    await create(context, 'ann', 6)
    await create(context, 'bob', 3)
    const first = ['ann-0', 'ann-1', 'bob-0', 'bob-1']
    await begin(context, all, first)
    await end(all, 'ann-1')
    await begin(context, all, [...first, 'ann-2'])
    await end(all, 'bob-0')
    await begin(context, all, [...first, 'ann-2', 'bob-2'])
    const { running, waiting } = await context.engine.counts('default')
    assert.deepEqual([running, waiting], [4, 3])
  },

  'the limit of a name applies in addition to the limit of the pool': async (context) => {
    const all = await workers(context, { maxPerCaller: 3, maxPerCallerOf: new Map([['export', 1]]) })
    for (const [n, name] of ['export', 'export', 'export', 'report', 'report', 'report'].entries()) {
      await context.created({ id: `${name}-${String(n)}`, name, caller: 'ann' })
    }
    await begin(context, all, ['export-0', 'report-3', 'report-4'])
    // A place in the pool: the next export waits for its own share, and lets the report pass.
    await end(all, 'report-3')
    await begin(context, all, ['export-0', 'report-3', 'report-4', 'report-5'])
    await end(all, 'export-0')
    await begin(context, all, ['export-0', 'report-3', 'report-4', 'report-5', 'export-1'])
    await end(all, 'report-4')
    await end(all, 'report-5')
    await end(all, 'export-1')
    await context.eventually(() => idsOf(all).includes('export-2'), 'the last export begins')
  },

  'tasks without a caller count for no share': async (context) => {
    const all = await workers(context, { maxPerCaller: 1, maxPerCallerOf: new Map([['report', 1]]) })
    for (const id of ['a', 'b', 'c']) await context.created({ id })
    await begin(context, all, ['a', 'b', 'c'])
  },

  'a held task with a higher priority begins before an older one': async (context) => {
    const all = await workers(context, { maxPerCaller: 1 })
    await context.created({ id: 'runs', caller: 'ann' })
    await begin(context, all, ['runs'])
    for (const [id, priority] of [['old', 5], ['urgent', 1], ['new', 5]] as const) {
      await context.created({ id, priority, caller: 'ann' })
      await pause(2)
    }
    await context.quiet()
    for (const [ended, next] of [['runs', 'urgent'], ['urgent', 'old'], ['old', 'new']] as const) {
      await end(all, ended)
      await context.eventually(() => idsOf(all).includes(next), `${next} begins`)
    }
    assert.deepEqual(idsOf(all), ['runs', 'urgent', 'old', 'new'])
  },

  'held tasks use no turns of other tasks': async (context) => {
    const limits = { default: { maxPerCaller: 1 } }
    const worker = context.work({ places: { default: 2 }, limits, run: untilOpened })
    await create(context, 'ann', 30)
    await worker.began(1)
    await create(context, 'bob', 10)
    await worker.began(2)
    await create(context, 'cid', 3)
    await context.quiet()
    // The places of Bob and Cid: one of them begins as the other ends.
    for (let n = 2; n < 8; n++) {
      await worker.begun[n - 1]?.end({ status: 'completed' })
      await worker.began(n + 1)
    }
    const callers = worker.ids.slice(2, 8).map((id) => id.slice(0, 3))
    assert.deepEqual(callers.filter((caller) => caller === 'cid').length, 3, `they began as ${worker.ids.join()}`)
  },

  'an end, a failure, a cancel, a retry, a question and a run that is given back each free the place': async (context) => {
    const all = await workers(context, { maxPerCaller: 1, maxRunning: 2 })
    const changes: readonly TaskChange[] = [
      { status: 'completed' }, { status: 'failed' }, { status: 'queued', delayMs: HOUR },
      { status: 'queued', isGivenBack: true, delayMs: HOUR }, { status: 'input_required', delayMs: HOUR },
    ]
    await create(context, 'ann', changes.length + 2)
    for (const [n, change] of changes.entries()) {
      const id = `ann-${String(n)}`
      await begin(context, all, idsOf(all).concat(id).filter((each, at, ids) => ids.indexOf(each) === at))
      await end(all, id, change)
    }
    const running = `ann-${String(changes.length)}`
    await context.eventually(() => idsOf(all).includes(running), 'the next one begins')
    const { version } = await context.stored(running)
    await context.changed(await context.stored(running), { version }, { status: 'cancelled' })
    const last = `ann-${String(changes.length + 1)}`
    await context.eventually(() => idsOf(all).includes(last), 'the last one begins')
  },

  'held tasks can be cancelled, listed, deleted and moved to another pool': async (context) => {
    const all = await workers(context, { maxPerCaller: 1 })
    await create(context, 'ann', 4)
    await begin(context, all, ['ann-0'])
    assert.deepEqual(await context.ids({ statuses: ['queued'] }), ['ann-1', 'ann-2', 'ann-3'])
    const cancelled = await context.changed(await context.stored('ann-1'), { version: 1 }, { status: 'cancelled' })
    assert.equal(await context.engine.delete(cancelled, cancelled.version), undefined)
    await context.changed(await context.stored('ann-2'), { version: 1 }, { status: 'queued', pool: 'nobody' })
    await end(all, 'ann-0')
    await context.eventually(() => idsOf(all).includes('ann-3'), 'the last one begins')
    assert.deepEqual(idsOf(all), ['ann-0', 'ann-3'])
    assert.equal((await context.engine.counts('nobody')).waiting, 1)
  },

  'maxRunning limits a pool over all processes, and other pools run': async (context) => {
    const options = { run: untilOpened, places: { default: 8, other: 2 }, limits: { default: { maxRunning: 3 } } }
    const second = await context.open()
    const all = [context.work(options), ...second === context.first ? [] : [context.work(options, second)]]
    for (const caller of ['ann', 'bob', 'cid', 'dan', 'eve']) await create(context, caller, 1)
    await context.created({ id: 'elsewhere', pool: 'other' })
    const first = ['ann-0', 'bob-0', 'cid-0', 'elsewhere']
    await begin(context, all, first)
    await end(all, 'bob-0')
    await begin(context, all, [...first, 'dan-0'])
  },

  'startsPer limits the begins within any window, over all processes': async (context) => {
    const ms = 4 * context.delayMs
    const options = { places: { default: 8 }, limits: { default: { startsPer: { count: 2, ms } } } }
    const second = await context.open()
    const all = [context.work(options), ...second === context.first ? [] : [context.work(options, second)]]
    await create(context, 'ann', 5)
    const last = await context.reaches('ann-4', 'completed')
    const starts = (await context.listed()).map(({ startedAt = 0 }) => startedAt).sort((a, b) => a - b)
    assert.equal(begunBy(all).length, 5)
    for (let n = 2; n < 5; n++) {
      const apart = (starts[n] as number) - (starts[n - 2] as number)
      // Engines may round times to whole milliseconds, and measure windows with another clock.
      assert.ok(apart >= ms - 2, `begin ${String(n)} is ${String(apart)} ms after the one before the last`)
    }
    assert.equal(last.attempt, 1)
  },

  'no more runs than the share are active at any time, whatever happens': async (context) => {
    const running = new Map<string, number>()
    let most = 0
    const work = (process = context.first): Worker => context.work({
      places: { default: 6 }, limits: { default: { maxPerCaller: 2, maxRunning: 5 } },
      run: async ({ task }, begun) => {
        const caller = task.caller as string
        running.set(caller, (running.get(caller) ?? 0) + 1)
        most = Math.max(most, running.get(caller) as number)
        await pause(Math.random() * 8)
        running.set(caller, (running.get(caller) as number) - 1)
        const again = task.run < 3 && Math.random() < 0.3
        await begun.change(again ? { status: 'queued', delayMs: Math.random() * 10 } : { status: 'completed' })
      },
    }, process)
    work()
    const other = await context.open()
    if (other !== context.first) work(other)
    const callers = ['ann', 'bob', 'cid', 'dan']
    await Promise.all(callers.map((caller) => create(context, caller, 15)))
    await context.eventually(async () => (
      (await context.ids({ statuses: ['completed'] })).length === 15 * callers.length
    ), 'all tasks end')
    assert.ok(most <= 2, `${String(most)} tasks of one caller ran together`)
  },
}

/** Tests of the limits of what runs when a process dies. For shared engines. */
export const sharedRunLimitCases: Cases<EngineContext> = {
  'a dead process frees its places when the leases of its runs are over': async (context) => {
    const options = { run: untilOpened, limits: { default: { maxPerCaller: 1, maxRunning: 2 } } }
    const first = context.work(options)
    await create(context, 'ann', 2)
    await create(context, 'bob', 1)
    await first.ran('ann-0')
    await first.ran('bob-0')
    const process = await context.open()
    await context.first.kill?.()
    const second = context.work({ ...options, run: undefined as never }, process)
    for (const id of ['ann-0', 'bob-0', 'ann-1']) await context.reaches(id, 'completed', process.engine)
    assert.equal(second.of('ann-0')[0]?.task.crashes, 1)
  },

  'a process with higher limits lets held tasks begin': async (context) => {
    const first = context.work({ run: untilOpened, limits: { default: { maxPerCaller: 1 } } })
    await create(context, 'ann', 3)
    await first.began(1)
    await context.quiet()
    const second = context.work(
      { run: untilOpened, limits: { default: { maxPerCaller: 2 } } }, await context.open(),
    )
    await second.began(1)
    await context.quiet()
    assert.equal(first.begun.length + second.begun.length, 2)
  },
}
