import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { httpError } from '../../../../src/http/errors.js'
import { decode, encode } from '../../../../src/tasks/record/codec.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { serviceOf } from '../../../../src/tasks/service-of.js'
import { allTasks } from '../../../../src/tasks/record/owner.js'
import { defineTask, type TaskContext } from '../../../../src/tasks/definition/define.js'
import { memory } from '../../../../adapters/memory/index.js'
import { bench, Spy, spyQueue, SpyStore } from '../kit.js'

interface Input { name: string }

/** A kind of work that keeps something, and what was taken away of it. */
function kept(run: (input: Input, context: TaskContext) => unknown, attempts = 1) {
  const released: string[] = []
  const definition = defineTask({
    name: 'kept', run, attempts, backoff: { type: 'fixed', delayMs: 0 },
    keeps: { of: ({ name }) => `file of ${name}`, release: (name) => released.push(name) },
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
    await tasks.wait(id, { timeoutMs: 5000 })
    await close()
    assert.deepEqual([early, released], [[[]], ['file of a']])
  })

  test('are kept by a failed task, which a retry may need, until it is deleted', async () => {
    const { definition, released } = kept(() => { throw httpError('gone') })
    const { tasks, close } = bench({ definitions: [definition] })
    const { taskId: id } = await tasks.submit(definition, { name: 'a' })
    await tasks.wait(id, { timeoutMs: 5000 })
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
    await tasks.wait(id, { timeoutMs: 5000 })
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
    await serviceOf(tasks).wait(running.taskId, { timeoutMs: 5000, until: ({ version }) => version > 1 }, allTasks)
    await tasks.cancel(waiting.taskId)
    await tasks.cancel(running.taskId)
    assert.deepEqual(released, [])
    await tasks.delete(waiting.taskId)
    await tasks.delete(running.taskId)
    await close()
    assert.deepEqual(released, ['file of waits', 'file of runs'])
  })

  test('are released if the task never runs: the queue was full, or closed', async () => {
    const { definition, released } = kept(() => new Promise(() => undefined))
    const { tasks, close } = bench({ definitions: [definition], concurrency: 1, maxQueued: 1 })
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
    spy.fault = (call) => call.startsWith('enqueue') || call.startsWith('delete') ? 'before' : undefined
    await assert.rejects(tasks.submit(definition, { name: 'a' }), { code: 'service_unavailable' })
    assert.deepEqual(released, [])
    await close()
  })

  test('are released by another process if the process of the end died', async () => {
    for (const durable of [true, false]) {
      let told = false
      const { definition, released } = kept((_, { signal }) => new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          told = true
          reject(signal.reason as Error)
        })
      }))
      const { store, queue, index } = memory()
      // Work that dies with its process has no job to find the record: the sweep does.
      const swept = durable ? {} : { index, sweepMs: 50 }
      const tasks = createTasks({ definitions: [definition], store: new SpyStore(store, new Spy(), true), queue: { ...spyQueue(queue, new Spy()), durable }, ...swept })
      const { taskId: id } = await tasks.submit(definition, { name: 'a' })
      await serviceOf(tasks).wait(id, { timeoutMs: 5000, until: ({ version }) => version > 1 }, allTasks)
      const entry = await store.get(`task:${id}`)
      assert.ok(entry)
      const record = decode(id, entry.value)
      await store.replace(`task:${id}`, encode({ ...record, state: 'completed', work: undefined }), entry.revision, {})
      const late = Date.now() + 10_000
      // The first run has to have heard of it, too: whoever ends a run sees to its record.
      while ((released.length === 0 || !told) && Date.now() < late) await new Promise((resolve) => setTimeout(resolve, 5))
      await tasks.close({ drainMs: 0 })
      await store.close()
      assert.deepEqual(released, ['file of a'])
    }
  })

  test('may fail to be released, which changes nothing', async () => {
    const definition = defineTask({ name: 'kept', run: (_: Input) => ({ message: 'done' }), keeps: { of: () => 'x', release: () => Promise.reject(new Error('no')) } })
    const { tasks, heard, close } = bench({ definitions: [definition] })
    const { taskId: id } = await tasks.submit(definition, { name: 'a' })
    const task = await tasks.wait(id, { timeoutMs: 5000 })
    await close()
    assert.deepEqual([task?.status, heard], ['completed', []])
  })

  test('are named in the record, beside optional members', () => {
    const plain = {
      id: 'a', name: 'n', owner: undefined, state: 'queued', job: 'j1', attempt: 0, version: 1, createdAt: 1000, startedAt: undefined, finishedAt: undefined,
      expiresAt: 2000, progress: undefined, result: undefined, error: undefined, errorStatus: undefined, claim: undefined, slot: undefined, callback: undefined,
    } as const
    const callback = { url: 'https://x.example/', state: 'waiting', attempts: 0 } as const
    for (const more of [{ keeps: 'k' }, { keeps: 'k', holder: 'h' }, { holder: 'h' }, { keeps: '"\n', callback }, { holder: 'h', callback }]) {
      const { keeps, holder, callback: told } = decode('a', encode({ ...plain, ...more }))
      assert.deepEqual({ keeps, holder, told }, {
        keeps: 'keeps' in more ? more.keeps : undefined, holder: 'holder' in more ? more.holder : undefined, told: 'callback' in more ? callback : undefined,
      })
    }
  })
})
