import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { httpError } from '../../../../src/http/errors.js'
import { createTasks, coreOf } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import type { TaskContext } from '../../../../src/tasks/definition/run-context.js'
import { memory } from '../../../../adapters/memory/index.js'
import { testClock } from '../../../../src/testing/index.js'
import { bench } from '../../kit/tasks.js'
import { eventually } from '../../../kit/wait.js'

interface Input { name: string }

/** A kind of work that keeps something, and what was taken away of it. */
function kept(run: (input: Input, context: TaskContext) => unknown, attempts = 1) {
  const released: string[] = []
  const definition = defineTask({
    name: 'kept', run, attempts, backoff: { type: 'fixed', delayMs: 0 },
    external: { of: ({ name }) => `file of ${name}`, release: (name) => released.push(name) },
  })
  return { definition, released }
}

describe('external resources of a task', () => {
  test('are released when the task is completed, and not before', async () => {
    const early: string[][] = []
    const { definition, released } = kept(() => {
      early.push([...released])
      return { message: 'done' }
    })
    const { tasks, close } = bench({ definitions: [definition] })
    const { taskId: id } = await tasks.submit(definition, { name: 'a' })
    await tasks.wait(id, { timeoutMs: 60_000 })
    await close()
    assert.deepEqual([early, released], [[[]], ['file of a']])
  })

  test('are kept by a failed task, which a retry may need, until it is deleted', async () => {
    const { definition, released } = kept(() => { throw httpError('gone') })
    const { tasks, close } = bench({ definitions: [definition] })
    const { taskId: id } = await tasks.submit(definition, { name: 'a' })
    await tasks.wait(id, { timeoutMs: 60_000 })
    assert.deepEqual(released, [])
    assert.equal(await tasks.delete(id), true)
    assert.deepEqual(released, ['file of a'])
    assert.equal(await tasks.delete(id), false)
    await close()
    assert.deepEqual(released, ['file of a'])
  })

  test('are kept between two attempts', async () => {
    const seen: number[] = []
    const { definition, released } = kept((_, { attempt }) => {
      seen.push(released.length)
      if (attempt < 3) throw new Error('not yet')
      return {}
    }, 3)
    const { tasks, close } = bench({ definitions: [definition] })
    const { taskId: id } = await tasks.submit(definition, { name: 'a' })
    await tasks.wait(id, { timeoutMs: 60_000 })
    await close()
    assert.deepEqual([seen, released], [[0, 0, 0], ['file of a']])
  })

  test('are kept by a cancelled task, before it runs or during the run, until it is deleted', async () => {
    const { definition, released } = kept((_, { signal }) => new Promise((_, reject) => {
      signal.addEventListener('abort', () => { reject(signal.reason as Error) })
    }))
    const { tasks, close } = bench({ definitions: [definition], concurrency: 1 })
    const running = await tasks.submit(definition, { name: 'runs' })
    const waiting = await tasks.submit(definition, { name: 'waits' })
    await eventually(async () => ((await coreOf(tasks).read(running.taskId))?.version ?? 0) > 1)
    await tasks.cancel(waiting.taskId)
    await tasks.cancel(running.taskId)
    assert.deepEqual(released, [])
    await tasks.delete(waiting.taskId)
    await tasks.delete(running.taskId)
    await close()
    assert.deepEqual(released, ['file of waits', 'file of runs'])
  })

  test('are released if the task is not created, because the engine was full', async () => {
    const { definition, released } = kept(() => new Promise(() => undefined))
    const { tasks, close } = bench({ definitions: [definition], concurrency: 1, maxUnfinished: 2 })
    await tasks.submit(definition, { name: 'runs' })
    await tasks.submit(definition, { name: 'waits' })
    await assert.rejects(tasks.submit(definition, { name: 'refused' }), { code: 'queue_full' })
    assert.deepEqual(released, ['file of refused'])
    await close()
    assert.deepEqual(released, ['file of refused'], 'the others can be retried')
  })

  test('are kept if it is unknown whether the task was accepted', async () => {
    const { definition, released } = kept(() => ({}))
    const { tasks, spy, close } = bench({ definitions: [definition], worker: false })
    spy.fault = (call) => call.startsWith('create') ? 'after' : undefined
    await assert.rejects(tasks.submit(definition, { name: 'a' }), { name: 'StoreUnavailableError' })
    assert.deepEqual(released, [])
    await close()
  })

  test('are released if the response to the write of the end was lost', async () => {
    const { definition, released } = kept(() => ({ message: 'done' }))
    const { tasks, spy, close } = bench({ definitions: [definition] })
    let written = 0
    spy.fault = (call) => call.startsWith('change') && ++written === 1 ? 'after' : undefined
    const { taskId: id } = await tasks.submit(definition, { name: 'a' })
    const task = await tasks.wait(id, { timeoutMs: 60_000 })
    await close()
    assert.deepEqual([task?.status, written, released], ['completed', 2, ['file of a']])
  })

  test('are released when the task has expired', async (t) => {
    const clock = testClock()
    const { definition, released } = kept(() => { throw httpError('gone') })
    const tasks = createTasks({
      ...memory({ clock }),
      definitions: [definition],
      retentionMs: 5000,
      onError: () => undefined,
    })
    t.after(() => tasks.close({ drainMs: 0 }))
    const { taskId: id } = await tasks.submit(definition, { name: 'a' })
    await tasks.wait(id, { timeoutMs: 60_000 })
    assert.deepEqual(released, [])
    await clock.advance(6000)
    assert.equal(await tasks.get(id), undefined)
    assert.deepEqual(released, ['file of a'])
  })

  test('belong to the task that a retry finds after a lost response, and the retry keeps no others', async (t) => {
    const blobs = new Set<string>()
    const ran: string[] = []
    const work = defineTask({
      name: 'work', external: { of: ({ name }: Input) => name, release: (name) => blobs.delete(name) },
      run: ({ name }: Input) => {
        assert.ok(blobs.has(name), `${name} is gone`)
        ran.push(name)
      },
    })
    const { tasks, spy, close } = bench({ definitions: [work], worker: false })
    t.after(close)
    const upload = (name: string) => {
      blobs.add(name)
      return tasks.submit(work, { name }, { id: 'one' })
    }
    spy.fault = (call) => (call.startsWith('create') ? 'after' : undefined)
    await assert.rejects(upload('first'), { name: 'StoreUnavailableError' })
    assert.deepEqual([...blobs], ['first'])
    spy.fault = () => undefined
    assert.equal((await upload('second')).created, false, 'the retry finds the task')
    assert.deepEqual([...blobs], ['first'], 'its own upload is not needed')
    spy.fault = (call) => (call.startsWith('create') ? 'before' : undefined)
    await assert.rejects(tasks.submit(work, { name: 'first' }, { id: 'two' }))
    spy.fault = () => undefined
    assert.equal((await tasks.submit(work, { name: 'first' }, { id: 'two' })).created, true)
  })

  test('are released without an effect on the task if the release fails', async () => {
    const definition = defineTask({
      name: 'kept',
      run: (_: Input) => ({ message: 'done' }),
      external: { of: () => 'x', release: () => Promise.reject(new Error('no')) },
    })
    const { tasks, heard, close } = bench({ definitions: [definition] })
    const { taskId: id } = await tasks.submit(definition, { name: 'a' })
    const task = await tasks.wait(id, { timeoutMs: 60_000 })
    await close()
    assert.deepEqual([task?.status, heard], ['completed', []])
  })
})

describe('several external resources of a task', () => {
  interface Files { files: string[] }

  /** A kind of work with the files of its input. `there` has those that exist. */
  function work(run: (input: Files, context: TaskContext) => unknown, there = new Set(['a', 'b', 'c', 'd'])) {
    const calls: string[] = []
    const definition = defineTask({
      name: 'merge', run,
      external: {
        of: ({ files }) => files,
        release: (name) => {
          calls.push(`release ${name}`)
          if (name === 'a') throw new Error('the disk is gone')
          there.delete(name)
        },
        renew: (name) => {
          calls.push(`renew ${name}`)
          return there.has(name)
        },
        remove: (name) => { calls.push(`remove ${name}`) },
        bytes: () => 100,
      },
    })
    return { definition, there, calls }
  }

  test('are released when the task is completed, each once, even if one release fails', async () => {
    const { definition, calls } = work((_, { external }) => ({ external }))
    const { tasks, close } = bench({ definitions: [definition] })
    const { taskId } = await tasks.submit(definition, { files: ['a', 'b', 'a', 'c'] })
    const task = await tasks.wait(taskId, { timeoutMs: 60_000 })
    await close()
    assert.deepEqual(task?.result, { external: 'a' }, 'the context has the first name')
    assert.deepEqual(calls, ['release a', 'release b', 'release c'])
  })

  test('are renewed and kept by a failed task, and removed with it', async () => {
    const { definition, there, calls } = work(() => { throw httpError('gone') })
    const { tasks, close } = bench({ definitions: [definition] })
    const { taskId } = await tasks.submit(definition, { files: ['a', 'b'] })
    await tasks.wait(taskId, { timeoutMs: 60_000 })
    assert.deepEqual(calls.splice(0), ['renew a', 'renew b'])
    await tasks.retry(taskId)
    await tasks.wait(taskId, { timeoutMs: 60_000 })
    assert.deepEqual(calls.splice(0), ['renew a', 'renew b', 'renew a', 'renew b'])
    there.delete('b')
    await assert.rejects(async () => tasks.retry(taskId), { code: 'gone' })
    calls.splice(0)
    await tasks.delete(taskId)
    await close()
    assert.deepEqual(calls, ['remove a', 'remove b'])
  })

  test('may be none, and then nothing is called', async () => {
    const { definition, calls } = work(() => ({ message: 'done' }))
    const { tasks, close } = bench({ definitions: [definition] })
    const { taskId } = await tasks.submit(definition, { files: [] })
    await tasks.wait(taskId, { timeoutMs: 60_000 })
    await tasks.delete(taskId)
    await close()
    assert.deepEqual(calls, [])
  })

  test('are released for a repeated submission, except those that the existing task has', async () => {
    const { definition, calls } = work(() => ({}))
    const { tasks, close } = bench({ definitions: [definition], worker: false })
    await tasks.submit(definition, { files: ['a', 'b'] }, { id: 'one' })
    await tasks.submit(definition, { files: ['b', 'c', 'd'] }, { id: 'one' })
    assert.deepEqual(calls, ['release c', 'release d'])
    await close()
  })

  test('get a TypeError if they are too many, too long together, or not named by strings', async () => {
    const { definition } = work(() => ({}))
    const { tasks, close } = bench({ definitions: [definition], worker: false })
    const many = Array.from({ length: 101 }, (_, n) => `file ${n}`)
    const long = Array.from({ length: 9 }, (_, n) => String(n).repeat(1000))
    for (const files of [many, long, [''], [1 as never], { length: 1 } as never]) {
      await assert.rejects(async () => tasks.submit(definition, { files }), /external\.of must return/)
    }
    await tasks.submit(definition, { files: [...many.slice(1), ...many.slice(1)] })
    await close()
  })
})
