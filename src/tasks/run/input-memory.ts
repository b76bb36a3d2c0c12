import { heapShare } from '../../runtime/heap-share.js'
import { SharedLimit } from '../../runtime/shared-limit.js'
import type { Attempt, Job } from '../../queues/queue.js'
import { heapBytesOf } from '../../runtime/json-size.js'

/** Heap that the parsed inputs of all runs of this process may take, in bytes. */
const RUNNING = new SharedLimit(heapShare(4, Infinity), Infinity)
/** Inputs up to this size are not counted: `concurrency` limits them enough. */
const COUNTED_BYTES = 1_048_576

/** Returns the bytes of heap that count for an input; 0 if it is small. */
export function countedBytes(heapBytes = 0): number {
  // The schema may make a copy.
  return heapBytes > COUNTED_BYTES ? 2 * heapBytes : 0
}

/** Acquires the memory for an input that is parsed already. Returns `undefined` if others use it. */
export function tryHoldInput(input: unknown): { readonly release: () => void } | undefined {
  const bytes = countedBytes(heapBytesOf(input))
  if (bytes === 0) return { release: () => undefined }
  const memory = RUNNING.open('all')
  return memory.tryAcquire(bytes) === undefined ? memory : undefined
}

/**
 * Runs a job once there is memory for its input, which is parsed on first access. Rejects with the
 * reason of the signal if that aborts first.
 */
export async function holdingInput(
  { inputHeapBytes }: Job, attempt: Attempt, run: () => Promise<void>,
): Promise<void> {
  const bytes = countedBytes(inputHeapBytes)
  if (bytes === 0) return run()
  const memory = RUNNING.open('all')
  if (!await memory.acquire(bytes, attempt)) throw attempt.signal.reason
  try {
    await run()
  } finally {
    memory.release()
  }
}
