import type { BlobPutOptions, BlobRange } from './blobs.js'

const LONGEST_KEY = 512

/** The names of the options of `put`. */
export const BLOB_PUT = { ttlMs: 0, signal: 0 } satisfies Record<keyof BlobPutOptions, 0>
/** The names of the options of `open`. */
export const BLOB_RANGE = { start: 0, end: 0, etag: 0 } satisfies Record<keyof BlobRange, 0>

/** @throws {TypeError} for what `Blobs` calls misuse */
export function checkBlobKey(key: string): void {
  if (typeof key === 'string' && key.length > 0 && key.length <= LONGEST_KEY && key.isWellFormed() && !key.includes('\0')) return
  throw new TypeError('The key of a blob must be well-formed text of 1 to 512 characters without U+0000')
}

/** @throws {TypeError} for a lifetime that is not finite */
export function checkBlobLifetime(ttlMs: number): void {
  if (Number.isFinite(ttlMs)) return
  throw new TypeError(`ttlMs must be a number of milliseconds, not ${String(ttlMs)}`)
}

/**
 * The range of a blob of `size` bytes that is asked for.
 * @throws {TypeError} when it does not lie within the blob
 */
export function blobRange({ start = 0, end }: BlobRange, size: number): { readonly start: number, readonly end: number } {
  const stop = end ?? size
  if (Number.isInteger(start) && Number.isInteger(stop) && start >= 0 && start <= stop && stop <= size) return { start, end: stop }
  throw new TypeError(`A range of a blob of ${size} bytes must lie within it; ${String(start)} to ${String(stop)} does not`)
}

/**
 * Takes the chunks of `content` one by one, each once `write` is done with the one before. Rejects
 * at once when `signal` aborts, with its reason, even while `content` keeps it waiting. `content`
 * is closed however this ends.
 */
export async function takeContent(
  content: AsyncIterable<Uint8Array>, signal: AbortSignal | undefined, write: (chunk: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const iterator = content[Symbol.asyncIterator]()
  let stop: (reason: unknown) => void = ignore
  const aborted = (): void => { stop(signal?.reason) }
  // A race with one long-lived promise would keep something for each chunk.
  const next = (): Promise<IteratorResult<Uint8Array>> => new Promise((resolve, reject) => {
    stop = reject
    iterator.next().then(resolve, reject)
  })
  signal?.addEventListener('abort', aborted)
  let over = false
  try {
    for (;;) {
      signal?.throwIfAborted()
      const step = await (signal === undefined ? iterator.next() : next())
      if (step.done === true) {
        over = true
        return
      }
      if (!(step.value instanceof Uint8Array)) throw new TypeError(`The content of a blob comes as Uint8Array, not as ${typeof step.value}`)
      if (step.value.byteLength > 0) await write(step.value)
    }
  } finally {
    signal?.removeEventListener('abort', aborted)
    if (!over) close(iterator)
  }
}

/** Not awaited: a generator that waits for its own source ends only when that answers. */
function close(iterator: AsyncIterator<Uint8Array>): void {
  try {
    iterator.return?.()?.then(ignore, ignore)
  } catch {
    // It failed at stopping; nobody reads it any more.
  }
}

function ignore(): void {}
