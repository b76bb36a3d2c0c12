const MIB = 1024 * 1024
/** The memory of a Worker, which does not tell its heap limit. */
const UNKNOWN_HEAP = 128 * MIB

/**
 * `value` when it is a whole number in the range; else a TypeError that names the option and says
 * what would do.
 */
export function wholeNumber(option: string, value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw new TypeError(`${option} must be a whole number from ${min} to ${max}, not ${String(value)}`)
}

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
