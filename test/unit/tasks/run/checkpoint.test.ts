import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test, type TestContext } from 'node:test'
import { z } from 'zod'
import { memory } from '../../../../adapters/memory/index.js'
import type { TaskEngine } from '../../../../src/engine/engine.js'
import {
  createTasks, defineTask, isHttpError, taskEndpoints, type AnyTaskDefinition, type TaskEvent,
} from '../../../../src/index.js'
import { StoreUnavailableError } from '../../../../src/stores/store.js'
import { inject, testContext } from '../../../../src/testing/index.js'
import { HandEngine } from '../../kit/hand-engine.js'
import { bench, ended, Spy, spyEngine, SpyStore } from '../../kit/tasks.js'
import { deferred, within } from '../../../kit/wait.js'

const AT_ONCE = { type: 'fixed', delayMs: 0 } as const
const position = z.object({ line: z.number() })

function benchOf(t: TestContext, definition: AnyTaskDefinition) {
  const made = bench({ definitions: [definition] })
  t.after(made.close)
  return made
}

/** An engine of several processes, whose runs the test hands out. */
function handed(t: TestContext, definitions: readonly AnyTaskDefinition[], hand = new HandEngine()) {
  const spy = new Spy()
  const heard: unknown[] = []
  const tasks = createTasks({
    store: new SpyStore(memory().store, spy, true), engine: spyEngine(hand, spy), definitions,
    onError: (error) => { heard.push(error) },
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  return { tasks, hand, spy, heard }
}

/** Checkpoints that an engine was asked to save, in their order. */
function saves(t: TestContext, engine: TaskEngine): (string | null)[] {
  const saved: (string | null)[] = []
  const change = engine.change.bind(engine)
  t.mock.method(engine, 'change', (...args: Parameters<typeof change>) => {
    const { checkpoint } = args[2]
    if (checkpoint !== undefined) saved.push(checkpoint)
    return change(...args)
  })
  return saved
}

describe('a checkpoint', () => {
  test('is read by a later run as the last save stored it, and the task is completed once', async (t) => {
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
    const { tasks } = benchOf(t, walk)
    const { taskId } = await tasks.submit(walk, {})
    const task = await ended(tasks, taskId)
    assert.deepEqual(seen, [undefined, { line: 11 }, { line: 21 }])
    assert.equal((task.result as { line: number }).line, 21)
  })

  test('makes no call of the engine if it is not used', async (t) => {
    const plain = defineTask({
      name: 'plain',
      attempts: 2,
      backoff: AT_ONCE,
      run: (_, { attempt }) => {
        if (attempt === 1) throw new Error('again')
      },
    })
    const first = defineTask({ name: 'first', checkpoint: position, run: () => undefined })
    for (const [definition, changes] of [[plain, 2], [first, 1]] as const) {
      const { tasks, spy } = benchOf(t, definition)
      const { taskId } = await tasks.submit(definition as typeof plain, {})
      await ended(tasks, taskId)
      const calls = spy.calls.filter((call) => !/^(read|watch) /.test(call))
      assert.deepEqual(calls, [`create ${taskId}`, ...Array<string>(changes).fill(`change ${taskId}`)])
    }
  })

  for (const [what, value, message] of [
    ['more than 64 KiB', { text: 'é'.repeat(32_768) }, /has 65547 bytes as JSON; at most 65536 are allowed/],
    ['a function', () => 1, /it is a function/],
    ['a function inside', { next: () => 1 }, /its property next is a function/],
    ['undefined', undefined, /it is undefined/],
    ['a Map', { seen: new Map() }, /its property \/seen is of type Map/],
    ['a BigInt', { line: 1n }, /BigInt/],
    ['a cycle', cycle(), /circular/],
  ] as const) {
    test(`throws a TypeError for ${what}, and writes nothing`, async (t) => {
      const raw = defineTask({
        name: 'raw', checkpoint: z.any(), run: async (_, { checkpoint }) => {
          await assert.rejects(
            checkpoint.save(value),
            (error: Error) => error instanceof TypeError && message.test(error.message),
          )
        },
      })
      const { tasks, engine } = benchOf(t, raw)
      const saved = saves(t, engine)
      const task = await ended(tasks, (await tasks.submit(raw, {})).taskId)
      assert.equal(task.status, 'completed')
      assert.deepEqual(saved, [])
    })
  }

  test('may have exactly 64 KiB', async (t) => {
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
    assert.equal(task.result, text.length)
  })

  test('needs the option of its definition, which the message of a rejected save names', async (t) => {
    const plain = defineTask({ name: 'plain', run: (_, { checkpoint }) => checkpoint.save({ line: 1 } as never) })
    const { tasks, heard } = benchOf(t, plain)
    assert.equal((await ended(tasks, (await tasks.submit(plain, {})).taskId)).status, 'failed')
    assert.match(String(heard[0]), /pass defineTask the option checkpoint/)
  })

  test('is checked but not kept in a synchronous request', async (t) => {
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

  test('is in the context of longhaul/testing, which lists what was saved', async () => {
    const walk = defineTask({
      name: 'walk',
      checkpoint: position,
      run: async (_, { checkpoint }) => checkpoint.save({ line: (checkpoint.value?.line ?? 0) + 1 }),
    })
    const context = testContext(walk, { checkpoint: { line: 4 } })
    await walk.run({}, context)
    assert.deepEqual(context.saved, [{ line: 5 }])
    context.abort(new Error('stopped'))
    await assert.rejects(async () => walk.run({}, context), /stopped/)
    assert.equal(context.saved.length, 2, 'a stopped run may save')
  })
})

describe('a checkpoint that no longer fits', () => {
  const failing = (version: string | undefined, schema: z.ZodType = z.any()) => defineTask({
    name: 'walk', attempts: 2, checkpoint: schema, ...version !== undefined && { version },
    run: async (_, { checkpoint }) => {
      if (checkpoint.value !== undefined) return { found: checkpoint.value }
      await checkpoint.save({ line: 7 })
      throw new Error('stop here')
    },
  })

  async function secondRun(t: TestContext, first: AnyTaskDefinition, second: AnyTaskDefinition) {
    const hand = new HandEngine()
    const old = handed(t, [first], hand.another())
    const { taskId } = await old.tasks.submit(first, {})
    await old.hand.deliver(taskId)
    hand.pass(60_000)
    const events: TaskEvent[] = []
    const listen = (event: unknown) => { events.push(event as TaskEvent) }
    subscribe('longhaul:task', listen)
    const { tasks, heard } = handed(t, [second], hand)
    await hand.deliver(taskId)
    unsubscribe('longhaul:task', listen)
    const codes = heard.map((error) => isHttpError(error) ? error.code : 'other')
    return { task: await tasks.get(taskId), codes, events: events.map(({ event }) => event) }
  }

  test('is dropped by another version, with an event and a call of onError, and the task starts over', async (t) => {
    const { task, codes, events } = await secondRun(t, failing('1'), failing('2'))
    assert.equal(task?.status, 'failed', 'the second run found no value, so it saved and threw')
    assert.deepEqual(codes, ['checkpoint_dropped', 'other'])
    assert.ok(events.includes('checkpoint_dropped'))
  })

  test('is kept by the same version', async (t) => {
    const { task, codes, events } = await secondRun(t, failing('2'), failing('2'))
    assert.equal(task?.status, 'completed')
    assert.deepEqual(codes, [])
    assert.ok(!events.includes('checkpoint_dropped'))
  })

  test('is dropped if the schema rejects its value', async (t) => {
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

  test('rejects a save of a late run with attempt_replaced, and its signal aborts', async (t) => {
    const gate = deferred()
    const [errors, aborted]: [unknown[], unknown[]] = [[], []]
    const { tasks, hand } = handed(t, [slow(gate.promise, errors, aborted)])
    const { taskId } = await tasks.submit(tasks.definition('slow') as AnyTaskDefinition, {})
    const late = hand.deliver(taskId)
    while (hand.checkpointOf(taskId) === undefined) await new Promise(setImmediate)
    await hand.takeOver(taskId)
    gate.resolve()
    await late
    assert.ok(isHttpError(errors[0]) && errors[0].code === 'attempt_replaced')
    assert.deepEqual(aborted, [true])
    const task = await tasks.get(taskId)
    assert.equal(task?.status, 'completed')
    assert.equal((task.result as { from: number }).from, 1)
  })

  test('rejects a save of a late run before the next run has saved, and keeps later values of the next run', async (t) => {
    const [begun, gate, second] = [deferred(), deferred(), deferred()]
    const errors: unknown[] = []
    const define = defineTask({
      name: 'slow', attempts: 3, checkpoint: position,
      run: async (_, { checkpoint, attempt }) => {
        if (attempt === 1) {
          begun.resolve()
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
    const { tasks, hand } = handed(t, [define])
    const { taskId } = await tasks.submit(define, {})
    const late = hand.deliver(taskId)
    await begun.promise
    await Promise.all([hand.takeOver(taskId), late])
    assert.ok(isHttpError(errors[0]) && errors[0].code === 'attempt_replaced')
    assert.match(hand.checkpointOf(taskId) ?? '', /\n\{"line":100\}$/)
  })
})

describe('the life of a checkpoint', () => {
  test('ends with the task, so that a new task with the same id does not get it', async (t) => {
    const seen: unknown[] = []
    const walk = defineTask({ name: 'walk', checkpoint: position, run: async (_, { checkpoint }) => {
      seen.push(checkpoint.value)
      await checkpoint.save({ line: 3 })
      throw new Error('end')
    } })
    const { tasks } = benchOf(t, walk)
    for (let times = 0; times < 2; times++) {
      await tasks.submit(walk, {}, { id: 'mine' })
      assert.equal((await ended(tasks, 'mine')).status, 'failed')
      assert.equal(await tasks.delete('mine'), true)
    }
    assert.deepEqual(seen, [undefined, undefined])
  })

  test('is as long as that of the task, so that a retry of a failed task continues from it', async (t) => {
    const seen: unknown[] = []
    const walk = defineTask({
      name: 'walk',
      retentionMs: 60_000,
      checkpoint: position,
      run: async (_, { checkpoint }) => {
        seen.push(checkpoint.value)
        if (seen.length === 2) return
        await checkpoint.save({ line: 3 })
        throw new Error('end')
      },
    })
    const { tasks, hand } = handed(t, [walk])
    const { taskId } = await tasks.submit(walk, {})
    await hand.deliver(taskId)
    assert.deepEqual([hand.at(taskId).status, hand.checkpointOf(taskId)], ['failed', '""\n{"line":3}'])
    hand.pass(59_000)
    await tasks.retry(taskId)
    hand.pass(120_000)
    await hand.deliver(taskId)
    assert.equal((await tasks.get(taskId))?.status, 'completed')
    assert.deepEqual([seen, hand.checkpointOf(taskId)], [[undefined, { line: 3 }], undefined])
  })

  for (const fault of ['before', 'after'] as const) {
    test(`continues if the engine fails ${fault} each third change, which delays a save`, async (t) => {
      const seen: unknown[] = []
      const walk = defineTask({
        name: 'walk',
        attempts: 2,
        backoff: AT_ONCE,
        checkpoint: position,
        run: async (_, { checkpoint, attempt }) => {
          seen.push(checkpoint.value)
          for (let line = 1; line <= 3; line++) await checkpoint.save({ line: line * attempt })
          if (attempt === 1) throw new Error('again')
        },
      })
      const { tasks, spy } = benchOf(t, walk)
      let calls = 0
      spy.fault = (call) => call.startsWith('change') && calls++ % 3 === 0 ? fault : undefined
      const { taskId } = await tasks.submit(walk, {})
      assert.equal((await ended(tasks, taskId)).status, 'completed')
      assert.deepEqual(seen, [undefined, { line: 3 }])
    })
  }

  test('ends a save with StoreUnavailableError if the store is unavailable while the process closes', async (t) => {
    const failed = deferred<unknown>()
    const saving = deferred()
    const walk = defineTask({ name: 'walk', checkpoint: position, run: async (_, { checkpoint }) => {
      saving.resolve()
      await checkpoint.save({ line: 1 }).catch(failed.resolve)
    } })
    const { tasks, spy } = benchOf(t, walk)
    spy.fault = (call) => call.startsWith('change') ? 'before' : undefined
    await tasks.submit(walk, {})
    await saving.promise
    void tasks.close({ drainMs: 50 })
    assert.ok(await within(failed.promise) instanceof StoreUnavailableError)
  })
})

describe('a close of a process', () => {
  test('notifies the run of a durable engine at once, which can save and is given back without using an attempt', async (t) => {
    const running = deferred()
    const walk = defineTask({
      name: 'walk',
      checkpoint: position,
      run: async (_, { checkpoint, signal }) => {
        if (checkpoint.value) return { from: checkpoint.value.line }
        running.resolve()
        await new Promise((resolve) => {
          signal.addEventListener('abort', resolve, { once: true })
        })
        assert.equal((signal.reason as Error).name, 'WorkerClosingError')
        await checkpoint.save({ line: 42 })
        assert.fail('save rejects once the run is stopped')
      },
    })
    const hand = new HandEngine()
    const old = handed(t, [walk], hand.another())
    const { taskId } = await old.tasks.submit(walk, {})
    const run = old.hand.deliver(taskId)
    await running.promise
    // It does not wait for the drain time.
    await within(old.tasks.close({ drainMs: 600_000 }))
    await run
    assert.deepEqual(old.heard, [], 'a hand-over is no error')

    const { tasks } = handed(t, [walk], hand)
    assert.equal((await tasks.get(taskId))?.status, 'queued')
    await hand.deliver(taskId)
    const task = await tasks.get(taskId)
    assert.equal(task?.status, 'completed')
    assert.equal((task.result as { from: number }).from, 42)
  })

  test('lets the runs of an engine in memory finish in the drain time', async (t) => {
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
