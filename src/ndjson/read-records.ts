import { LF } from '../runtime/text.js'
import { Turns } from '../runtime/timers.js'
import { LineReader, type LineReaderOptions, type RecordBatch } from './line-reader.js'

/** Number of bytes that are parsed at once. */
const BLOCK_BYTES = 65_536
/** A block with more bad lines than this may take thirty times as long as a good one. */
const MANY_FAILED = 256
/** Size of the block after one with many bad lines, so that the event loop is not blocked. */
const SMALL_BLOCK_BYTES = 8192

/**
 * Reads NDJSON from any source of bytes: a request body, a file stream, the body of a fetch
 * response. Yields a batch for each 64 KiB or less that contains a record or a bad line. Yields to
 * the event loop at least every 10 ms or so. Closes the source if the caller stops early. Rejects
 * with the error of the source.
 *
 * @example
 * import { createReadStream } from 'node:fs'
 * import { readRecords } from 'longhaul/ndjson'
 *
 * for await (const { records, errors } of readRecords(createReadStream('users.ndjson'))) {
 *   console.log(records.length, errors)
 * }
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function readRecords(
  source: AsyncIterable<Uint8Array>, options: LineReaderOptions = {},
): AsyncGenerator<RecordBatch, void, undefined> {
  return readBatches(source, new LineReader(options))
}

/** Settings of `readBatches`. */
export interface BatchSettings {
  /**
   * Yields an empty batch after this many bytes of blank lines, so that the caller can note how far
   * it is. Default: never.
   */
  readonly maxQuietBytes?: number
  /** Number of the last line that is read. Default: unlimited. */
  readonly maxLines?: number
}

/** A batch of `readBatches`. */
export interface ReadBatch extends RecordBatch {
  /** There are bytes after the line `maxLines`. This batch is the last one. */
  readonly isOver?: true
}

/** Reads NDJSON like `readRecords`, with a reader of the caller. */
export async function* readBatches(
  source: AsyncIterable<Uint8Array>, reader: LineReader,
  { maxQuietBytes = Infinity, maxLines = Infinity }: BatchSettings = {},
): AsyncGenerator<ReadBatch, void, undefined> {
  const turns = new Turns()
  let size = BLOCK_BYTES
  let quietBytes = 0
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength;) {
      const block = chunk.subarray(at, at + size)
      // A block has at most as many lines as bytes.
      if (reader.lineCount + block.byteLength > maxLines) {
        const end = endOfLines(block, maxLines - reader.lineCount)
        if (end < block.byteLength) {
          yield { ...reader.read(block.subarray(0, end)), isOver: true }
          return
        }
      }
      const batch = reader.read(block)
      at += size
      size = batch.failed > MANY_FAILED ? SMALL_BLOCK_BYTES : BLOCK_BYTES
      quietBytes += block.byteLength
      if (batch.records.length > 0 || batch.failed > 0 || quietBytes >= maxQuietBytes) {
        quietBytes = 0
        yield batch
      }
      if (turns.due) await turns.next()
    }
  }
  const rest = reader.end()
  if (rest.records.length > 0 || rest.failed > 0) yield rest
}

/** Returns the byte after the first `count` lines of a block, or its length if it has fewer. */
function endOfLines(block: Uint8Array, count: number): number {
  let end = 0
  for (let left = count; left > 0; left--) {
    const next = block.indexOf(LF, end)
    if (next === -1) return block.byteLength
    end = next + 1
  }
  return end
}
