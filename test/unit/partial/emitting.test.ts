// A run that emits: calls that nobody awaits, checkpoints, and the end of the run.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { partialResults } from '../../../src/partial/index.js'
import { readAfter } from '../../../src/partial/partial-reader.js'
import { WorkerClosingError } from '../../../src/engine/runs.js'
import type { Store } from '../../../src/stores/store.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { testContext } from '../../../src/testing/index.js'
import { Spy, SpyStore } from '../kit/tasks.js'
import { deferred, keepAlive, pause } from '../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const task = { id: 'test', external: 'place' }
const FOR_TASK = { taskId: task.id, external: task.external }
const SYNC = { taskId: undefined }

async function stored(store: Store): Promise<string[]> {
  return (await readAfter(store, task, undefined, false)).results.map(({ text }) => text)
}

describe('a run that emits', () => {
  test('fails if a value is not JSON or too large, even if the run does not await emit, and the process continues', async () => {
    const { store } = memory()
    const { run, external } = partialResults<string>({ store })
    const say = defineTask({
      name: 'say',
      external,
      run: run(async (text: string, { emit }) => {
        void emit('first')
        void emit(text)
        return 'done'
      }),
    })
    const unhandled: unknown[] = []
    const note = (error: unknown): void => {
      unhandled.push(error)
    }
    process.on('unhandledRejection', note)
    for (const options of [FOR_TASK, SYNC]) {
      await assert.rejects(async () => say.run('x'.repeat(70_000), testContext(say, options)), /may have 65536 bytes/)
      assert.equal(await say.run('short', testContext(say, options)), 'done')
    }
    await new Promise(setImmediate)
    process.off('unhandledRejection', note)
    assert.deepEqual(unhandled, [])
    assert.deepEqual(await stored(store), ['"first"', '"first"', '"short"'])
  })

  test('gathers results for gatherMs after a write, and the end of the run does not wait for gatherMs', async () => {
    const { store } = memory()
    const spy = new Spy()
    const { run, external } = partialResults<number>({ store: new SpyStore(store, spy), gatherMs: 10_000 })
    const seen: string[][] = []
    const count = defineTask({ name: 'count', external, run: run(async (_input: object, { emit }) => {
      for (const number of [1, 2, 3, 4]) {
        await emit(number)
        await pause(40)
      }
      seen.push(await stored(store))
    }) })
    await count.run({}, testContext(count, FOR_TASK))
    assert.deepEqual([seen, await stored(store)], [[['1']], ['1', '2', '3', '4']])
    assert.equal(spy.writes.length, 3)
  })

  test('has stored its results once checkpoint.save resolves or rejects', async () => {
    const { store } = memory()
    const { run, external } = partialResults<number>({ store })
    const seen: string[][] = []
    const count = defineTask({
      name: 'count', external, checkpoint: jsonSchema<number>({ type: 'number' }),
      run: run(async (_input: object, { emit, checkpoint }) => {
        void emit(1)
        await checkpoint.save(1)
        seen.push(await stored(store))
        void emit(2)
        throw new Error('it fails')
      }),
    })
    await assert.rejects(async () => count.run({}, testContext(count, FOR_TASK)), /it fails/)
    assert.deepEqual([seen, await stored(store)], [[['1']], ['1', '2']])
  })

  test('saves the value of a checkpoint at the time of the call, after the results that were emitted before', async () => {
    const { store } = memory()
    const { run, external } = partialResults<number>({ store })
    const count = defineTask({
      name: 'count', external, checkpoint: jsonSchema<{ next: number }>({ type: 'object' }),
      run: run(async (_input: object, { emit, checkpoint }) => {
        const state = { next: 1 }
        void emit(1)
        const saved = checkpoint.save(state)
        state.next = 2
        await saved
      }),
    })
    const context = testContext(count, FOR_TASK)
    await count.run({}, context)
    assert.deepEqual(context.saved, [{ next: 1 }])
  })

  test('emits nothing after a cancel, and may end after a shutdown', async () => {
    for (const [reason, expected] of [
      [new Error('cancelled'), ['1']],
      [new WorkerClosingError(), ['1', '2']],
    ] as const) {
      for (const options of [FOR_TASK, SYNC]) {
        const { store } = memory()
        const { run, external } = partialResults<number>({ store })
        const say = defineTask({
          name: 'say',
          external,
          run: run(async (_input: object, { emit }) => {
            await emit(1)
            context.abort(reason)
            await emit(2)
            return 'done'
          }),
        })
        const context = testContext(say, options)
        const ended = (async () => say.run({}, context))()
        if (expected.length === 1) await assert.rejects(ended, reason)
        else assert.equal(await ended, 'done')
        if (options === FOR_TASK) assert.deepEqual(await stored(store), expected)
      }
    }
  })

  test('ends although it continues emitting after its end', async () => {
    const { store } = memory()
    const { run, external } = partialResults<number>({ store })
    const late: unknown[] = []
    const { promise: rejected, resolve } = deferred()
    const say = defineTask({ name: 'say', external, run: run(async (_input: object, { emit }) => {
      await emit(1)
      const timer = setInterval(() => {
        emit(2).catch((error: unknown) => {
          clearInterval(timer)
          late.push(error)
          resolve()
        })
      }, 1)
      return 'done'
    }) })
    assert.equal(await say.run({}, testContext(say, FOR_TASK)), 'done')
    await rejected
    assert.match(String(late[0]), /the run has ended/)
  })

  test('can call clear without await, and the process continues', async () => {
    const { run, external } = partialResults<number>({ store: memory().store })
    const unhandled: unknown[] = []
    const note = (error: unknown): void => { unhandled.push(error) }
    process.on('unhandledRejection', note)
    const say = defineTask({ name: 'say', external, run: run(async (_input: object, { clear }) => {
      context.abort(new Error('cancelled'))
      void clear()
    }) })
    const context = testContext(say, FOR_TASK)
    await assert.rejects(async () => say.run({}, context), /cancelled/)
    await new Promise(setImmediate)
    process.off('unhandledRejection', note)
    assert.deepEqual(unhandled, [])
  })

  test('emits nothing after its end', async () => {
    const { store } = memory()
    const { run, external } = partialResults<number>({ store })
    const ended = deferred()
    let late: Promise<void> | undefined
    const say = defineTask({ name: 'say', external, run: run((_input: object, { emit }) => {
      void emit(1)
      late = ended.promise.then(() => emit(2))
      return 'done'
    }) })
    await say.run({}, testContext(say, FOR_TASK))
    ended.resolve()
    await assert.rejects(late ?? Promise.resolve(), /the run has ended/)
    assert.deepEqual(await stored(store), ['1'])
  })

  test('gets its results in their JSON form', async () => {
    const { store } = memory()
    const { run, external } = partialResults<{ at: Date }>({ store })
    const tick = defineTask({
      name: 'tick',
      external,
      attempts: 2,
      run: run(async (_input: object, { emit, emitted }) => {
        const { count, results } = await emitted()
        await emit({ at: new Date(0) })
        // A string, for the compiler too.
        return `${count} ${results.map(({ at }) => at.slice(0, 4)).join()}`
      }),
    })
    assert.equal(await tick.run({}, testContext(tick, FOR_TASK)), '0 ')
    assert.equal(await tick.run({}, testContext(tick, { ...FOR_TASK, attempt: 2 })), '1 1970')
  })
})
