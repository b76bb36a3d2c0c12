import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryQueue, MemoryStore } from '../../../../adapters/memory/index.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { CommitWatch } from '../../../../src/tasks/intake/commit-watch.js'
import { enqueueCommitted } from '../../../../src/tasks/intake/enqueue-committed.js'
import { NewTask } from '../../../../src/tasks/intake/new-task.js'
import { toTaskText } from '../../../../src/tasks/record/record.js'
import { Ledger } from '../../../../src/tasks/record/ledger.js'
import { StoreIdentity } from '../../../../src/tasks/record/store-identity.js'

const definition = defineTask({ name: 'work', run: () => 1 })

/** A watch over a store that shows a record once the test commits it. */
function bench({ isWorker = true, durable = true } = {}) {
  const store = new MemoryStore()
  const ledger = new Ledger(store)
  const queue = Object.assign(new MemoryQueue(), { durable })
  const watch = new CommitWatch({ ledger, queue, identity: new StoreIdentity(store), isWorker })
  const expect = (id?: string) => {
    const record = new NewTask(definition, { a: 1 }, { owner: undefined, id }, 60_000).toRecord(undefined, {
      holder: undefined, enqueuedLater: true,
    })
    watch.expect(record)
    const commit = () => ledger.create(record, { text: toTaskText(record), isFresh: true })
    const entry = `${record.id}~${record.job}`
    return { record, commit, isEnqueued: () => queue.has(entry), enqueued: enqueued(() => queue.has(entry)) }
  }
  return { store, ledger, queue, watch, expect }
}

/** Resolves when `has` says so. */
function enqueued(has: () => Promise<boolean>): () => Promise<void> {
  return async () => {
    while (!await has()) await new Promise((resolve) => { setTimeout(resolve, 1) })
  }
}

test('a task is enqueued once its record is there, and not awaited any more', async () => {
  const { watch, expect } = bench()
  const task = expect()
  assert.equal(watch.size, 1)
  assert.equal(await task.isEnqueued(), false)
  await task.commit()
  await task.enqueued()
  assert.equal(watch.size, 0)
})

test('confirm enqueues a task that has committed, and tells of one that has not', async () => {
  const { watch, expect } = bench()
  const [one, other] = [expect(), expect()]
  await one.commit()
  assert.equal((await watch.confirm(one.record.id))?.record.id, one.record.id)
  assert.equal(await one.isEnqueued(), true)
  assert.equal(await watch.confirm(other.record.id), undefined)
  assert.equal(watch.size, 0)
})

test('close enqueues what has committed, and awaits nothing any more', async () => {
  const { watch, expect } = bench()
  const [one, other] = [expect(), expect()]
  await one.commit()
  await watch.close()
  assert.deepEqual([await one.isEnqueued(), await other.isEnqueued(), watch.size], [true, false, 0])
  expect()
  assert.equal(watch.size, 0)
})

test('the same id in the next transaction replaces the one that was rolled back', async () => {
  const { watch, expect } = bench()
  const first = expect('my-id')
  const second = expect('my-id')
  assert.equal(watch.size, 1)
  await second.commit()
  await second.enqueued()
  assert.equal(await first.isEnqueued(), false)
})

test('at most 1000 commits are awaited, so that rollbacks do not fill the memory', async () => {
  const { watch, expect } = bench()
  for (let n = 0; n < 1100; n++) expect()
  assert.equal(watch.size, 1000)
  await watch.close()
})

test('a process that runs no tasks leaves an in-process queue to the workers', () => {
  const { watch, expect } = bench({ isWorker: false, durable: false })
  expect()
  assert.equal(watch.size, 0)
})

test('a cancelled task is not enqueued', async () => {
  const { ledger, queue, watch, store, expect } = bench()
  const { record, commit, isEnqueued } = expect()
  await watch.close()
  await commit()
  const found = await ledger.load(record.id)
  assert.ok(found)
  const cancelled = await ledger.move(found, () => ({ state: 'cancelled', finishedAt: Date.now() }))
  assert.ok(cancelled?.moved)
  await enqueueCommitted({ ledger, queue, identity: new StoreIdentity(store) }, cancelled)
  assert.equal(await isEnqueued(), false)
})

test('of two processes with queues in memory, one takes the task', async () => {
  const store = new MemoryStore()
  const processes = ['p1', 'p2'].map((holder) => (
    { ledger: new Ledger(store, holder), queue: new MemoryQueue(), identity: new StoreIdentity(store) }
  ))
  const [first] = processes as [typeof processes[number]]
  const record = new NewTask(definition, {}, { owner: undefined }, 60_000).toRecord(undefined, {
    holder: undefined, enqueuedLater: true,
  })
  await first.ledger.create(record, { text: toTaskText(record), isFresh: true })
  const found = await first.ledger.load(record.id)
  assert.ok(found)
  await Promise.all(processes.map((each) => enqueueCommitted(each, found)))
  const taken = await Promise.all(processes.map(({ queue }) => queue.has(`${record.id}~${record.job}`)))
  assert.deepEqual(taken.filter(Boolean), [true])
})
