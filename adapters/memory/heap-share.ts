import { getHeapStatistics } from 'node:v8'

const MIB = 1024 * 1024

/** One part in `parts` of the heap limit of this process, in bytes; `maxMiB` at most. */
export function heapShare(parts: number, maxMiB: number): number {
  return Math.min(maxMiB * MIB, Math.floor(getHeapStatistics().heap_size_limit / parts))
}
