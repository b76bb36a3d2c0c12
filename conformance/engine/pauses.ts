import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { untilOpened, type EngineContext } from './context.js'

/** Tests of `setPaused` and `pausedPools`. */
export const pauseCases: Cases<EngineContext> = {
  'no run begins in a paused pool of any process, active runs continue, and other pools run':
    async (context) => {
      const other = await context.open()
      const worker = context.work({ run: untilOpened, places: { default: 4, other: 4 } })
      await context.created({ id: 'runs' })
      const runs = await worker.ran('runs')
      await context.engine.setPaused('default', true)
      for (const { engine } of [context.first, other]) {
        assert.deepEqual(await engine.pausedPools(), ['default'])
      }
      await context.created({ id: 'waits' }, other.engine)
      await context.created({ id: 'delayed', start: { delayMs: context.delayMs } })
      await context.created({ id: 'elsewhere', pool: 'other' })
      await worker.ran('elsewhere')
      assert.equal((await runs.change({ details: { n: 1 } })).outcome, 'changed')
      assert.equal((await runs.end({ status: 'queued' })).outcome, 'changed')
      await context.past((await context.stored('delayed')).startAt ?? 0)
      await context.quiet()
      assert.deepEqual(worker.ids, ['runs', 'elsewhere'])
      const { running, waiting } = await other.engine.counts('default')
      assert.deepEqual([running, waiting], [0, 3])
      await other.engine.setPaused('default', false)
      await worker.began(5)
      assert.deepEqual(await context.engine.pausedPools(), [])
    },

  'a worker tells its places that a pool is paused, and that its pause has ended': async (context) => {
    const other = (await context.open()).engine
    await other.setPaused('default', true)
    const { places } = context.work({ places: { default: 2, other: 3 } })
    await context.eventually(() => places.freeIn('default') === 0, 'the places are closed')
    assert.deepEqual([places.tryAcquire('default'), places.freeIn('other')], [false, 3])
    await other.setPaused('default', false)
    await context.eventually(() => places.freeIn('default') === 2, 'the places are free')
  },

  'a pool is paused once, however often it is paused, and the names are sorted': async (context) => {
    const { engine } = context
    for (const pool of ['heavy', 'default', 'heavy', 'Other']) await engine.setPaused(pool, true)
    assert.deepEqual(await engine.pausedPools(), ['Other', 'default', 'heavy'])
    for (const pool of ['heavy', 'heavy', 'nobody']) await engine.setPaused(pool, false)
    assert.deepEqual(await engine.pausedPools(), ['Other', 'default'])
  },

  'tasks of a pool whose pause ends begin in their order': async (context) => {
    const { engine } = context
    const worker = context.work({ places: { default: 1 } })
    await engine.setPaused('default', true)
    await context.eventually(() => worker.places.freeIn('default') === 0, 'the places are closed')
    for (const [id, priority] of [['last', 9], ['first', 1], ['middle', 5]] as const) {
      await context.created({ id, priority })
    }
    await engine.setPaused('default', false)
    await worker.began(3)
    assert.deepEqual(worker.ids, ['first', 'middle', 'last'])
  },
}
