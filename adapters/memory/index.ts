import { systemClock } from '../../src/runtime/timers.js'
import { readOptions, value, type OptionTable } from '../../src/runtime/options.js'
import { MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
import { MEMORY_TASK_ENGINE, MemoryTaskEngine, type MemoryTaskEngineOptions } from './engine.js'
import { MemoryStore, type MemoryStoreOptions } from './store.js'

export { MemoryBlobs } from './blobs.js'
export type { MemoryTaskEngine } from './engine.js'
export type { MemoryStore } from './store.js'
export type { Clock } from '../../src/runtime/timers.js'

/**
 * Options of `memory`. `maxEntriesPerOwner` and `maxBytesPerOwner` limit the finished tasks of one owner, and
 * separately its stored responses and finished uploads.
 */
export interface MemoryOptions extends MemoryTaskEngineOptions {
  /**
   * Options of the store.
   *
   * It uses the clock of the engine. Options that are set here take precedence.
   */
  readonly store?: Omit<MemoryStoreOptions, 'now'>
  /**
   * Options of the blobs.
   *
   * They use the clock of the engine.
   */
  readonly blobs?: Omit<MemoryBlobsOptions, 'now'>
}

const MEMORY = {
  ...MEMORY_TASK_ENGINE, store: value(), blobs: value(),
} satisfies OptionTable<MemoryOptions>

/** Result of `memory`. */
export interface Memory {
  readonly engine: MemoryTaskEngine
  readonly store: MemoryStore
  readonly blobs: MemoryBlobs
}

/**
 * Creates a task engine, a store and blobs in the memory of this process.
 *
 * @example
 * const tasks = createTasks({ ...memory(), definitions: [report] })
 *
 * @throws {TypeError} An option is unknown or out of range.
 */
export function memory(options: MemoryOptions = {}): Memory {
  readOptions('memory', options, MEMORY)
  const { blobs = {}, store = {}, ...engine } = options
  const { clock = systemClock, maxEntriesPerOwner, maxBytesPerOwner } = options
  const now = (): number => clock.now()
  return {
    engine: new MemoryTaskEngine(engine),
    store: new MemoryStore({
      ...maxEntriesPerOwner !== undefined && { maxEntriesPerOwner },
      ...maxBytesPerOwner !== undefined && { maxBytesPerOwner },
      ...store, now,
    }),
    blobs: new MemoryBlobs({ ...blobs, now }),
  }
}
