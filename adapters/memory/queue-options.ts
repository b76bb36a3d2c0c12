import type { Clock } from '../../src/runtime/clock.js'

/** Options of `MemoryQueue`. */
export interface MemoryQueueOptions {
  /**
   * Maximum number of jobs that wait for their turn, their delay or their next attempt. Running
   * jobs (`concurrency`) come in addition. An accepted job keeps its place until it ends, so a
   * retry is never refused. 0 to 1,000,000. Default 1000.
   */
  readonly maxQueued?: number
  /**
   * Maximum size of all jobs as JSON text, in bytes. Small jobs that start at once do not count. A
   * single larger job is accepted if there is no other. An accepted job keeps its place until it
   * ends. Default: an eighth of the heap limit, at most 128 MiB.
   */
  readonly maxQueuedBytes?: number
  /**
   * Time and timers of delays and back-off. Tests pass `testClock()` of `longhaul/testing`.
   * Default: the monotonic clock of the process.
   */
  readonly clock?: Clock
}

/** Names of the options. */
export const MEMORY_QUEUE = {
  maxQueued: 0, maxQueuedBytes: 0, clock: 0,
} satisfies Record<keyof MemoryQueueOptions, 0>
