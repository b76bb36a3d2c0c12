// A run that began without a write, and whose record somebody touched meanwhile.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memory, type MemoryStore } from '../../../adapters/memory/index.js'
import { StoreUnavailableError, type Entry } from '../../../src/stores/store.js'
import { taskKey } from '../../../src/tasks/ledger.js'
import { createTasks, defineTask, type Tasks } from '../../../src/tasks/index.js'
import { eventually } from './kit.js'

const turns = async (): Promise<void> => { for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => { setImmediate(resolve) }) }

test('a run that ends while it is being written as begun, for a record that a second submit has touched, is completed', async (t) => {
  // A turn of the memory queue is never over by the clock, so that the second job begins in a microtask.
  t.mock.method(performance, 'now', () => 1000)
  const { store, queue } = memory()
  const before = defineTask({ name: 'before', attempts: 2, run: () => undefined })
  const work = defineTask({ name: 'work', run: () => {
    void tasks.submit(work, 1, { id: 'one' })
    return new Promise((resolve) => { process.nextTick(resolve, { message: 'done' }) })
  } })
  const tasks: Tasks = createTasks({ store, queue, definitions: [before, work], concurrency: 1 })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  })
  await tasks.submit(before, 1)
  await tasks.submit(work, 1, { id: 'one' })
  await turns()
  assert.deepEqual([(await tasks.health()).running, (await tasks.look('one'))?.state], [0, 'completed'])
})

function touch(store: MemoryStore, id: string): void {
  const { value, revision } = store.get(taskKey(id)) as Entry
  void store.replace(taskKey(id), value, revision, {})
}

test('a run whose beginning is written anew, and whose answer to that is lost, is completed', async (t) => {
  const { store, queue } = memory()
  const work = defineTask({ name: 'work', run: (_, { taskId = '' }) => { touch(store, taskId) } })
  const tasks = createTasks({ store, queue, definitions: [work] })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  })
  const replace = store.replace.bind(store)
  let lost = false
  t.mock.method(store, 'replace', (...args: Parameters<typeof replace>) => {
    const outcome = replace(...args)
    if (lost || !args[1].startsWith('["processing"')) return outcome
    lost = true
    return Promise.reject(new StoreUnavailableError('it happened, but nobody knows'))
  })
  const { id } = await tasks.submit(work, 1)
  await eventually(async () => (await tasks.look(id))?.state === 'completed', 2000)
  assert.equal(lost, true)
})
