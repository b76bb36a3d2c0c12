// The history of runs, and a task that is retried.
import { detailsOf } from '../../../../src/tasks/record/details.js'
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { callbacks } from '../../../../src/callbacks/index.js'
import { HttpError, httpError } from '../../../../src/http/errors.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import type { TaskContext } from '../../../../src/tasks/definition/run-context.js'
import { coreOf, createTasks } from '../../../../src/tasks/tasks.js'
import { HandEngine } from '../../kit/hand-engine.js'
import { Spy, SpyStore } from '../../kit/tasks.js'
import { deferred } from '../../../kit/wait.js'

const HOUR = 3_600_000

/** A task whose runs the test hands out. */
function setUp(t: TestContext, run: (context: TaskContext) => unknown, { attempts = 100 } = {}) {
  const hand = new HandEngine()
  const work = defineTask({
    name: 'work', attempts, backoff: { type: 'fixed', delayMs: 0 }, run: (_, context) => run(context),
  })
  const tasks = createTasks({
    store: new SpyStore(memory().store, new Spy(), true), engine: hand, definitions: [work], onError: () => undefined,
    progressIntervalMs: 0,
    callbacks: callbacks({
      secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      sender: { check: () => undefined, send: async () => ({ status: 410 }) },
    }),
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  const submit = async (options: { readonly callbackUrl?: string } = {}) => {
    await tasks.submit(work, 1, { id: 'one', ...options })
  }
  const shown = async () => (await tasks.get('one'))?.attempts
  const numbers = async () => (await shown())?.map(({ attempt }) => attempt)
  return { hand, tasks, submit, shown, numbers }
}

const broken = () => {
  throw new HttpError(503, 'broken', { message: 'It broke.', details: [{ pointer: '', message: 'x' }] })
}

describe('the history of runs', () => {
  test('is missing while the task itself shows the only run', async (t) => {
    for (const run of [() => 1, broken]) {
      const gate = deferred()
      const { hand, submit, shown } = setUp(t, async () => {
        await gate.promise
        return run()
      }, { attempts: 1 })
      await submit()
      const running = hand.deliver('one')
      assert.equal(await shown(), undefined)
      gate.resolve()
      await running
      assert.equal(await shown(), undefined)
    }
  })

  test('has each run that is followed by another run, with its times and its error', async (t) => {
    const { hand, submit, shown } = setUp(t, broken)
    await submit()
    await hand.deliver('one')
    const { endedAt, ...rest } = (await shown())?.[0] ?? {}
    assert.deepEqual(rest, {
      attempt: 1, startedAt: new Date(hand.at('one').startedAt ?? 0),
      error: { code: 'broken', message: 'It broke.' },
    })
    assert.ok(Math.abs((endedAt?.getTime() ?? 0) - Date.now()) < 60_000)
  })

  for (const end of ['completed', 'cancelled'] as const) {
    test(`has the last run once the task has ended after several (${end})`, async (t) => {
      const gate = deferred()
      const { hand, tasks, submit, shown, numbers } = setUp(t, ({ attempt }) => attempt === 1 ? broken() : gate.promise)
      await submit()
      await hand.deliver('one')
      hand.pass(5000)
      const second = hand.deliver('one')
      assert.deepEqual(await numbers(), [1])
      if (end === 'cancelled') await tasks.cancel('one')
      gate.resolve()
      await second
      const [first, last] = await shown() ?? []
      assert.deepEqual(
        [await numbers(), last?.error?.code],
        [[1, 2], end === 'cancelled' ? 'task_cancelled' : undefined],
      )
      assert.notDeepEqual(last?.startedAt, first?.startedAt, 'the start of the second run')
    })
  }

  test('says that a run was interrupted if its worker died', async (t) => {
    const gate = deferred()
    const { hand, submit, shown } = setUp(t, ({ attempt }) => attempt === 1 ? gate.promise : broken())
    await submit()
    const first = hand.deliver('one')
    await hand.takeOver('one')
    gate.resolve()
    await first
    assert.deepEqual(
      (await shown())?.map((each) => [each.attempt, each.error?.code]),
      [
        [1, 'task_interrupted'],
        [2, 'broken'],
      ],
    )
  })

  test('keeps the last ten runs, and 500 characters of each message', async (t) => {
    const { hand, submit, shown, numbers } = setUp(t, () => {
      throw new HttpError(503, 'x', { message: 'y'.repeat(2000) })
    })
    await submit()
    for (let n = 1; n <= 15; n++) await hand.deliver('one')
    assert.deepEqual(await numbers(), [6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
    assert.ok(((await shown())?.[0]?.error?.message.length ?? 0) <= 500)
    const { failure, ...details } = hand.at('one').details
    assert.ok(JSON.stringify(details).length < 10_000)
    assert.ok(JSON.stringify(failure).length < 9000)
  })
})

describe('a task that is retried', () => {
  test('waits for a run, and keeps nothing of its earlier end', async (t) => {
    const { hand, tasks, submit } = setUp(t, ({ progress }) => {
      progress(3)
      throw httpError('service_unavailable', { headers: { 'retry-after': '1' } })
    }, { attempts: 1 })
    await submit()
    await hand.deliver('one')
    const failed = hand.at('one')
    assert.deepEqual(
      [failed.status, (await coreOf(tasks).read('one'))?.details['errorFields']],
      ['failed', { 'retry-after': '1' }],
    )
    await tasks.retry('one')
    const task = hand.at('one')
    assert.deepEqual(
      [task.status, task.version, task.attempt, task.startedAt],
      ['queued', failed.version + 1, 1, failed.startedAt],
    )
    assert.ok(task.expiresAt > failed.expiresAt + HOUR)
    const { errorStatus, errorFields } = detailsOf(hand.at('one'))
    const { error, finishedAt, progress, startAt } = await tasks.get('one') ?? {}
    assert.deepEqual([errorStatus, errorFields, error, finishedAt, progress, startAt], Array(6).fill(undefined))
  })

  test('has the failed run in its history once, and continues to count', async (t) => {
    const { hand, tasks, submit, shown, numbers } = setUp(t, ({ attempt }) => (attempt < 3 ? broken() : 1), {
      attempts: 1,
    })
    await submit()
    await hand.deliver('one')
    const ended = hand.at('one').finishedAt ?? 0
    await tasks.retry('one')
    await hand.deliver('one')
    assert.deepEqual(await numbers(), [1, 2])
    await tasks.retry('one')
    await hand.deliver('one')
    assert.deepEqual(await numbers(), [1, 2, 3])
    assert.equal((await shown())?.[0]?.endedAt.getTime(), ended)
  })

  test('has no history if it was cancelled before its first run', async (t) => {
    const { tasks, submit, shown } = setUp(t, broken)
    await submit()
    await tasks.cancel('one')
    await tasks.retry('one')
    assert.equal(await shown(), undefined)
  })

  test('calls back again at its new end', async (t) => {
    const { hand, tasks, submit } = setUp(t, broken, { attempts: 1 })
    await submit({ callbackUrl: 'https://x.example/' })
    await hand.deliver('one')
    await hand.deliverCallback('one')
    assert.deepEqual((await tasks.get('one'))?.callback, {
      state: 'failed',
      attempts: 1,
      lastStatus: 410,
      fault: 'gone',
    })
    await tasks.retry('one')
    assert.deepEqual((await tasks.get('one'))?.callback, { state: 'waiting', attempts: 0 })
    await hand.deliver('one')
    assert.deepEqual((await tasks.get('one'))?.callback, { state: 'pending', attempts: 0 })
    await hand.deliverCallback('one')
    assert.equal((await tasks.get('one'))?.callback?.attempts, 1)
  })
})

for (const end of ['completed', 'failed', 'cancelled'] as const) {
  test(`SPEC 3.1: neither a late run nor a cancel changes a final task (${end})`, async (t) => {
    const late = deferred()
    const { hand, tasks, submit } = setUp(t, async ({ attempt, progress }) => {
      if (attempt === 1) {
        await late.promise
        progress(99)
      } else if (end === 'failed') broken()
    }, { attempts: 1 })
    await submit()
    const first = hand.deliver('one')
    if (end === 'cancelled') await tasks.cancel('one')
    else await hand.takeOver('one')
    const before = hand.at('one')
    assert.equal(before.status, end)
    late.resolve()
    await first
    await tasks.cancel('one')
    if (end === 'completed') await assert.rejects(tasks.retry('one'), { code: 'task_already_completed' })
    assert.deepEqual(hand.at('one'), before)
  })
}
