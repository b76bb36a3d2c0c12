import { heapShare, SharedLimit } from '../../runtime/shared-limit.js'
import { type Json, heapBytesOf } from '../../runtime/json.js'

/** Heap that the parsed inputs of all runs of this process may take, in bytes. */
const RUNNING = new SharedLimit(heapShare(4, Infinity), Infinity)
/** Smaller inputs are not counted: the number of places limits them enough. In bytes of heap. */
const COUNTED_BYTES = 1_048_576

/** Memory for the input of one run. */
export interface InputMemory {
  readonly release: () => void
}

const UNCOUNTED: InputMemory = { release: () => undefined }

/** Acquires the memory for a parsed input. Returns `undefined` if other runs use it. */
export function holdValue(input: unknown): InputMemory | undefined {
  return hold(heapBytesOf(input))
}

/** Acquires the memory for the input of a queued task. Returns `undefined` if other runs use it. */
export function holdInput(input: Json): InputMemory | undefined {
  return hold(input.parsedBytes)
}

function hold(heapBytes: number): InputMemory | undefined {
  if (heapBytes <= COUNTED_BYTES) return UNCOUNTED
  // The schema may make a copy.
  const memory = RUNNING.open('all')
  return memory.tryAcquire(2 * heapBytes) === undefined ? memory : undefined
}
