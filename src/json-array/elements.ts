import { Turns } from '../runtime/turns.js'
import { ArrayReader } from './array-reader.js'
import type { ElementBatch, ElementOptions } from './element-batch.js'

/**
 * Reads a JSON array as it arrives, in bounded memory: the body itself, or one `member` of an
 * object. Yields the elements in their order, those of some 64 KiB at a time, and lets the event
 * loop go round at least every 10 ms or so. The same bytes give the same elements and the same
 * fault however they are cut into chunks. What is not read on is closed.
 *
 * It accepts what `JSON.parse` accepts, less keys such as `__proto__`, and what its own bounds
 * forbid. Of a key that an element has twice the last one counts. A fault is thrown once all
 * elements before it were yielded: it is an `HttpError` with a pointer to the element and the
 * member `position` (`ElementPosition`).
 *
 * Rejects with `malformed_json`, `missing_body`, `unsafe_key`, `invalid_input` (400: not an array;
 * the member is missing or stands there twice), `body_too_large` (413), and as the source does.
 *
 * @throws {TypeError} when an option makes no sense
 */
export function readElements(source: AsyncIterable<Uint8Array>, options: ElementOptions = {}): AsyncGenerator<ElementBatch, void, undefined> {
  return batches(source, new ArrayReader(options), options.batchBytes ?? 65_536)
}

async function* batches(source: AsyncIterable<Uint8Array>, reader: ArrayReader, size: number): AsyncGenerator<ElementBatch, void, undefined> {
  const turns = new Turns()
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength; at += size) {
      const batch = reader.read(chunk.byteLength <= size ? chunk : chunk.subarray(at, at + size))
      if (batch !== undefined) yield batch
      if (reader.fault !== undefined) throw reader.fault
      if (turns.due) await turns.next()
    }
  }
  const rest = reader.end()
  if (rest !== undefined) yield rest
  if (reader.fault !== undefined) throw reader.fault
}
