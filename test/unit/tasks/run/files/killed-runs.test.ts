import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memory, MemoryBlobs } from '../../../../../adapters/memory/index.js'
import { defineTask } from '../../../../../src/tasks/definition/define.js'
import { areKeepable, type KeptFile } from '../../../../../src/tasks/definition/run-context.js'
import { detailsOf } from '../../../../../src/tasks/record/details.js'
import { allFileKeys } from '../../../../../src/tasks/record/outside.js'
import { createTasks } from '../../../../../src/tasks/tasks.js'
import { HandEngine } from '../../../kit/hand-engine.js'
import { Spy, SpyStore } from '../../../kit/tasks.js'
import { deferred } from '../../../../kit/wait.js'

const RUNS = 30

test('each blob of a run that was killed is named by its task, however many runs were killed', async (t) => {
  const blobs = new MemoryBlobs()
  // Timers of the library let a process end.
  const hold = setInterval(() => undefined, 60_000)
  t.after(async () => {
    clearInterval(hold)
    await blobs.close()
  })
  const stored = new Set<string>()
  const { put, delete: remove } = blobs
  blobs.put = async (key, ...rest) => {
    stored.add(key)
    return put.call(blobs, key, ...rest)
  }
  blobs.delete = async (key) => {
    stored.delete(key)
    return remove.call(blobs, key)
  }
  let kept: readonly KeptFile[] = []
  const written = Array.from({ length: RUNS + 1 }, () => deferred())
  const definition = defineTask({
    name: 'export', files: true, run: async (_, { attempt, files }) => {
      assert.ok(areKeepable(files))
      if (attempt > 1) assert.equal(await files.adopt(kept), true)
      await files.write(`part-${String(attempt)}`, ['stored, and its process is killed'])
      if (attempt === 1) kept = await files.keep()
      written[attempt]?.resolve()
      return new Promise(() => undefined)
    },
  })
  const hand = new HandEngine()
  // The folder of several processes.
  const shared = Object.assign(blobs, { shared: true })
  const tasks = createTasks({
    store: new SpyStore(memory().store, new Spy(), true), engine: hand, blobs: shared,
    definitions: [definition], maxCrashes: RUNS, onError: () => undefined,
  })
  const { taskId } = await tasks.submit(definition, {})
  // A process that is killed does not delete the files of its runs.
  void hand.deliver(taskId, { isKilled: true })
  await written[1]?.promise
  for (let attempt = 2; attempt <= RUNS; attempt++) {
    void hand.takeOver(taskId, { isKilled: true })
    await written[attempt]?.promise
    const named = new Set(allFileKeys({ id: taskId, ...detailsOf(hand.at(taskId)) }))
    assert.deepEqual([...stored].filter((key) => !named.has(key)), [])
  }
  assert.equal(stored.size, 11)
})
