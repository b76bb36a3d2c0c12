import assert from 'node:assert/strict'
import type { TaskEngine } from '../../engine/engine.js'
import type { StoredTask } from '../../engine/task.js'
import type { Cases } from '../runner.js'
import { hintsWithoutChange, together } from '../waiting.js'
import type { EngineContext } from './context.js'
import { untilOpened } from './worker.js'

const pool = 'nobody'

/** Counts the notices of a task. */
async function notices(
  context: EngineContext, id: string, engine: TaskEngine,
): Promise<{ readonly expect: (what: string) => Promise<void>, count: number, stop: () => void }> {
  const seen = { count: 0, stop: (): void => undefined, expect: async (what: string) => {
    await context.eventually(() => seen.count > 0, `the watch tells of ${what}`)
    await context.quiet()
    seen.count = 0
  } }
  seen.stop = await context.soon(engine.watch(id, () => { seen.count++ }), 'watch resolves')
  return seen
}

/** Tests of `watch`. A notice may be repeated, so the cases expect at least one. */
export const watchCases: Cases<EngineContext> = {
  'a watch tells of each visible change, by any process': async (context) => {
    const other = await context.open()
    const worker = context.work(other, { run: untilOpened })
    const task = await context.created({ id: 'one', pool })
    const seen = await notices(context, 'one', context.engine)
    await context.changed(task, { version: 1 }, { details: { n: 1 } })
    await seen.expect('a change')
    await context.changed(task, { version: 2 }, { status: 'queued', pool: 'default' }, other.engine)
    await worker.ran('one')
    await seen.expect('a run')
    const begun = await worker.ran('one')
    await begun.change({ details: { n: 2 } })
    await seen.expect('progress')
    await begun.change({ status: 'failed' })
    await seen.expect('the end')
    begun.latch.open()
    const failed = await context.stored('one')
    await context.changed(task, { version: failed.version }, { status: 'queued', pool }, other.engine)
    await seen.expect('a retry')
    const { version } = await context.stored('one')
    await context.changed(task, { version }, { status: 'cancelled' })
    await seen.expect('the cancellation')
    await other.engine.delete(task, version + 1)
    await seen.expect('the deletion')
    seen.stop()
  },

  'a watch begins before its task is there': async (context) => {
    const other = (await context.open()).engine
    const seen = await notices(context, 'one', other)
    await context.created({ id: 'one', pool })
    await seen.expect('the creation')
    seen.stop()
  },

  'what was changed is there for the listener to read': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', pool })
    const found: (StoredTask | undefined)[] = []
    const stop = await other.watch('one', () => {
      void Promise.resolve(other.read('one')).then((each) => { found.push(each) }, () => undefined)
    })
    const changed = await context.changed(task, { version: 1 }, { status: 'failed' })
    await context.eventually(() => found.length > 0, 'the listener is called')
    assert.deepEqual(found[0], changed)
    stop()
  },

  'a listener is not called inside the call that changes': async (context) => {
    const task = await context.created({ id: 'one', pool })
    let isChanging = false
    let wasInside = false
    let count = 0
    const stop = await context.engine.watch('one', () => {
      count++
      wasInside ||= isChanging
    })
    isChanging = true
    const changed = context.engine.change(task, { version: 1 }, { status: 'failed' })
    isChanging = false
    await changed
    await context.eventually(() => count > 0, 'the listener is called')
    assert.equal(wasInside, false)
    stop()
  },

  'each watch of a task is told, and those of another task are not': async (context) => {
    const seen = await notices(context, 'one', context.engine)
    const again = await notices(context, 'one', context.engine)
    const others = await Promise.all(['ones', 'on', 'ONE'].map((id) => notices(context, id, context.engine)))
    const mayHear = hintsWithoutChange()
    const task = await context.created({ id: 'one', pool })
    await seen.expect('the creation')
    await again.expect('the creation')
    for (let version = 1; version < 40; version++) await context.changed(task, { version }, { details: { version } })
    await seen.expect('the last change')
    for (const { count } of others) assert.ok(count <= mayHear(), `${String(count)} notices`)
    for (const each of [seen, again, ...others]) each.stop()
  },

  'a watch that was stopped hears nothing, and the others do': async (context) => {
    const stopped = await notices(context, 'one', context.engine)
    const seen = await notices(context, 'one', context.engine)
    stopped.stop()
    stopped.stop()
    const task = await context.created({ id: 'one', pool })
    await seen.expect('the creation')
    seen.stop()
    await context.changed(task, { version: 1 }, { status: 'failed' })
    await context.quiet()
    assert.deepEqual([stopped.count, seen.count], [0, 0])
    const later = await notices(context, 'one', context.engine)
    await context.engine.delete(task, 2)
    await later.expect('the deletion')
    later.stop()
  },

  'one listener twice is two watches': async (context) => {
    let count = 0
    const listener = (): void => { count++ }
    const first = await context.engine.watch('one', listener)
    const second = await context.engine.watch('one', listener)
    first()
    await context.created({ id: 'one', pool })
    await context.eventually(() => count > 0, 'the watch that is left is told')
    second()
  },

  'a hundred watches are all told, of one task and of many': async (context) => {
    const other = (await context.open()).engine
    const told = new Set<number>()
    const stops = await together(100, (n) => other.watch(n < 50 ? 'one' : `task-${String(n)}`, () => {
      told.add(n)
    }))
    await context.created({ id: 'one', pool })
    await together(50, (n) => context.created({ id: `task-${String(n + 50)}`, pool }))
    await context.eventually(() => told.size === 100, 'a hundred watches are told')
    for (const stop of stops) stop()
  },

  'a listener that throws harms nobody': async (context) => {
    const stop = await context.engine.watch('one', () => { throw new Error('fails, on purpose') })
    const seen = await notices(context, 'one', context.engine)
    await context.created({ id: 'one', pool })
    await seen.expect('the creation')
    stop()
    seen.stop()
  },
}
