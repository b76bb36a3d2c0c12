// Writes of one run at the same time, and beside a cancel.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { httpError } from '../../../../src/http/errors.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { areKeepable } from '../../../../src/tasks/definition/run-context.js'
import { detailsOf } from '../../../../src/tasks/record/details.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { ended, Spy, spyEngine } from '../../kit/tasks.js'
import { deferred, eventually } from '../../../kit/wait.js'

test("a slow write of kept files and a report of progress keep each other's data", async (t) => {
  const parts = memory()
  const spy = new Spy()
  const [slow, asked] = [deferred(), deferred()]
  const work = defineTask({
    name: 'work', files: true,
    run: async (_, { files, progress }) => {
      assert.ok(areKeepable(files))
      await files.write('a.txt', Buffer.from('text'))
      spy.fault = (call) => {
        if (!call.startsWith('change')) return undefined
        spy.fault = () => undefined
        asked.resolve()
        return slow.promise
      }
      const kept = files.keep()
      await asked.promise
      progress(7)
      setTimeout(() => { slow.resolve() }, 50)
      await kept
      throw httpError('conflict')
    },
  })
  const tasks = createTasks({
    ...parts,
    engine: spyEngine(parts.engine, spy),
    definitions: [work],
    onError: () => undefined,
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  const { taskId } = await tasks.submit(work, {})
  assert.equal((await ended(tasks, taskId)).progress?.done, 7)
  const task = await parts.engine.read(taskId)
  assert.ok(task)
  assert.equal(detailsOf(task).blobs?.length, 1)
})

test('a cancel that has read the task before its files were kept does not lose the files', async (t) => {
  const parts = memory()
  const spy = new Spy()
  const [begun, keep, stopped] = [deferred(), deferred(), deferred()]
  const work = defineTask({
    name: 'work', files: true,
    run: async (_, { files }) => {
      assert.ok(areKeepable(files))
      await files.write('a.txt', Buffer.from('text'))
      begun.resolve()
      await keep.promise
      await files.keep()
      await stopped.promise
    },
  })
  const tasks = createTasks({
    ...parts,
    engine: spyEngine(parts.engine, spy),
    definitions: [work],
    onError: () => undefined,
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  const { taskId } = await tasks.submit(work, {})
  await begun.promise
  const slow = deferred()
  spy.fault = (call) => {
    if (!call.startsWith('change')) return undefined
    spy.fault = () => undefined
    return slow.promise
  }
  const cancelled = tasks.cancel(taskId)
  await eventually(() => spy.calls.at(-1) === `change ${taskId}`)
  keep.resolve()
  await eventually(async () => {
    const task = await parts.engine.read(taskId)
    return task !== undefined && detailsOf(task).blobs?.length === 1
  })
  slow.resolve()
  assert.equal((await cancelled)?.status, 'cancelled')
  stopped.resolve()
  const task = await parts.engine.read(taskId)
  assert.ok(task)
  assert.equal(detailsOf(task).blobs?.length, 1)
  assert.equal(parts.blobs.usage().blobs, 1)
})
