import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test, type TestContext } from 'node:test'
import { NotFoundException } from '@nestjs/common'
import createError from 'http-errors'
import { z } from 'zod'
import { memory } from '../../../adapters/memory/index.js'
import { HttpError, httpError } from '../../../src/http/errors.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { createTasks, coreOf } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import type { TaskContext } from '../../../src/tasks/definition/run-context.js'
import { permanent } from '../../../src/tasks/run/failure.js'
import { testClock } from '../../../src/testing/index.js'
import { HandEngine } from '../kit/hand-engine.js'
import { bench, ended, Spy, spyEngine, SpyStore } from '../kit/tasks.js'
import { deferred, eventually, within } from '../../kit/wait.js'

const echo = defineTask({ name: 'echo', run: (input) => ({ message: 'done', input }) })
const fast = { type: 'fixed', delayMs: 1 } as const

function use(t: TestContext, options: Parameters<typeof bench>[0]) {
  const made = bench(options)
  t.after(made.close)
  return made
}

describe('submit', () => {
  test('runs a task to its result', async (t) => {
    const { tasks } = use(t, { definitions: [echo] })
    const { taskId: id, created } = await tasks.submit(echo, { a: 1 })
    assert.equal(created, true)
    const view = await ended(tasks, id)
    assert.equal(view.status, 'completed')
    assert.deepEqual(view.result, { message: 'done', input: { a: 1 } })
    assert.ok(
      view.startedAt && view.finishedAt && view.createdAt <= view.startedAt && view.startedAt <= view.finishedAt,
    )
  })

  test('passes a copy of the input', async (t) => {
    const { tasks } = use(t, { definitions: [echo] })
    const input = { list: [1] }
    const { taskId: id } = await tasks.submit(echo, input)
    input.list.push(2)
    assert.deepEqual((await ended(tasks, id)).result, { message: 'done', input: { list: [1] } })
  })

  test('starts nothing for an id that is used twice, even if the first task has ended', async (t) => {
    let runs = 0
    const gate = deferred()
    const slow = defineTask({ name: 'slow', run: async () => { runs++; await gate.promise } })
    const { tasks } = use(t, { definitions: [slow, echo] })
    const many = await Promise.all(Array.from({ length: 20 }, () => tasks.submit(slow, 1, { id: 'mine' })))
    assert.deepEqual(many.map(({ taskId: id }) => id), Array.from({ length: 20 }, () => 'mine'))
    assert.equal(many.filter(({ created }) => created).length, 1)
    await eventually(() => runs > 0)
    assert.equal((await tasks.submit(slow, 1, { id: 'mine' })).created, false)
    gate.resolve()
    await ended(tasks, 'mine')
    assert.equal((await tasks.submit(slow, 1, { id: 'mine' })).created, false)
    assert.equal(runs, 1)
    await assert.rejects(tasks.submit(echo, 1, { id: 'mine' }), { code: 'conflict' })
    await assert.rejects(tasks.submit(slow, 1, { id: 'mine', owner: 'someone' }), { code: 'conflict' })
    assert.equal(runs, 1)
  })

  test('keeps an accepted task if the engine fails or is full', async (t) => {
    for (const how of ['fails', 'full'] as const) {
      const gate = deferred()
      const slow = defineTask({ name: 'slow', run: () => gate.promise })
      const { tasks, engine, spy } = use(t, { definitions: [slow], concurrency: 1, maxUnfinished: 2 })
      await tasks.submit(slow, 1, { id: 'running' })
      await tasks.submit(slow, 1, { id: 'promised' })
      if (how === 'fails') spy.fault = (call) => (call.startsWith('create') ? 'before' : undefined)
      else
        await assert.rejects(tasks.submit(slow, 1, { id: 'third' }), {
          code: 'queue_full',
          status: 503,
          headers: { 'retry-after': '1' },
        })
      const again = await tasks.submit(slow, 1, { id: 'promised' }).then(({ created }) => created, () => 'unknown')
      assert.equal(again, how === 'fails' ? 'unknown' : false)
      spy.fault = () => undefined
      gate.resolve()
      assert.equal((await ended(tasks, 'promised')).status, 'completed')
      assert.equal(await tasks.get('third'), undefined, 'what was refused left nothing')
      await eventually(() => engine.usage().unfinished === 0)
    }
  })

  for (const fault of ['before', 'after'] as const) {
    test(`takes back no id or key that another submit got, if it fails ${fault} its write`, async (t) => {
      const { tasks, engine, spy } = use(t, { definitions: [echo], concurrency: 1, worker: false })
      const second = deferred<boolean>()
      let first = true
      spy.fault = (call) => {
        if (!call.startsWith('create') || !first) return undefined
        first = false
        void tasks.submit(echo, 1, { id: 'x' }).then(({ created }) => { second.resolve(created) }, second.reject)
        return fault
      }
      await assert.rejects(tasks.submit(echo, 1, { id: 'x' }), { name: 'StoreUnavailableError' })
      await within(second.promise)
      assert.equal((await tasks.get('x'))?.status, 'queued')
      assert.equal(engine.usage().unfinished, 1)
    })
  }

  test('validates input by schema (400 with pointers) and by rule, before anything is written', async (t) => {
    const strict = defineTask({
      name: 'strict',
      input: jsonSchema<{ n: number }>({ type: 'object', required: ['n'], properties: { n: { type: 'number' } } }),
      check: ({ n }) => {
        if (n < 0) throw httpError('unprocessable', { message: 'n must not be negative.' })
      },
      run: ({ n }) => ({ message: String(n) }),
    })
    const { tasks, spy } = use(t, { definitions: [strict] })
    await assert.rejects(
      tasks.submit(strict, { n: 'x' as never }),
      (error: HttpError) => error.code === 'invalid_input' && error.details?.[0]?.pointer === '/n',
    )
    await assert.rejects(tasks.submit(strict, { n: -1 }), { status: 422, message: 'n must not be negative.' })
    assert.deepEqual(spy.calls, [])
    assert.deepEqual((await ended(tasks, (await tasks.submit(strict, { n: 1 })).taskId)).result, { message: '1' })
  })

  test('waits for an asynchronous schema, before the task is accepted and before it runs', async (t) => {
    const patient = defineTask({
      name: 'patient',
      input: z.object({
        n: z
          .string()
          .refine(async (text) => text !== 'no')
          .transform(Number),
      }),
      run: ({ n }) => ({ n: n + 1 }),
    })
    const { tasks } = use(t, { definitions: [patient] })
    await assert.rejects(tasks.submit(patient, { n: 'no' }), { code: 'invalid_input' })
    assert.deepEqual((await ended(tasks, (await tasks.submit(patient, { n: '1' })).taskId)).result, { n: 2 })
  })

  test('rejects input that cannot be stored', async (t) => {
    const { tasks, spy } = use(t, { definitions: [echo], maxInputBytes: 10 })
    await assert.rejects(tasks.submit(echo, 'x'.repeat(9)), { code: 'body_too_large', status: 413 })
    assert.equal((await tasks.submit(echo, 'é'.repeat(4))).created, true)
    await assert.rejects(tasks.submit(echo, 'é'.repeat(5)), { code: 'body_too_large' })
    const calls = spy.writes.length
    await assert.rejects(tasks.submit(defineTask({ name: 'echo', run: () => 1 }), 1), TypeError)
    await assert.rejects(tasks.submit(echo, 1n), TypeError)
    for (const id of ['', 'a b', '../x', 'x'.repeat(129)])
      await assert.rejects(tasks.submit(echo, 1, { id }), TypeError)
    for (const delayMs of [-1, NaN, Infinity]) await assert.rejects(tasks.submit(echo, 1, { delayMs }), TypeError)
    assert.equal(spy.writes.filter((call) => call.startsWith('create')).length, 1, String(calls))
  })

  test('passes on delayMs and context', async (t) => {
    const seen = deferred<TaskContext>()
    const look = defineTask({ name: 'look', run: (_, context) => { seen.resolve(context) } })
    const { tasks } = use(t, { definitions: [look] })
    const at = Date.now()
    const { taskId: id } = await tasks.submit(look, 1, { delayMs: 60, owner: 'ann', context: { trace: 't' } })
    const { taskId, attempt, lastAttempt, owner, context } = await within(seen.promise)
    assert.ok(Date.now() - at >= 55)
    assert.deepEqual(
      { taskId, attempt, lastAttempt, owner, context },
      { taskId: id, attempt: 1, lastAttempt: true, owner: 'ann', context: { trace: 't' } },
    )
  })

  test('loses no accepted task if the outcome of any write is unknown', async (t) => {
    for (let n = 1; n < 8; n++) {
      for (const fault of ['before', 'after'] as const) {
        let runs = 0
        const count = defineTask({ name: 'count', run: () => { runs++ } })
        const { tasks, spy } = use(t, { definitions: [count] })
        spy.fault = (_, at) => (at === n ? fault : undefined)
        const promised = await tasks.submit(count, 1, { id: 'x' }).then(() => true, () => false)
        const again = await tasks.submit(count, 1, { id: 'x' }).then(() => true, () => false)
        spy.fault = () => undefined
        assert.ok(promised || again, `${n} ${fault}`)
        assert.equal((await ended(tasks, 'x')).status, 'completed', `${n} ${fault}: ${spy.calls.join()}`)
        assert.equal(runs, 1, `${n} ${fault}`)
      }
    }
  })
})

describe('a run may', () => {
  const circle: Record<string, unknown> = {}
  circle['self'] = circle
  const hostile = new Proxy({}, { has() { throw new Error('no') }, get() { throw new Error('no') } })
  for (const [title, thrown] of [
    ['a string', 'secret'],
    ['undefined', undefined],
    ['a circle', circle],
    ['a frozen error', Object.freeze(new Error('secret'))],
    ['a hostile proxy', hostile],
    ['an error with a stack', new Error('secret')],
  ] as const) {
    test(`SPEC 7.6: throw ${title}, which is masked without a stack, and onError receives it`, async (t) => {
      for (const attempts of [1, 2]) {
        const broken = defineTask({
          name: 'broken',
          attempts,
          backoff: fast,
          run: () => {
            throw thrown as Error
          },
        })
        const { tasks, heard } = use(t, { definitions: [broken] })
        const { taskId: id } = await tasks.submit(broken, 1)
        const view = await ended(tasks, id)
        assert.equal(view.status, 'failed')
        assert.deepEqual(view.error, { code: 'task_failed', message: 'The task failed.' })
        assert.equal('result' in view, false)
        assert.equal(heard.length, attempts)
        assert.ok(heard.every((error) => error === thrown))
      }
    })
  }

  test('throw an HttpError that clients see', async (t) => {
    const broken = defineTask({
      name: 'broken',
      run: () => {
        throw new HttpError(409, 'no_room', { message: 'No room left.' })
      },
    })
    const { tasks } = use(t, { definitions: [broken] })
    const { taskId: id } = await tasks.submit(broken, 1)
    assert.deepEqual((await ended(tasks, id)).error, { code: 'no_room', message: 'No room left.' })
    assert.equal((await coreOf(tasks).read(id))?.details['errorStatus'], 409)
  })

  for (const [title, value, code] of [
    ['a BigInt', 1n, 'task_failed'], ['a circle', circle, 'task_failed'], ['a hostile proxy', hostile, 'task_failed'],
    ['too much', 'é'.repeat(600), 'result_too_large'],
  ] as const) {
    test(`give ${title}, which is ${code}`, async (t) => {
      const odd = defineTask({ name: 'odd', run: () => ({ value }) })
      const { tasks, heard } = use(t, { definitions: [odd], maxResultBytes: 1000 })
      const { taskId: id } = await tasks.submit(odd, 1)
      assert.equal((await ended(tasks, id)).error?.code, code)
      assert.equal(heard.length, 1)
    })
  }

  test('never settle, which is a task_timeout that aborts the signal and frees the place', async (t) => {
    const signals: AbortSignal[] = []
    const stuck = defineTask({
      name: 'stuck',
      timeoutMs: 20,
      run: (_, { signal }) => {
        signals.push(signal)
        return new Promise(() => undefined)
      },
    })
    const { tasks } = use(t, { definitions: [stuck, echo], concurrency: 1 })
    const { taskId: id } = await tasks.submit(stuck, 1)
    const next = await tasks.submit(echo, 1)
    const view = await ended(tasks, id)
    assert.deepEqual(view.error, { code: 'task_timeout', message: 'The task exceeded its time limit.' })
    assert.equal(signals[0]?.aborted, true)
    assert.equal((await coreOf(tasks).read(id))?.details['errorStatus'], 504)
    assert.equal((await ended(tasks, next.taskId)).status, 'completed')
  })

  test('return a value that is not JSON, and onError receives the task while clients see no details', async (t) => {
    for (const [what, message] of [
      [1n, /^The result of odd is not JSON: .*BigInt/],
      [circle, /^The result of odd is not JSON: .*circular/],
    ] as const) {
      const odd = defineTask({ name: 'odd', run: () => what as unknown })
      const { tasks, heard } = use(t, { definitions: [odd] })
      assert.deepEqual((await ended(tasks, (await tasks.submit(odd, 1)).taskId)).error, {
        code: 'task_failed',
        message: 'The task failed.',
      })
      const [error] = heard as [TypeError]
      assert.equal(error.name, 'TypeError')
      assert.match(error.message, message)
      assert.ok(error.cause instanceof TypeError)
    }
  })

  test('return a value whose toJSON throws, and onError receives that error, which may be permanent', async (t) => {
    const [plain, marked] = [new Error('on purpose'), permanent(new TypeError('on purpose'))]
    const closed = new Proxy({}, { getPrototypeOf() { throw new Error('no') }, has() { throw new Error('no') } })
    for (const [thrown, runs] of [[plain, 2], [marked, 1], [closed, 2], [httpError('forbidden'), 1]] as const) {
      const told: unknown[] = []
      const odd = defineTask({
        name: 'odd',
        attempts: 2,
        backoff: fast,
        run: (_, { attempt }) => {
          told.push(attempt)
          return {
            toJSON() {
              throw thrown
            },
          }
        },
      })
      const { tasks, heard } = use(t, { definitions: [odd] })
      const { error } = await ended(tasks, (await tasks.submit(odd, 1)).taskId)
      const expected = runs === 1 && thrown !== marked
      assert.equal(error?.code, expected ? 'forbidden' : 'task_failed')
      assert.deepEqual([told.length, heard.length], [runs, expected ? 0 : runs])
      assert.ok(heard.every((each) => each === thrown))
    }
  })

  test('finish after its time is over, which is a task_timeout', async (t) => {
    const late = defineTask({
      name: 'late',
      timeoutMs: 20,
      run: (_, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            resolve('late')
          })
        }),
    })
    const { tasks } = use(t, { definitions: [late] })
    assert.equal((await ended(tasks, (await tasks.submit(late, 1)).taskId)).error?.code, 'task_timeout')
  })

  test('obey its signal on a time-out, and the task ends at once', async (t) => {
    const polite = defineTask({
      name: 'polite',
      timeoutMs: 20,
      run: (_, { signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reject(signal.reason as Error)
          })
        }),
    })
    const { tasks } = use(t, { definitions: [polite] })
    assert.equal((await ended(tasks, (await tasks.submit(polite, 1)).taskId)).error?.code, 'task_timeout')
  })

  test('finish after a cancel, and the task stays cancelled without a report', async (t) => {
    const started = deferred()
    const gate = deferred()
    const late = defineTask({
      name: 'late',
      run: async (_, { progress }) => {
        started.resolve()
        await gate.promise
        progress(9)
        return 'late'
      },
    })
    const { tasks, heard } = use(t, { definitions: [late] })
    const { taskId: id } = await tasks.submit(late, 1)
    await within(started.promise)
    const outcome = await tasks.cancel(id)
    assert.equal(outcome?.status, 'cancelled')
    gate.resolve()
    await eventually(async () => (await tasks.health()).running === 0)
    const view = await tasks.get(id)
    assert.equal(view?.status, 'cancelled')
    assert.equal('result' in view || 'progress' in view, false)
    assert.deepEqual(heard, [])
  })

  test('read its aborted signal after the cancel', async (t) => {
    const [started, gate] = [deferred(), deferred()]
    const late = deferred<boolean>()
    const lazy = defineTask({
      name: 'lazy',
      run: async (_, context) => {
        started.resolve()
        await gate.promise
        late.resolve(context.signal.aborted)
      },
    })
    const { tasks } = use(t, { definitions: [lazy] })
    const { taskId: id } = await tasks.submit(lazy, 1)
    await within(started.promise)
    await tasks.cancel(id)
    gate.resolve()
    assert.equal(await within(late.promise), true)
  })

  test('change its input, and the next attempt sees the original', async (t) => {
    const seen: string[] = []
    const greedy = defineTask({
      name: 'greedy',
      attempts: 2,
      backoff: fast,
      run: (input: { list: number[] }) => {
        seen.push(JSON.stringify(input))
        input.list.pop()
        throw new Error('x')
      },
    })
    const { tasks } = use(t, { definitions: [greedy] })
    await ended(tasks, (await tasks.submit(greedy, { list: [1] })).taskId)
    assert.deepEqual(seen, ['{"list":[1]}', '{"list":[1]}'])
  })

  test('fail without an onError, which causes a warning with the task, its name, the attempt and the causes', async (t) => {
    const broken = defineTask({ name: 'broken', run: () => { throw new Error('x', { cause: new Error('deeper') }) } })
    const tasks = createTasks({ ...memory(), definitions: [broken] })
    t.after(() => tasks.close())
    const warned = once(process, 'warning') as Promise<[Error]>
    const { taskId: id } = await tasks.submit(broken, 1)
    const [{ message }] = await warned
    assert.ok(message.startsWith(`Task ${id} (broken, attempt 1): Error: x\n`), message)
    assert.match(message, /\n\[cause\] Error: deeper\n/)
  })

  test('have an onError that throws or rejects, which leaves the task unchanged and emits a warning', async (t) => {
    const listeners: (() => unknown)[] = [
      () => {
        throw new Error('listener')
      },
      () => Promise.reject(new Error('listener')),
    ]
    for (const onError of listeners) {
      const broken = defineTask({ name: 'broken', run: () => { throw new Error('x') } })
      const { tasks } = use(t, { definitions: [broken], onError })
      const warned = once(process, 'warning') as Promise<[Error]>
      assert.equal((await ended(tasks, (await tasks.submit(broken, 1)).taskId)).status, 'failed')
      const [{ name, message }] = await warned
      assert.deepEqual([name, message.includes('listener')], ['LonghaulError', true])
    }
  })
})

describe('the attempts of a task', () => {
  test('retry a failure, and the status is processing between two attempts', async (t) => {
    const attempts: [number, boolean][] = []
    const flaky = defineTask({
      name: 'flaky',
      attempts: 3,
      backoff: fast,
      run: (_, { attempt, lastAttempt }) => {
        attempts.push([attempt, lastAttempt])
        if (attempt < 3) throw new Error('not yet')
        return { message: 'at last' }
      },
    })
    const { tasks, heard } = use(t, { definitions: [flaky] })
    const { taskId: id } = await tasks.submit(flaky, 1)
    assert.deepEqual((await ended(tasks, id)).result, { message: 'at last' })
    assert.deepEqual(attempts, [[1, false], [2, false], [3, true]])
    assert.equal(heard.length, 2)
  })

  test('leave the job queued between two attempts, where it can be cancelled', async (t) => {
    let runs = 0
    const flaky = defineTask({
      name: 'flaky',
      attempts: 2,
      backoff: { type: 'fixed', delayMs: 60_000 },
      run: () => {
        runs++
        throw new Error('x')
      },
    })
    const { tasks, engine } = use(t, { definitions: [flaky] })
    const { taskId: id } = await tasks.submit(flaky, 1)
    await eventually(
      async () =>
        runs === 1 && (await coreOf(tasks).read(id))?.status === 'queued' && (await tasks.health()).running === 0,
    )
    assert.equal((await tasks.get(id))?.status, 'queued')
    assert.equal((await tasks.cancel(id))?.status, 'cancelled')
    assert.equal(engine.usage().unfinished, 0)
    assert.deepEqual(engine.counts('default'), { running: 0, waiting: 0, delayed: 0 })
    assert.equal(runs, 1)
  })

  for (const [title, thrown] of [
    ['a permanent error', () => permanent(new Error('x'))],
    ['an HttpError that blames the request', () => httpError('unprocessable')],
    ['an exception of NestJS that blames the request', () => new NotFoundException()],
    ['such an error of http-errors', () => createError(404)],
  ] as const) {
    test(`end after ${title}`, async (t) => {
      let runs = 0
      const broken = defineTask({
        name: 'broken',
        attempts: 5,
        backoff: fast,
        run: () => {
          runs++
          throw thrown()
        },
      })
      const { tasks } = use(t, { definitions: [broken] })
      assert.equal((await ended(tasks, (await tasks.submit(broken, 1)).taskId)).status, 'failed')
      assert.equal(runs, 1)
    })
  }
})

describe('the progress of a task', () => {
  test('takes a few writes for 10,000 reports, of which the last one is stored, and values that are not numbers are dropped', async (t) => {
    const chatty = defineTask({
      name: 'chatty',
      run: (_, { progress }) => {
        for (let n = 1; n <= 10_000; n++) progress(n, 10_000, 'm'.repeat(600))
        progress(7, NaN, 5 as never)
        for (const done of [NaN, Infinity, '5']) progress(done as number)
      },
    })
    const { tasks, spy } = use(t, { definitions: [chatty] })
    const { taskId: id } = await tasks.submit(chatty, 1)
    const view = await ended(tasks, id)
    assert.deepEqual(view.progress, { done: 7 })
    assert.ok(spy.calls.filter((call) => call.startsWith('change')).length <= 4, spy.calls.join())
  })

  test('is written during the run, at intervals', async (t) => {
    const gate = deferred()
    const steps = defineTask({
      name: 'steps',
      run: async (_, { progress }) => {
        progress(1, 2, 'x'.repeat(600))
        progress(2, 2)
        await gate.promise
      },
    })
    const { tasks, spy } = use(t, { definitions: [steps], progressIntervalMs: 30 })
    const { taskId: id } = await tasks.submit(steps, 1)
    await eventually(async () => (await tasks.get(id))?.progress?.done === 1)
    assert.equal((await tasks.get(id))?.progress?.message?.length, 500)
    await eventually(async () => (await tasks.get(id))?.progress?.done === 2)
    gate.resolve()
    await ended(tasks, id)
    assert.equal(spy.calls.filter((call) => call.startsWith('change')).length, 3, 'two reports, end')
  })

  test('changes nothing after the end, or if it cannot be written', async (t) => {
    let report: TaskContext['progress'] | undefined
    const leaky = defineTask({
      name: 'leaky',
      run: async (_, { progress }) => {
        report = progress
        progress(1)
        await new Promise((resolve) => {
          setTimeout(resolve, 30)
        })
      },
    })
    const { tasks, spy } = use(t, { definitions: [leaky], progressIntervalMs: 1 })
    let failed = 0
    spy.fault = (call) => (call.startsWith('change') && ++failed === 1 ? 'before' : undefined)
    const { taskId: id } = await tasks.submit(leaky, 1)
    assert.equal((await ended(tasks, id)).status, 'completed')
    const before = await tasks.get(id)
    const writes = spy.writes.length
    report?.(99)
    await new Promise((resolve) => { setTimeout(resolve, 20) })
    assert.deepEqual(await tasks.get(id), before)
    assert.equal(spy.writes.length, writes)
  })
})

describe('a store that fails for a while', () => {
  test('does not lose the outcome of a run', async (t) => {
    for (const fault of ['before', 'after'] as const) {
      const gate = deferred()
      const slow = defineTask({ name: 'slow', run: async () => { await gate.promise; return { message: 'kept' } } })
      const { tasks, spy } = use(t, { definitions: [slow] })
      const { taskId: id } = await tasks.submit(slow, 1)
      await eventually(async () => (await tasks.health()).running === 1)
      let left = 2
      spy.fault = (call) => (call.startsWith('change') && left-- > 0 ? fault : undefined)
      gate.resolve()
      assert.deepEqual((await ended(tasks, id)).result, { message: 'kept' }, fault)
    }
  })

  test('loses no task between two attempts, even if a reply is lost', async (t) => {
    for (const durable of [true, false]) {
      for (let nth = 1; nth <= 2; nth++) {
        let runs = 0
        const flaky = defineTask({ name: 'flaky', attempts: 2, backoff: fast, run: async () => {
          await Promise.resolve()
          if (++runs === 1) throw new Error('It fails the first time')
          return { message: 'done' }
        } })
        const spy = new Spy()
        const hand = new HandEngine(durable)
        const tasks = createTasks({
          engine: spyEngine(hand, spy),
          store: new SpyStore(memory().store, spy, true),
          definitions: [flaky],
          onError: () => undefined,
        })
        t.after(() => tasks.close({ drainMs: 0 }))
        let written = 0
        spy.fault = (call) => (call.startsWith('change') && ++written === nth ? 'after' : undefined)
        const { taskId: id } = await tasks.submit(flaky, 1)
        await hand.deliver(id)
        assert.equal(hand.at(id).status, 'queued')
        hand.pass(1000)
        await hand.deliver(id)
        assert.equal(written, 3, 'two changes, and one that was repeated')
        assert.deepEqual([(await tasks.get(id))?.status, runs], ['completed', 2], `${String(durable)} ${String(nth)}`)
      }
    }
  })
})

describe('a cancel', () => {
  test('ends a queued task, which never runs', async (t) => {
    const gate = deferred()
    let ran = false
    const slow = defineTask({ name: 'slow', run: () => gate.promise })
    const other = defineTask({ name: 'other', run: () => { ran = true } })
    const { tasks, engine } = use(t, { definitions: [slow, other], concurrency: 1 })
    const first = await tasks.submit(slow, 1)
    const { taskId: id } = await tasks.submit(other, 1)
    await eventually(async () => (await tasks.health()).running === 1)
    const outcome = await tasks.cancel(id)
    assert.equal(outcome?.status, 'cancelled')
    assert.deepEqual(engine.counts('default'), { running: 1, waiting: 0, delayed: 0 })
    gate.resolve()
    await ended(tasks, first.taskId)
    assert.equal((await tasks.get(id))?.status, 'cancelled')
    assert.equal(ran, false)
    assert.equal((await tasks.cancel(id))?.status, 'cancelled')
    assert.equal((await tasks.cancel(first.taskId))?.status, 'completed')
    assert.equal(await tasks.cancel('unknown'), undefined)
    assert.equal(await tasks.cancel('../x'), undefined)
  })

  test('aborts the signal of a run in this process and in another, at any moment', async () => {
    for (const where of ['here', 'elsewhere'] as const) {
      const aborted = deferred<AbortSignal>()
      const started = deferred()
      const slow = defineTask({
        name: 'slow', run: (_, { signal }) => new Promise((_, reject) => {
          started.resolve()
          signal.addEventListener('abort', () => { aborted.resolve(signal); reject(signal.reason as Error) })
        }),
      })
      const engine = new HandEngine()
      const store = new SpyStore(memory().store, new Spy(), true)
      const worker = createTasks({ store, engine, definitions: [slow], onError: () => undefined })
      const web = createTasks({ store, engine: engine.another(), definitions: [slow], worker: false })
      const { taskId: id } = await worker.submit(slow, 1)
      const run = engine.deliver(id)
      await within(started.promise)
      assert.equal((await (where === 'here' ? worker : web).cancel(id))?.status, 'cancelled')
      assert.equal((await within(aborted.promise)).aborted, true)
      await run
      assert.equal((await worker.get(id))?.status, 'cancelled')
      await worker.close({ drainMs: 0 })
    }
  })

  test('is final at any moment of a start, and aborts the signal', async (t) => {
    for (let turns = 0; turns < 40; turns++) {
      let signal: AbortSignal | undefined
      let running = false
      const slow = defineTask({
        name: 'slow',
        run: (_, context) => {
          signal = context.signal
          running = true
          return new Promise((resolve) => {
            context.signal.addEventListener('abort', resolve)
          })
        },
      })
      const { tasks } = use(t, { definitions: [slow] })
      const { taskId: id } = await tasks.submit(slow, 1)
      await new Promise(setImmediate)
      for (let n = 0; n < turns / 2; n++) await Promise.resolve()
      assert.equal((await tasks.cancel(id))?.status, 'cancelled')
      await eventually(async () => (await tasks.health()).running === 0)
      assert.equal((await tasks.get(id))?.status, 'cancelled')
      assert.equal(running, signal !== undefined)
      if (signal) assert.equal(signal.aborted, true)
    }
  })
})

describe('get, delete and wait', () => {
  test('delete removes only final tasks', async (t) => {
    const gate = deferred()
    const slow = defineTask({ name: 'slow', run: () => gate.promise })
    const { tasks } = use(t, { definitions: [slow] })
    const { taskId: id } = await tasks.submit(slow, 1)
    assert.equal(await tasks.delete(id), false)
    gate.resolve()
    await ended(tasks, id)
    assert.equal(await tasks.delete(id), true)
    assert.equal(await tasks.delete(id), false)
    assert.equal(await tasks.get(id), undefined)
    assert.equal(await tasks.delete('/'), false)
  })

  test('get finds no task when its time is over', async (t) => {
    const clock = testClock()
    const brief = defineTask({ name: 'brief', retentionMs: 5000, run: () => 1 })
    const tasks = createTasks({ ...memory({ clock }), definitions: [brief, echo], retentionMs: 50_000 })
    t.after(() => tasks.close({ drainMs: 0 }))
    const [a, b] = [(await tasks.submit(brief, 1)).taskId, (await tasks.submit(echo, 1)).taskId]
    await ended(tasks, a)
    await ended(tasks, b)
    await clock.advance(6000)
    assert.equal(await tasks.get(a), undefined)
    assert.ok(await tasks.get(b))
    await clock.advance(50_000)
    assert.equal(await tasks.get(b), undefined)
  })

  test('wait ends with the task, its time limit, its signal, or the deletion of the task', async (t) => {
    const begun = deferred()
    const gate = deferred()
    const slow = defineTask({ name: 'slow', run: async () => { begun.resolve(); await gate.promise } })
    const { tasks, engine } = use(t, { definitions: [slow] })
    assert.equal(await tasks.wait('unknown', { timeoutMs: 60_000 }), undefined)
    assert.equal(await tasks.wait('..', { timeoutMs: 60_000 }), undefined)
    const { taskId: id } = await tasks.submit(slow, 1)
    await begun.promise
    assert.equal((await within(tasks.wait(id, { timeoutMs: 30 })))?.status, 'processing')
    const controller = new AbortController()
    const aborted = tasks.wait(id, { timeoutMs: 60_000, signal: controller.signal })
    setImmediate(() => { controller.abort() })
    assert.equal((await within(aborted))?.status, 'processing')
    const done = tasks.wait(id, { timeoutMs: 60_000 })
    await new Promise(setImmediate)
    gate.resolve()
    assert.equal((await within(done))?.status, 'completed')
    assert.equal(engine.usage().watches, 0)
  })
})

describe('close and health', () => {
  test('close accepts nothing new, lets work finish, and has one outcome', async (t) => {
    const gate = deferred()
    const slow = defineTask({ name: 'slow', run: async () => { await gate.promise; return { message: 'finished' } } })
    const { tasks } = use(t, { definitions: [slow, echo] })
    const { taskId: id } = await tasks.submit(slow, 1)
    await eventually(async () => (await tasks.health()).running === 1)
    assert.deepEqual(await tasks.health(), { ok: true, pausedPools: [], running: 1, waiting: 0 })
    const closing = tasks.close({ drainMs: 5000 })
    assert.equal(tasks.close(), closing)
    await assert.rejects(tasks.submit(echo, 1), { code: 'shutting_down', status: 503, headers: { 'retry-after': '5' } })
    assert.equal((await tasks.health()).ok, false)
    gate.resolve()
    await within(closing)
    assert.deepEqual((await tasks.get(id))?.result, { message: 'finished' })
  })

  test('close interrupts runs and waiting tasks with task_interrupted when the drain time ends', async (t) => {
    const slow = defineTask({
      name: 'slow',
      run: (_, { signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reject(signal.reason as Error)
          })
        }),
    })
    const deaf = defineTask({ name: 'deaf', run: () => new Promise(() => undefined) })
    const { tasks, heard } = use(t, { definitions: [slow, deaf], concurrency: 2 })
    const ids = [
      await tasks.submit(slow, 1),
      await tasks.submit(deaf, 1),
      await tasks.submit(slow, 1),
      await tasks.submit(slow, 1, { delayMs: 60_000 }),
    ]
    await eventually(async () => (await tasks.health()).running === 2)
    await within(tasks.close({ drainMs: 20 }))
    for (const { taskId: id } of ids) {
      const view = await tasks.get(id)
      assert.deepEqual([view?.status, view?.error?.code], ['failed', 'task_interrupted'])
    }
    assert.deepEqual(heard, [])
  })

  test('health reports a store that is unavailable, and never rejects', async (t) => {
    const { tasks, spy } = use(t, { definitions: [echo] })
    spy.fault = () => 'before'
    assert.equal((await tasks.health()).ok, false)
  })
})

describe('createTasks', () => {
  test('rejects invalid options', () => {
    const twice = defineTask({ name: 'echo', run: () => 1 })
    for (const options of [
      { definitions: [echo, twice] },
      { concurrency: 0 },
      { concurrency: 1.5 },
      { retentionMs: 1 },
      { retentionMs: Infinity },
      { pendingMs: NaN },
      { maxInputBytes: NaN },
      { maxResultBytes: -1 },
      { maxWaiters: NaN },
      { progressIntervalMs: NaN },
    ]) {
      assert.throws(
        () => createTasks({ ...memory(), definitions: [echo], ...options }),
        { name: 'TypeError', message: /^createTasks: / },
        JSON.stringify(options),
      )
    }
    assert.throws(
      () => createTasks({ ...memory(), engine: new HandEngine(), definitions: [] }),
      /several processes share/,
    )
  })

  test('accepts tasks and runs none with worker: false', async (t) => {
    const { tasks, engine } = use(t, { definitions: [echo], worker: false })
    const { taskId: id } = await tasks.submit(echo, 1)
    await new Promise(setImmediate)
    assert.equal((await tasks.get(id))?.status, 'queued')
    assert.equal((await engine.counts('default')).running, 0)
    assert.equal(engine.usage().unfinished, 1)
  })
})
