import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { MemoryQueue } from '../../../../adapters/memory/index.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { bench, deferred, eventually, SpyStore } from '../kit.js'

/** A run that goes on until it is told to stop, here, and tasks of another process. */
function setUp(t: TestContext) {
  const begun = deferred()
  const told = { yet: false }
  const work = defineTask({ name: 'work', run: (input, { signal }) => input === 'short' ? { message: 'done' } : new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => {
      told.yet = true
      reject(signal.reason as Error)
    })
    begun.resolve()
  }) })
  const here = bench({ definitions: [work], shared: true })
  const there = createTasks({ store: new SpyStore(here.store, here.spy, true), queue: new MemoryQueue(), definitions: [work], worker: false })
  t.after(async () => {
    await here.close()
    await there.close()
  })
  const watch = here.store.watch.bind(here.store)
  const watches = { made: 0, left: 0, gate: Promise.resolve() }
  t.mock.method(here.store, 'watch', async (key: string, listener: () => void) => {
    if (!key.startsWith('task:')) return watch(key, listener)
    await watches.gate
    const unwatch = await watch(key, listener)
    watches.made++
    return () => {
      watches.left++
      unwatch()
    }
  })
  return { work, here, there, begun: begun.promise, told, watches }
}

const turns = async (): Promise<void> => { for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => { setImmediate(resolve) }) }

describe('a run where others write to the store', () => {
  test('does not subscribe when it is short', async (t) => {
    const { work, here, watches } = setUp(t)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { taskId: id } = await here.tasks.submit(work, 'short')
    await turns()
    assert.equal((await here.tasks.get(id))?.status, 'completed')
    t.mock.timers.tick(60_000)
    await turns()
    assert.equal(watches.made, 0)
  })

  test('notices a cancel that was written without a notice while it subscribed, and removes its watch', async (t) => {
    const { work, here, there, begun, told, watches } = setUp(t)
    const gate = deferred()
    watches.gate = gate.promise
    const { taskId: id } = await here.tasks.submit(work, 1)
    await begun
    await eventually(() => here.spy.calls.includes(`watch task:${id}`))
    assert.equal((await there.cancel(id))?.status, 'cancelled')
    gate.resolve()
    await eventually(() => told.yet)
    await eventually(() => watches.made === 1 && watches.left === 1)
  })

  test('removes a watch that was established after the end of the run', async (t) => {
    const { work, here, begun, watches } = setUp(t)
    const gate = deferred()
    watches.gate = gate.promise
    const { taskId: id } = await here.tasks.submit(work, 1)
    await begun
    await eventually(() => here.spy.calls.includes(`watch task:${id}`))
    await here.tasks.cancel(id)
    await eventually(async () => (await here.tasks.health()).running === 0)
    gate.resolve()
    await eventually(() => watches.made === 1 && watches.left === 1)
  })

  test('retries a failed subscription once, and then notices a cancel', async (t) => {
    const { work, here, there, begun, told, watches } = setUp(t)
    here.spy.fault = (call) => (/^(watch|get) task/.test(call) ? 'before' : undefined)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { taskId: id } = await here.tasks.submit(work, 1)
    await turns()
    await begun
    t.mock.timers.tick(20)
    await turns()
    here.spy.fault = () => undefined
    assert.equal(watches.made, 0)
    for (let looks = 0; looks < 3; looks++) {
      t.mock.timers.tick(5000)
      await turns()
    }
    assert.equal(watches.made, 1)
    assert.equal(told.yet, false)
    assert.equal((await there.cancel(id))?.status, 'cancelled')
    await turns()
    assert.equal(told.yet, true)
  })

  test('reads the record if no notice arrives', async (t) => {
    const { work, here, there, begun, told } = setUp(t)
    t.mock.method(here.store, 'watch', async () => () => undefined)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { taskId: id } = await here.tasks.submit(work, 1)
    await turns()
    await begun
    t.mock.timers.tick(20)
    await turns()
    await there.cancel(id)
    await turns()
    assert.equal(told.yet, false)
    t.mock.timers.tick(5000)
    await turns()
    assert.equal(told.yet, true)
  })
})
