import type { MaybePromise } from '../../../src/runtime/maybe-promise.js'
import type { TaskEngine } from '../../../src/engine/engine.js'
import { withFaults } from '../../../conformance/engine/faults.js'
import { StoreUnavailableError, type Store, type WriteOptions } from '../../../src/stores/store.js'
import { createTasks, type Tasks } from '../../../src/tasks/tasks.js'
import type { TasksOptions } from '../../../src/tasks/core/tasks-options.js'
import { within } from '../../kit/wait.js'
import { memory, type MemoryStore, type MemoryTaskEngine } from '../../../adapters/memory/index.js'

/**
 * What a call to the store or the engine does instead of, or after, its work. A promise: a call to
 * the engine is made when it resolves.
 */
export type Fault = 'before' | 'after' | Promise<void> | undefined

/** Every call as `verb key`, and a hook that makes the n-th fail before or after its work. */
export class Spy {
  readonly calls: string[] = []
  fault: (call: string, n: number) => Fault = () => undefined

  async around<T>(call: string, work: () => MaybePromise<T>): Promise<T> {
    const fault = this.note(call)
    if (fault === 'before') throw new StoreUnavailableError(`${call} did not happen`)
    const value = await work()
    if (fault === 'after') throw new StoreUnavailableError(`${call} happened, but nobody knows`)
    return value
  }

  /** Notes a call. Returns its fault. */
  note(call: string): Fault {
    return this.fault(call, this.calls.push(call))
  }

  /** The calls that write. */
  get writes(): string[] {
    return this.calls.filter((call) => !/^(get|read|watch|list|counts|now|close)/.test(call))
  }
}

/** A store that tells what is asked of it; `shared` makes the tasks believe in other processes. */
export class SpyStore implements Store {
  constructor(
    private readonly inner: Store,
    readonly spy: Spy,
    readonly shared = false,
  ) {}
  get(key: string) {
    return this.spy.around(`get ${key}`, () => this.inner.get(key))
  }
  create(key: string, value: string, options: WriteOptions) {
    return this.spy.around(`create ${key}`, () => this.inner.create(key, value, options))
  }
  replace(key: string, value: string, revision: string, options: WriteOptions) {
    return this.spy.around(`replace ${key}`, () => this.inner.replace(key, value, revision, options))
  }

  delete(key: string, revision?: string) {
    return this.spy.around(`delete ${key}`, () => this.inner.delete(key, revision))
  }
  increment(key: string, by: number, options: { ttlMs: number }) {
    return this.spy.around(`increment ${key}`, () => this.inner.increment(key, by, options))
  }
  watch(key: string, listener: () => void) {
    return this.spy.around(`watch ${key}`, () => this.inner.watch(key, listener))
  }
  close() {
    return this.inner.close()
  }
}

/** An engine whose calls go through a spy. */
export function spyEngine(inner: TaskEngine, spy: Spy): TaskEngine {
  return withFaults(inner, (call, of) => {
    const fault = spy.note(`${call} ${of}`)
    return fault === 'before' ? 'failed' : fault === 'after' ? 'lost' : fault
  })
}

export interface Bench {
  readonly tasks: Tasks
  readonly spy: Spy
  readonly store: MemoryStore
  readonly engine: MemoryTaskEngine
  /** What `onError` heard. */
  readonly heard: unknown[]
  readonly close: () => Promise<void>
}

/** Tasks over memory with spies between. */
export function bench(
  options: Omit<TasksOptions, 'store' | 'engine'> & { readonly maxUnfinished?: number },
): Bench {
  const { maxUnfinished = 10_000, ...rest } = options
  const { store, engine } = memory({ maxUnfinished })
  const spy = new Spy()
  const heard: unknown[] = []
  const tasks = createTasks({
    store: new SpyStore(store, spy), engine: spyEngine(engine, spy),
    onError: (error) => { heard.push(error) }, ...rest,
  })
  const close = async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  }
  return { tasks, spy, store, engine, heard, close }
}

/** The task once it is final. */
export async function ended(tasks: Tasks, id: string) {
  await within(tasks.wait(id, { timeoutMs: 60_000 }), 90_000)
  const view = await tasks.get(id)
  if (!view || view.finishedAt === undefined) throw new Error(`Task ${id} has not ended: ${JSON.stringify(view)}`)
  return view
}
