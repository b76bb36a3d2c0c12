import type { TaskEngine } from '../../../src/engine/engine.js'
import type { Expected, TaskChange } from '../../../src/engine/task.js'
import type { MaybePromise } from '../../../src/runtime/maybe-promise.js'

/**
 * Wraps an engine. Calls `reach` with the name of a point before and after each call that writes,
 * and each time that the engine hands something out and gets it back.
 */
export function withPoints(engine: TaskEngine, reach: (point: string) => void): TaskEngine {
  const around = async <T>(name: string, call: () => MaybePromise<T>): Promise<T> => {
    reach(`before ${name}`)
    const outcome = await call()
    reach(`after ${name}`)
    return outcome
  }
  const handler = <A, R>(name: string, handle: (argument: A) => Promise<R>) => async (argument: A): Promise<R> => {
    reach(`begun ${name}`)
    const outcome = await handle(argument)
    reach(`ended ${name}`)
    return outcome
  }
  return {
    shared: engine.shared,
    durable: engine.durable,
    hasTransactions: engine.hasTransactions,
    create: (task, options) => around('create', () => engine.create(task, options)),
    read: (id) => engine.read(id),
    readByKey: (key) => engine.readByKey(key),
    change: (ref, expected, change) => (
      around(nameOf(expected, change), () => engine.change(ref, expected, change))
    ),
    delete: (ref, version) => around('delete', () => engine.delete(ref, version)),
    work: (options, handlers) => {
      engine.work(options, {
        run: handler('run', handlers.run),
        callback: handler('callback', handlers.callback),
        remove: handlers.remove,
        abandon: handlers.abandon,
      })
    },
    watch: (id, listener) => engine.watch(id, listener),
    list: (query) => engine.list(query),
    counts: (pool) => engine.counts(pool),
    setPaused: (pool, isPaused) => engine.setPaused(pool, isPaused),
    pausedPools: () => engine.pausedPools(),
    now: () => engine.now(),
    close: (options) => engine.close(options),
  }
}

function nameOf(expected: Expected, { status }: TaskChange): string {
  return 'callbackRun' in expected ? 'the outcome of the callback' : status ?? 'details'
}
