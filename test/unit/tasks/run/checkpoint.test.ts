import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test, type TestContext } from 'node:test'
import { z } from 'zod'
import { memory } from '../../../../adapters/memory/index.js'
import {
  createTasks, defineTask, isHttpError, taskEndpoints, type AnyTaskDefinition, type TaskEvent,
} from '../../../../src/index.js'
import { StoreUnavailableError } from '../../../../src/stores/store.js'
import { inject, testContext } from '../../../../src/testing/index.js'
import { HandQueue } from '../hand-queue.js'
import { bench, deferred, ended, Spy, SpyStore, within } from '../kit.js'

const AT_ONCE = { type: 'fixed', delayMs: 0 } as const
const position = z.object({ line: z.number() })

function benchOf(t: TestContext, definition: AnyTaskDefinition, shared = false) {
  const made = bench({ definitions: [definition], shared })
  t.after(made.close)
  return made
}

/** A durable queue that the test delivers, over a store of two processes. */
function handed(t: TestContext, definitions: readonly AnyTaskDefinition[]) {
  const { store } = memory()
  const spy = new Spy()
  const queue = new HandQueue(true)
  const heard: unknown[] = []
  const tasks = createTasks({
    store: new SpyStore(store, spy, true), queue, definitions, onError: (error) => { heard.push(error) },
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  })
  return { tasks, queue, spy, heard, store }
}

describe('checkpoint', () => {
  test('a later run reads what the last save of an earlier run stored, and the task is completed once', async (t) => {
    const seen: unknown[] = []
    const walk = defineTask({
      name: 'walk', attempts: 3, backoff: AT_ONCE, checkpoint: position,
      run: async (_, { checkpoint, attempt }) => {
        seen.push(checkpoint.value)
        await checkpoint.save({ line: 10 * attempt })
        await checkpoint.save({ line: 10 * attempt + 1 })
        if (attempt < 3) throw new Error('again')
        return { line: checkpoint.value?.line ?? 0 }
      },
    })
    const { tasks, store } = benchOf(t, walk)
    const { taskId } = await tasks.submit(walk, {})
    const task = await ended(tasks, taskId)
    assert.deepEqual(seen, [undefined, { line: 11 }, { line: 21 }])
    assert.equal((task.result as unknown as { line: number }).line, 21)
    assert.equal(store.get(`checkpoint:${taskId}`), undefined, 'a completed task keeps no checkpoint')
  })

  test('costs nothing when unused: no call names a checkpoint, and a first run reads nothing', async (t) => {
    const plain = defineTask({ name: 'plain', attempts: 2, backoff: AT_ONCE, run: (_, { attempt }) => { if (attempt === 1) throw new Error('again') } })
    const unused = benchOf(t, plain, true)
    await ended(unused.tasks, (await unused.tasks.submit(plain, {})).taskId)
    assert.deepEqual(unused.spy.calls.filter((call) => call.includes('checkpoint:')), [])

    const first = defineTask({ name: 'first', checkpoint: position, run: () => undefined })
    const used = benchOf(t, first, true)
    await ended(used.tasks, (await used.tasks.submit(first, {})).taskId)
    assert.deepEqual(used.spy.calls.filter((call) => /^(get|create|replace) checkpoint:/.test(call)), [])
  })

  for (const [what, value, message] of [
    ['more than 64 KiB', { text: 'é'.repeat(32_768) }, /has 65547 bytes as JSON; at most 65536 are allowed/],
    ['a function', () => 1, /it is a function/],
    ['a function inside', { next: () => 1 }, /its member next is a function/],
    ['undefined', undefined, /it is undefined/],
    ['a Map', { seen: new Map() }, /its member \/seen is of type Map/],
    ['a BigInt', { line: 1n }, /BigInt/],
    ['a cycle', cycle(), /circular/],
  ] as const) {
    test(`save of ${what} is a TypeError that says so, and writes nothing`, async (t) => {
      const raw = defineTask({
        name: 'raw', checkpoint: z.any(), run: async (_, { checkpoint }) => {
          await assert.rejects(checkpoint.save(value), (error: Error) => error instanceof TypeError && message.test(error.message))
        },
      })
      const { tasks, spy } = benchOf(t, raw)
      const task = await ended(tasks, (await tasks.submit(raw, {})).taskId)
      assert.equal(task.status, 'completed')
      assert.deepEqual(spy.writes.filter((call) => /^(create|replace) checkpoint/.test(call)), [])
    })
  }

  test('exactly 64 KiB are saved', async (t) => {
    const text = 'x'.repeat(65_536 - '{"text":""}'.length)
    const large = defineTask({
      name: 'large', attempts: 2, backoff: AT_ONCE, checkpoint: z.object({ text: z.string() }),
      run: async (_, { checkpoint }) => {
        if (checkpoint.value) return checkpoint.value.text.length
        await checkpoint.save({ text })
        throw new Error('again')
      },
    })
    const { tasks } = benchOf(t, large)
    const task = await ended(tasks, (await tasks.submit(large, {})).taskId)
    assert.equal((task.result as unknown as { value: number }).value, text.length)
  })

  test('a definition without the option refuses a save, with a message that names the option', async (t) => {
    const plain = defineTask({ name: 'plain', run: (_, { checkpoint }) => checkpoint.save({ line: 1 } as never) })
    const { tasks, heard } = benchOf(t, plain)
    assert.equal((await ended(tasks, (await tasks.submit(plain, {})).taskId)).status, 'failed')
    assert.match(String(heard[0]), /pass defineTask the option checkpoint/)
  })

  test('a direct answer checks the value and keeps nothing', async (t) => {
    const kept: unknown[] = []
    const direct = defineTask({
      name: 'direct', checkpoint: position, run: async (_, { checkpoint, taskId }) => {
        await checkpoint.save({ line: 1 })
        await assert.rejects(checkpoint.save({ line: () => 1 } as never), TypeError)
        kept.push(taskId, checkpoint.value)
      },
    })
    const { tasks, spy } = benchOf(t, direct)
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const answer = await inject(endpoints.submit(direct), { method: 'POST', path: '/work', body: {} })
    assert.equal(answer.status, 200)
    assert.deepEqual(kept, [undefined, undefined])
    assert.deepEqual(spy.calls, [])
  })

  test('longhaul/testing: the context has the value, and lists what was saved', async () => {
    const walk = defineTask({ name: 'walk', checkpoint: position, run: async (_, { checkpoint }) => checkpoint.save({ line: (checkpoint.value?.line ?? 0) + 1 }) })
    const context = testContext(walk, { checkpoint: { line: 4 } })
    await walk.run({}, context)
    assert.deepEqual(context.saved, [{ line: 5 }])
    context.abort(new Error('stopped'))
    await assert.rejects(async () => walk.run({}, context), /stopped/)
    assert.equal(context.saved.length, 2, 'a stopped run may save')
  })
})

describe('a checkpoint that does not fit any more', () => {
  const failing = (version: string | undefined, schema: z.ZodType = z.any()) => defineTask({
    name: 'walk', attempts: 2, checkpoint: schema, ...version !== undefined && { version },
    run: async (_, { checkpoint }) => {
      if (checkpoint.value !== undefined) return { found: checkpoint.value }
      await checkpoint.save({ line: 7 })
      throw new Error('stop here')
    },
  })

  async function secondRun(t: TestContext, first: AnyTaskDefinition, second: AnyTaskDefinition) {
    const old = handed(t, [first])
    const { taskId } = await old.tasks.submit(first, {})
    await old.queue.deliver(1, false)
    const events: TaskEvent[] = []
    const listen = (event: unknown) => { events.push(event as TaskEvent) }
    subscribe('longhaul:task', listen)
    const heard: unknown[] = []
    const queue = new HandQueue(true)
    const tasks = createTasks({ store: new SpyStore(old.store, new Spy(), true), queue, definitions: [second], onError: (error) => { heard.push(error) } })
    t.after(() => tasks.close({ drainMs: 0 }))
    queue.jobs.push(...old.queue.jobs)
    await queue.deliver(2, true)
    unsubscribe('longhaul:task', listen)
    const codes = heard.map((error) => isHttpError(error) ? error.code : 'other')
    return { task: await tasks.get(taskId), codes, events: events.map(({ event }) => event) }
  }

  test('another version drops it, with an event and with onError, and the task starts over', async (t) => {
    const { task, codes, events } = await secondRun(t, failing('1'), failing('2'))
    assert.equal(task?.status, 'failed', 'the second run found no value, so it saved and threw')
    assert.deepEqual(codes, ['checkpoint_dropped', 'other'])
    assert.ok(events.includes('checkpoint_dropped'))
  })

  test('the same version keeps it', async (t) => {
    const { task, codes, events } = await secondRun(t, failing('2'), failing('2'))
    assert.equal(task?.status, 'completed')
    assert.deepEqual(codes, [])
    assert.ok(!events.includes('checkpoint_dropped'))
  })

  test('a value that the schema refuses is dropped in the same way', async (t) => {
    const { codes, events } = await secondRun(t, failing(undefined), failing(undefined, z.object({ page: z.number() })))
    assert.deepEqual(codes, ['checkpoint_dropped', 'other'])
    assert.ok(events.includes('checkpoint_dropped'))
  })
})

describe('the fence of a checkpoint', () => {
  const slow = (gate: Promise<void>, errors: unknown[], aborted: unknown[]) => defineTask({
    name: 'slow', attempts: 3, checkpoint: position,
    run: async (_, { checkpoint, attempt, signal }) => {
      if (attempt > 1) {
        await checkpoint.save({ line: 100 })
        return { from: checkpoint.value?.line ?? 'the start' }
      }
      await checkpoint.save({ line: 1 })
      await gate
      await checkpoint.save({ line: 2 }).catch((error: unknown) => { errors.push(error) })
      aborted.push(signal.aborted)
      throw new Error('late')
    },
  })

  test('a save of a late run is refused with attempt_replaced, and its signal aborts', async (t) => {
    const gate = deferred()
    const [errors, aborted]: [unknown[], unknown[]] = [[], []]
    const { tasks, queue, store } = handed(t, [slow(gate.promise, errors, aborted)])
    const { taskId } = await tasks.submit(tasks.definition('slow') as AnyTaskDefinition, {})
    const late = queue.deliver(1, false)
    while (store.get(`checkpoint:${taskId}`) === undefined) await new Promise(setImmediate)
    assert.equal(await queue.deliver(2, false), true)
    gate.resolve()
    await late
    assert.ok(isHttpError(errors[0]) && errors[0].code === 'attempt_replaced')
    assert.deepEqual(aborted, [true])
    const task = await tasks.get(taskId)
    assert.equal(task?.status, 'completed')
    assert.equal((task.result as unknown as { from: number }).from, 1)
  })

  test('a late run that saves before the next run does is refused too, and does not change what that run stores', async (t) => {
    const [gate, second] = [deferred(), deferred()]
    const errors: unknown[] = []
    const define = defineTask({
      name: 'slow', attempts: 3, checkpoint: position,
      run: async (_, { checkpoint, attempt }) => {
        if (attempt === 1) {
          await gate.promise
          await checkpoint.save({ line: 2 }).catch((error: unknown) => { errors.push(error) })
          second.resolve()
          throw new Error('late')
        }
        gate.resolve()
        await second.promise
        await checkpoint.save({ line: 100 })
        throw new Error('end')
      },
    })
    const { tasks, queue, store } = handed(t, [define])
    const { taskId } = await tasks.submit(define, {})
    const late = queue.deliver(1, false)
    while ((await tasks.get(taskId))?.status !== 'processing') await new Promise(setImmediate)
    await Promise.all([queue.deliver(2, false), late])
    assert.ok(isHttpError(errors[0]) && errors[0].code === 'attempt_replaced')
    const entry = await store.get(`checkpoint:${taskId}`)
    assert.match(entry?.value ?? '', /\n\{"line":100\}$/)
  })
})

describe('the life of a checkpoint', () => {
  test('it is kept by a failed task and gone with the task', async (t) => {
    const walk = defineTask({ name: 'walk', checkpoint: position, run: async (_, { checkpoint }) => {
      await checkpoint.save({ line: 3 })
      throw new Error('end')
    } })
    const { tasks, store } = benchOf(t, walk)
    const { taskId } = await tasks.submit(walk, {})
    assert.equal((await ended(tasks, taskId)).status, 'failed')
    assert.match((await store.get(`checkpoint:${taskId}`))?.value ?? '', /\n\{"line":3\}$/)
    assert.equal(await tasks.delete(taskId), true)
    assert.equal(await store.get(`checkpoint:${taskId}`), undefined)
  })

  test('a retry of a failed task continues from the checkpoint, which lives as long as the task again', async (t) => {
    const seen: unknown[] = []
    const walk = defineTask({ name: 'walk', retentionMs: 60_000, checkpoint: position, run: async (_, { checkpoint, attempt }) => {
      seen.push(checkpoint.value)
      if (attempt === 2) return
      await checkpoint.save({ line: 3 })
      throw new Error('end')
    } })
    const { tasks, store } = benchOf(t, walk)
    const { replace } = store
    const lifetimes: (number | undefined)[] = []
    store.replace = (key, value, revision, options) => {
      if (key.startsWith('checkpoint:')) lifetimes.push(options.ttlMs)
      return replace.call(store, key, value, revision, options)
    }
    const { taskId } = await tasks.submit(walk, {})
    assert.equal((await ended(tasks, taskId)).status, 'failed')
    assert.deepEqual(lifetimes, [60_000], 'a failed task keeps it as long as its record')
    await tasks.retry(taskId)
    assert.equal((await ended(tasks, taskId)).status, 'completed')
    assert.deepEqual(seen, [undefined, { line: 3 }])
    assert.ok((lifetimes[1] ?? 0) > 60_000, 'its record lives longer again')
  })

  test('a new task under the same id does not see the checkpoint of the earlier one', async (t) => {
    const seen: unknown[] = []
    const walk = defineTask({ name: 'walk', attempts: 2, backoff: AT_ONCE, checkpoint: position, run: (_, { checkpoint, attempt }) => {
      seen.push(checkpoint.value)
      if (attempt === 1) throw new Error('again')
    } })
    const { tasks, store } = benchOf(t, walk)
    await store.create('checkpoint:mine', '[1000,9]\n{"line":5}', { ttlMs: 60_000 })
    await tasks.submit(walk, {}, { id: 'mine' })
    assert.equal((await ended(tasks, 'mine')).status, 'completed')
    assert.deepEqual(seen, [undefined, undefined])
  })

  for (const fault of ['before', 'after'] as const) {
    test(`a store that fails ${fault} each third call delays a save, and loses nothing`, async (t) => {
      const seen: unknown[] = []
      const walk = defineTask({ name: 'walk', attempts: 2, backoff: AT_ONCE, checkpoint: position, run: async (_, { checkpoint, attempt }) => {
        seen.push(checkpoint.value)
        for (let line = 1; line <= 3; line++) await checkpoint.save({ line: line * attempt })
        if (attempt === 1) throw new Error('again')
      } })
      const { tasks, spy } = benchOf(t, walk, true)
      let calls = 0
      spy.fault = (call) => call.includes('checkpoint:') && calls++ % 3 === 0 ? fault : undefined
      const { taskId } = await tasks.submit(walk, {})
      assert.equal((await ended(tasks, taskId)).status, 'completed')
      assert.deepEqual(seen, [undefined, { line: 3 }])
    })
  }

  test('while the process closes, a save does not wait for a store that is away: it rejects with StoreUnavailableError', async (t) => {
    const failed = deferred<unknown>()
    const saving = deferred()
    const walk = defineTask({ name: 'walk', checkpoint: position, run: async (_, { checkpoint }) => {
      saving.resolve()
      await checkpoint.save({ line: 1 }).catch(failed.resolve)
    } })
    const { tasks, spy } = benchOf(t, walk, true)
    spy.fault = (call) => call.includes('checkpoint:') ? 'before' : undefined
    await tasks.submit(walk, {})
    await saving.promise
    void tasks.close({ drainMs: 50 })
    assert.ok(await within(failed.promise) instanceof StoreUnavailableError)
  })
})

describe('cooperative stop', () => {
  test('when the process closes, the run of a durable queue is told at once, may save, and is handed back without an attempt', async (t) => {
    const running = deferred()
    const walk = defineTask({
      name: 'walk', checkpoint: position, run: async (_, { checkpoint, signal }) => {
        if (checkpoint.value) return { from: checkpoint.value.line }
        running.resolve()
        await new Promise((resolve) => { signal.addEventListener('abort', resolve, { once: true }) })
        assert.equal((signal.reason as Error).name, 'QueueClosingError')
        await checkpoint.save({ line: 42 })
        assert.fail('save rejects once the run is stopped')
      },
    })
    const old = handed(t, [walk])
    const { taskId } = await old.tasks.submit(walk, {})
    const run = old.queue.deliver(1, true)
    await running.promise
    const began = performance.now()
    await old.tasks.close({ drainMs: 20_000 })
    assert.equal(await run, false)
    assert.ok(performance.now() - began < 5000, 'it does not wait for the drain time')
    assert.deepEqual(old.heard, [], 'a hand-over is no error')

    const queue = new HandQueue(true)
    queue.jobs.push(...old.queue.jobs)
    const tasks = createTasks({ store: new SpyStore(old.store, new Spy(), true), queue, definitions: [walk] })
    t.after(() => tasks.close({ drainMs: 0 }))
    assert.equal((await tasks.get(taskId))?.status, 'queued')
    await queue.deliver(1, true)
    const task = await tasks.get(taskId)
    assert.equal(task?.status, 'completed')
    assert.equal((task.result as unknown as { from: number }).from, 42)
  })

  test('a queue that dies with the process lets its runs end in the drain time', async (t) => {
    const running = deferred()
    const walk = defineTask({ name: 'walk', checkpoint: position, run: async (_, { signal }) => {
      running.resolve()
      await new Promise((resolve) => { setTimeout(resolve, 30) })
      return { aborted: signal.aborted }
    } })
    const { tasks } = benchOf(t, walk)
    const { taskId } = await tasks.submit(walk, {})
    await running.promise
    await tasks.close({ drainMs: 5000 })
    assert.deepEqual((await tasks.get(taskId))?.status, 'completed')
  })
})

function cycle(): object {
  const one: { self?: object } = {}
  one.self = one
  return one
}
