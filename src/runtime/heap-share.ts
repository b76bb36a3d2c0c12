const MIB = 1024 * 1024
/** Memory of a Worker in bytes, which does not report its heap limit. */
const UNKNOWN_HEAP = 128 * MIB

/** Returns one of `parts` equal shares of the heap limit in bytes, at most `maxMiB`. */
export function heapShare(parts: number, maxMiB: number): number {
  return Math.min(maxMiB * MIB, Math.floor(heapLimit() / parts))
}

/**
 * Returns the heap limit of this process in bytes. Does not import `node:v8`, which some runtimes
 * do not have.
 */
function heapLimit(): number {
  const limit = globalThis.process.getBuiltinModule('node:v8')?.getHeapStatistics().heap_size_limit
  return limit || UNKNOWN_HEAP
}
