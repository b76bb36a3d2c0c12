const MIB = 1024 * 1024
/** Memory of a Worker in bytes, which does not report its heap limit. */
const UNKNOWN_HEAP = 128 * MIB

/**
 * Returns `value` if it is a whole number in the range.
 *
 * @throws {TypeError} The value is out of range. The message names the option and the range.
 */
export function wholeNumber(option: string, value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw new TypeError(
    `${option} must be a whole number from ${min} to ${max}, not ${String(value)}`,
  )
}

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
