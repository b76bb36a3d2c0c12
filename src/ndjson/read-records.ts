import { LineReader, type LineReaderOptions, type RecordBatch } from './lines.js'
import { Turns } from '../runtime/turns.js'

/** So much is parsed in one go. */
const BLOCK_BYTES = 65_536
/**
 * A block with many bad lines may have cost thirty times as much as a good one: the next ones are
 * smaller.
 */
const MANY_FAILED = 256
const SMALL_BLOCK_BYTES = 8192

/**
 * Reads NDJSON from anything that gives bytes: a request body, a file stream, a fetch response's
 * body. Yields a batch for each 64 KiB or less that held a record or a bad line, and lets the event
 * loop go round at least every 10 ms or so while there is much to read. What is not read on is
 * closed. Rejects as the source does.
 *
 * ```ts
 * for await (const { records, errors } of readRecords(createReadStream('users.ndjson'))) await save(records)
 * ```
 *
 * @throws {TypeError} when an option makes no sense
 */
export function readRecords(source: AsyncIterable<Uint8Array>, options: LineReaderOptions = {}): AsyncGenerator<RecordBatch, void, undefined> {
  return batches(source, new LineReader(options))
}

/** The same with a reader that the caller can ask. */
export async function* batches(source: AsyncIterable<Uint8Array>, reader: LineReader): AsyncGenerator<RecordBatch, void, undefined> {
  const turns = new Turns()
  let size = BLOCK_BYTES
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength;) {
      const batch = reader.read(chunk.subarray(at, at + size))
      at += size
      size = batch.failed > MANY_FAILED ? SMALL_BLOCK_BYTES : BLOCK_BYTES
      if (batch.records.length > 0 || batch.failed > 0) yield batch
      if (turns.due) await turns.next()
    }
  }
  const rest = reader.end()
  if (rest.records.length > 0 || rest.failed > 0) yield rest
}
