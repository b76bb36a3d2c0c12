import type { TaskEngine } from '../../src/engine/engine.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import { isStoreUnavailable, StoreUnavailableError } from '../../src/stores/store.js'
import { pause } from '../wait.js'

/**
 * Fault of one call. `lost`: the call is made, and its response is lost. `failed`: the call is not
 * made. `late`: the call is made after some milliseconds. A promise: the call is made when it
 * resolves. `slow`: its response comes after some milliseconds.
 */
export type Fault = 'lost' | 'failed' | 'late' | 'slow' | Promise<void>

/** Names of the calls that can have a fault. */
export type FaultyCall =
  'create' | 'read' | 'readByKey' | 'change' | 'delete' | 'watch' | 'list' | 'counts' | 'now'

/**
 * Returns the fault of the next call; `undefined` if it has none. `of` is the id, key or pool that
 * the call names.
 */
export type NextFault = (call: FaultyCall, of: string) => Fault | undefined

/** Wraps an engine, so that calls have faults. */
export function withFaults(engine: TaskEngine, next: NextFault): TaskEngine {
  const call = async <T>(name: FaultyCall, of: string, make: () => MaybePromise<T>): Promise<T> => {
    const fault = next(name, of)
    if (fault === 'failed') throw new StoreUnavailableError('The call fails, on purpose.')
    if (fault === 'late') await pause(20)
    if (fault instanceof Promise) await fault
    const outcome = await make()
    if (fault === 'lost') throw new StoreUnavailableError('The response is lost, on purpose.')
    if (fault === 'slow') await pause(20)
    return outcome
  }
  return {
    shared: engine.shared,
    durable: engine.durable,
    hasTransactions: engine.hasTransactions,
    create: (task, options) => call('create', task.id, () => engine.create(task, options)),
    read: (id) => call('read', id, () => engine.read(id)),
    readByKey: (key) => call('readByKey', key, () => engine.readByKey(key)),
    change: (ref, expected, change) => (
      call('change', ref.id, () => engine.change(ref, expected, change))
    ),
    delete: (ref, version) => call('delete', ref.id, () => engine.delete(ref, version)),
    work: (options, handlers) => engine.work(options, handlers),
    watch: (id, listener) => call('watch', id, () => engine.watch(id, listener)),
    list: (query) => call('list', '', () => engine.list(query)),
    counts: (pool) => call('counts', pool, () => engine.counts(pool)),
    setPaused: (pool, isPaused) => engine.setPaused(pool, isPaused),
    pausedPools: () => engine.pausedPools(),
    now: () => call('now', '', () => engine.now()),
    close: (options) => engine.close(options),
  }
}

/** Makes a call until it gets a response, or until the process that makes it has died. */
export async function insist<T>(
  make: () => MaybePromise<T>, hasDied: () => boolean = () => false,
): Promise<T> {
  for (;;) {
    try {
      return await make()
    } catch (error) {
      if (!isStoreUnavailable(error) || hasDied()) throw error
      await pause(2)
    }
  }
}
