// What a status says of a task that starts later, and of one that runs again.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { pollAfter } from '../../../../src/tasks/http/formats.js'
import { bench, ended } from '../../kit/tasks.js'
import { taskText } from '../../../../src/tasks/record/view.js'
import { acceptTask } from '../../../../src/tasks/core/accept-task.js'
import { coreOf } from '../../../../src/tasks/tasks.js'
import { deferred, eventually } from '../../../kit/wait.js'

const HOUR = 3_600_000

test('a task that starts in an hour shows its start, with a matching Retry-After (15.19)', async (t) => {
  const work = defineTask({ name: 'work', run: () => undefined })
  const { tasks, engine, close } = bench({ definitions: [work] })
  t.after(close)
  const before = engine.now()
  const { taskId: id } = await tasks.submit(work, 1, { delayMs: HOUR })
  const after = engine.now()
  const task = await coreOf(tasks).read(id)
  const view = await tasks.get(id)
  assert.ok(task && view?.startAt)
  assert.ok(view.startAt.getTime() >= before + HOUR && view.startAt.getTime() <= after + HOUR)
  assert.equal(view.message, `The task was accepted and starts at ${view.startAt.toISOString()}.`)
  const seconds = Number(pollAfter(task))
  assert.ok(seconds > 3590 && seconds <= 3600, String(seconds))
  const far = await tasks.submit(work, 1, { delayMs: 300 * 24 * HOUR })
  const later = await coreOf(tasks).read(far.taskId)
  assert.equal(later && pollAfter(later), '3600', 'it may be cancelled meanwhile')
  const soon = await tasks.submit(work, 1)
  const now = await tasks.get(soon.taskId)
  assert.deepEqual([now?.startAt, now?.attempt], [undefined, undefined])
})

test('startAt is a Date of any realm', async (t) => {
  const work = defineTask({ name: 'work', run: () => undefined })
  const { tasks, close } = bench({ definitions: [work] })
  t.after(close)
  const startAt = new Date(Date.now() + HOUR)
  const foreign = runInNewContext(`new Date(${String(startAt.getTime())})`) as Date
  assert.ok(!(foreign instanceof Date))
  const { taskId } = await tasks.submit(work, 1, { startAt: foreign })
  assert.deepEqual((await tasks.get(taskId))?.startAt, startAt)
  for (const wrong of [runInNewContext('new Date(NaN)'), { getTime: () => startAt.getTime() }] as Date[]) {
    await assert.rejects(tasks.submit(work, 1, { startAt: wrong }), { message: 'startAt must be a valid Date' })
  }
})

test('a delayed task whose start has come shows no start time, and is polled like a new task', async (t) => {
  const gate = deferred()
  const work = defineTask({ name: 'work', run: () => gate.promise })
  const { tasks, close } = bench({ definitions: [work] })
  t.after(close)
  const { taskId: id } = await tasks.submit(work, 1, { delayMs: 250 })
  await eventually(async () => (await tasks.get(id))?.startedAt !== undefined)
  const task = await coreOf(tasks).read(id)
  const view = await tasks.get(id)
  assert.ok(task && view)
  assert.equal(view.message, 'The task was accepted and is being processed.')
  assert.ok(view.startAt && view.startedAt && view.startedAt >= view.createdAt)
  assert.equal(pollAfter(task), '1')
  gate.resolve()
})

test('a status shows the number of attempts, which explains a lower progress (15.19)', async (t) => {
  const gate = deferred()
  const work = defineTask({
    name: 'work',
    attempts: 2,
    backoff: { type: 'fixed', delayMs: 0 },
    run: async (_, { attempt, progress }) => {
      progress(attempt === 1 ? 80 : 5, 100)
      if (attempt === 1) throw new Error('fails, on purpose')
      await gate.promise
    },
  })
  const { tasks, close } = bench({ definitions: [work], progressIntervalMs: 0 })
  t.after(close)
  const { taskId: id } = await tasks.submit(work, 1)
  await eventually(async () => (await tasks.get(id))?.progress?.done === 5)
  assert.equal((await tasks.get(id))?.attempt, 2)
  const before = await coreOf(tasks).read(id)
  gate.resolve()
  const { attempt } = await ended(tasks, id)
  assert.equal(attempt, 2)
  assert.ok(before && before.version > 2, 'a run that begins anew is a change that clients see')
})

test('the 202 of a delayed task shows its start time', async (t) => {
  const work = defineTask({ name: 'work', run: () => undefined })
  const { tasks, close } = bench({ definitions: [work] })
  t.after(close)
  const start = { at: Date.now() + HOUR, delayMs: HOUR }
  const { task } = await acceptTask(
    coreOf(tasks), { definition: work, input: 1, owner: undefined, caller: undefined }, start,
  )
  assert.match(taskText(task), /"startAt":"/)
})
