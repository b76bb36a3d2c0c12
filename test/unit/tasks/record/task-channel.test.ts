import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { after, describe, test, type TestContext } from 'node:test'
import type { CallbackEvent } from 'longhaul/callbacks'
import type { TaskEvent } from 'longhaul'
import { memory } from 'longhaul/memory'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { receiver, site } from '../../../http/kit/callbacks.js'
import { keepAlive } from '../../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

/** What a channel tells while the test runs. */
function listen<Event>(t: TestContext, name: string): Event[] {
  const heard: Event[] = []
  const listener = (event: unknown) => { heard.push(event as Event) }
  subscribe(name, listener)
  t.after(() => { unsubscribe(name, listener) })
  return heard
}

const quick = { type: 'fixed', delayMs: 1 } as const

describe('longhaul:task', () => {
  test('publishes each step of a task, and no other events', async (t) => {
    const heard = listen<TaskEvent>(t, 'longhaul:task')
    const work = defineTask({
      name: 'work', attempts: 3, backoff: quick,
      run: (_input, { attempt, progress }) => {
        progress(1, 2)
        if (attempt < 3) throw new Error('not yet')
        return { message: 'done' }
      },
    })
    const tasks = createTasks({ ...memory(), definitions: [work], onError: () => undefined, progressIntervalMs: 1 })
    t.after(() => tasks.close({ drainMs: 0 }))
    const { taskId: id } = await tasks.submit(work, {}, { owner: 'ann', id: 'one' })
    await tasks.submit(work, {}, { owner: 'ann', id: 'one' })
    await tasks.wait(id, { timeoutMs: 60_000 })
    assert.deepEqual(heard.map(({ event, status, attempt }) => [event, status, attempt]).sort(), [
      ['accepted', 'queued', 0],
      ['finished', 'completed', 3],
      ['retried', 'queued', 1], ['retried', 'queued', 2],
      ['started', 'processing', 1], ['started', 'processing', 2], ['started', 'processing', 3],
    ])
    for (const { taskId, name, owner } of heard) assert.deepEqual([taskId, name, owner], ['one', 'work', 'ann'])
    const {
      createdAt,
      startedAt = NaN,
      finishedAt = NaN,
    } = heard.find(({ event }) => event === 'finished') as TaskEvent
    assert.ok(
      createdAt <= startedAt && startedAt <= finishedAt && finishedAt <= Date.now(),
      JSON.stringify([createdAt, startedAt, finishedAt]),
    )
  })

  test('publishes the start of a run that ends at once', async (t) => {
    const heard = listen<TaskEvent>(t, 'longhaul:task')
    const work = defineTask({ name: 'short', run: () => ({ message: 'done' }) })
    const tasks = createTasks({ ...memory(), definitions: [work] })
    t.after(() => tasks.close({ drainMs: 0 }))
    const { taskId: id } = await tasks.submit(work, {})
    await tasks.wait(id, { timeoutMs: 60_000 })
    assert.deepEqual(
      heard.map(({ event, status, attempt, startedAt }) => [event, status, attempt, startedAt === undefined]),
      [
        ['accepted', 'queued', 0, true],
        ['started', 'processing', 1, false],
        ['finished', 'completed', 1, false],
      ],
    )
  })

  test('publishes how a task failed, and that a task was cancelled', async (t) => {
    const heard = listen<TaskEvent>(t, 'longhaul:task')
    const bad = defineTask({ name: 'bad', run: () => { throw new Error('secret') } })
    const tasks = createTasks({ ...memory(), definitions: [bad], onError: () => undefined })
    t.after(() => tasks.close({ drainMs: 0 }))
    const failing = await tasks.submit(bad, {})
    await tasks.wait(failing.taskId, { timeoutMs: 60_000 })
    const cancelled = await tasks.submit(bad, {}, { delayMs: 60_000 })
    await tasks.cancel(cancelled.taskId)
    await tasks.cancel(cancelled.taskId)
    const ends = heard.filter(({ event }) => event === 'finished')
    assert.deepEqual(
      ends.map(({ taskId, status, code, startedAt }) => [taskId, status, code, startedAt === undefined]),
      [
        [failing.taskId, 'failed', 'task_failed', false],
        [cancelled.taskId, 'cancelled', undefined, true],
      ],
    )
  })
})

test('longhaul:callback publishes the outcome and the duration of each attempt, but not the URL', async (t) => {
  const heard = listen<CallbackEvent>(t, 'longhaul:callback')
  const { url, port } = await receiver(t, (res, nth) => { res.writeHead([500, 204, 410][nth - 1] ?? 500).end() })
  const { submit, settled } = site(t)
  const one = await submit(url, undefined, 'ann')
  await settled(one)
  const other = await submit(url)
  await settled(other)
  assert.deepEqual(
    heard.map(({ ms: _, ...event }) => event),
    [
      {
        outcome: 'retry',
        taskId: one,
        owner: 'ann',
        tenant: undefined,
        host: `127.0.0.1:${String(port)}`,
        attempt: 1,
        status: 500,
        fault: 'status',
      },
      {
        outcome: 'delivered',
        taskId: one,
        owner: 'ann',
        tenant: undefined,
        host: `127.0.0.1:${String(port)}`,
        attempt: 2,
        status: 204,
        fault: undefined,
      },
      {
        outcome: 'failed',
        taskId: other,
        owner: undefined,
        tenant: undefined,
        host: `127.0.0.1:${String(port)}`,
        attempt: 1,
        status: 410,
        fault: 'gone',
      },
    ],
  )
  for (const { ms } of heard) assert.ok(ms > 0 && ms < 10_000)
})
