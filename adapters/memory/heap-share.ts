const MIB = 1024 * 1024
/** The memory of a Worker, which does not tell its heap limit. */
const UNKNOWN_HEAP = 128 * MIB

/**
 * Bytes that one part of memory may take: 1 of `parts` of the heap that this process may have, and
 * at most `maxMiB`.
 */
export function heapShare(parts: number, maxMiB: number): number {
  return Math.min(maxMiB * MIB, Math.floor(heapLimit() / parts))
}

/**
 * The heap that this process may have, in bytes. Not imported, because not every runtime has
 * `node:v8`.
 */
function heapLimit(): number {
  const limit = globalThis.process.getBuiltinModule('node:v8')?.getHeapStatistics().heap_size_limit
  return limit || UNKNOWN_HEAP
}
