import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory, MemoryQueue, MemoryStore } from '../../../../adapters/memory/index.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { type HttpError } from '../../../../src/http/errors.js'
import { releaseSlot, acquireSlot } from '../../../../src/tasks/intake/owner-slots.js'
import { bench, deferred, ended, eventually } from '../kit.js'

function limited(maxPerOwner: number, run: () => unknown = () => undefined) {
  const gate = deferred()
  return { gate, work: defineTask({ name: 'limited', maxPerOwner, run: async () => { await gate.promise; return run() } }) }
}

describe('maxPerOwner', () => {
  test('of 20 concurrent submissions, maxPerOwner are accepted; others get 429', async (t) => {
    const { gate, work } = limited(3)
    const { tasks, close } = bench({ definitions: [work] })
    t.after(close)
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => tasks.submit(work, 1, { owner: 'ann' }).then(() => 'taken', (error: HttpError) => `${String(error.status)} ${error.code} ${String(error.headers['retry-after'])}`)))
    assert.deepEqual([...new Set(outcomes)].sort(), ['429 too_many_tasks 5', 'taken'])
    assert.equal(outcomes.filter((outcome) => outcome === 'taken').length, 3)
    for (let n = 0; n < 5; n++) await tasks.submit(work, 1)
    await tasks.submit(work, 1, { owner: 'bob' })
    await tasks.submit(work, 1, { owner: `long ${'é'.repeat(1000)}` })
    gate.resolve()
  })

  for (const [how, run] of [['completes', () => 1], ['fails', () => { throw new Error('x') }]] as const) {
    test(`a task that ${how} releases its slot`, async (t) => {
      const { gate, work } = limited(1, run)
      const { tasks, close, store } = bench({ definitions: [work] })
      t.after(close)
      const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
      await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' })
      gate.resolve()
      await ended(tasks, id)
      await eventually(() => store.usage().entries === 1)
      await tasks.submit(work, 1, { owner: 'ann' })
    })
  }

  test('a task that is cancelled, or that the queue refused, releases its slot', async (t) => {
    const { gate, work } = limited(1)
    const { tasks, close, store, spy } = bench({ definitions: [work] })
    t.after(close)
    const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
    await tasks.cancel(id)
    assert.equal(store.usage().entries, 1)
    spy.fault = (call) => (call.startsWith('enqueue') ? 'before' : undefined)
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'service_unavailable', status: 503 })
    assert.equal(store.usage().entries, 1)
    spy.fault = () => undefined
    await tasks.submit(work, 1, { owner: 'ann' })
    gate.resolve()
  })

  test('a second submit with one id takes no second slot', async (t) => {
    const { gate, work } = limited(2)
    const { tasks, close, store } = bench({ definitions: [work] })
    t.after(close)
    const first = await tasks.submit(work, 1, { owner: 'ann' })
    await tasks.submit(work, 1, { owner: 'ann', id: 'second' })
    assert.equal((await tasks.submit(work, 1, { owner: 'ann', id: 'second' })).created, false)
    await tasks.cancel(first.taskId)
    await Promise.all(Array.from({ length: 5 }, () => tasks.submit(work, 1, { owner: 'ann', id: 'second' })))
    await tasks.submit(work, 1, { owner: 'ann' })
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' })
    assert.equal(store.usage().entries, 5, 'three records, two places')
    gate.resolve()
    await ended(tasks, 'second')
  })

  test('a submit with the id of a final task returns it, though its owner has no slot left', async (t) => {
    const { gate, work } = limited(1)
    const { tasks, close } = bench({ definitions: [work] })
    t.after(close)
    await tasks.submit(work, 1, { owner: 'ann', id: 'old' })
    await tasks.cancel('old')
    await tasks.submit(work, 1, { owner: 'ann', id: 'new' })
    assert.equal((await tasks.submit(work, 1, { owner: 'ann', id: 'old' })).created, false)
    gate.resolve()
  })

  test('a slot that another task has taken over is not released by the first', async (t) => {
    const { store } = memory()
    t.after(() => store.close())
    const ttlMs = 60_000
    const task = { id: 'one', job: 'first' }
    const key = await acquireSlot(store, { name: 'limited', maxPerOwner: 1 }, 'ann', { ...task, ttlMs })
    await releaseSlot(store, key, { id: 'other', job: 'first' })
    await releaseSlot(store, key, { id: 'one', job: 'of a retry' })
    assert.equal(store.usage().entries, 1)
    await releaseSlot(store, key, task)
    assert.equal(store.usage().entries, 0)
  })

  test('concurrent submits with one id take one slot', async (t) => {
    const { gate, work } = limited(3)
    const { tasks, close, store } = bench({ definitions: [work] })
    t.after(close)
    await Promise.all(Array.from({ length: 10 }, () => tasks.submit(work, 1, { owner: 'ann', id: 'one' })))
    assert.equal(store.usage().entries, 2)
    gate.resolve()
  })

  test('a slot whose process died is released: at once if its task has ended, soon if it was never created', async (t) => {
    const { gate, work } = limited(1)
    let now = 0
    const store = new MemoryStore({ now: () => now })
    const tasks = createTasks({ store, queue: new MemoryQueue(), definitions: [work] })
    const wall = t.mock.method(Date, 'now', () => 1e12)
    const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
    const record = await store.get(`task:${id}`)
    assert.ok(record)
    const key = (JSON.parse(record.value.split('\n')[0] ?? '') as string[]).at(8) ?? ''
    const slot = await store.get(key)
    assert.match(key, /^slot:limited:0:/)
    gate.resolve()
    await ended(tasks, id)
    await eventually(async () => await store.get(key) === undefined)
    await store.create(key, slot?.value ?? '', { ttlMs: 1e9 })
    const second = await tasks.submit(work, 1, { owner: 'ann' })
    await ended(tasks, second.taskId)
    await eventually(async () => await store.get(key) === undefined)
    await store.create(key, 'never', { ttlMs: 1e9 })
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' }, 'its record may be on the way')
    wall.mock.mockImplementation(() => 2e12)
    await assert.rejects(tasks.submit(work, 1, { owner: 'ann' }), { code: 'too_many_tasks' }, 'the clock of this process decides nothing')
    now += 10_001
    await tasks.submit(work, 1, { owner: 'ann' })
    await tasks.close({ drainMs: 100 })
    await store.close()
  })

  test('a slot that is released while another submission takes it is taken', async (t) => {
    const { gate, work } = limited(1)
    const store = new MemoryStore()
    const tasks = createTasks({ store, queue: new MemoryQueue(), definitions: [work] })
    t.after(async () => { await tasks.close({ drainMs: 0 }); await store.close() })
    const { slot, key } = await heldSlot()
    gate.resolve()
    await eventually(async () => await store.get(key) === undefined)
    await store.create(key, slot, { ttlMs: 1e9 })
    const replace = store.replace.bind(store)
    let released = 0
    t.mock.method(store, 'replace', async (...args: Parameters<typeof replace>) => {
      const entry = args[0] === key && released === 0 ? await store.get(key) : undefined
      if (entry && await store.delete(key, entry.revision)) released++
      return replace(...args)
    })
    await tasks.submit(work, 1, { owner: 'ann' })
    assert.equal(released, 1)

    async function heldSlot() {
      const { taskId } = await tasks.submit(work, 1, { owner: 'ann' })
      const record = await store.get(`task:${taskId}`)
      const key = (JSON.parse(record?.value.split('\n')[0] ?? '[]') as string[]).at(8) ?? ''
      return { key, slot: (await store.get(key))?.value ?? '' }
    }
  })
})
