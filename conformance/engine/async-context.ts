import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Cases } from '../runner.js'
import { together } from '../wait.js'
import type { Begun, EngineContext } from './context.js'

const TASKS = 12

/** Tests of the async context (`AsyncLocalStorage`) of handlers. */
export const asyncContextCases: Cases<EngineContext> = {
  'every handler is called in the async context of work, whatever call made it due': async (context) => {
    const place = new AsyncLocalStorage<string>()
    const foreign = new Set<string>()
    const note = (what: string): void => {
      const seen = place.getStore()
      if (seen !== 'work') foreign.add(`${what} in that of ${String(seen)}`)
    }
    const worker = place.run('work', () => context.work({
      places: { default: 2 },
      run: async (_run, begun) => {
        note('a run')
        await place.run('run', () => begun.change({ status: 'completed', callbackMs: 0 }))
      },
      callback: async (task) => {
        note('a callback')
        await place.run('callback', () => (
          context.engine.change(task, { callbackRun: task.callbackRun }, { callbackMs: null })
        ))
      },
      remove: async () => {
        note('a removal')
        return true
      },
    }))
    await together(TASKS, (n) => place.run('create', () => context.created({ id: `task-${String(n)}`, hasFiles: true })))
    await context.eventually(async () => (
      worker.callbacks.length === TASKS
        && (await context.listed()).every(({ callbackAt }) => callbackAt === undefined)
    ), 'all callbacks are sent')
    const tasks = await context.listed()
    await together(TASKS, (n) => place.run('delete', async () => {
      const task = tasks[n]
      assert.ok(task, 'a task is absent')
      await context.engine.delete(task, task.version)
    }))
    await context.eventually(() => worker.removed.length >= TASKS, 'the files of all tasks are removed')
    assert.deepEqual([...foreign], [])
  },

  'a context that a handler enters ends with its call': async (context) => {
    const place = new AsyncLocalStorage<string>()
    const seen = new Set<string | undefined>()
    const worker = context.work({
      places: { default: 3 },
      // Before anything asynchronous, as application code enters the context of a tenant.
      run: ({ task }: Begun['run'], begun) => {
        seen.add(place.getStore())
        place.enterWith(task.id)
        return begun.change({ status: 'completed' }).then(() => undefined)
      },
    })
    await together(TASKS, (n) => context.created({ id: `task-${String(n)}` }))
    await context.eventually(() => worker.begun.length === TASKS, 'all tasks run')
    assert.deepEqual([...seen], [undefined])
  },
}
