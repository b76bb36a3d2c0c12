import { NDJSON_TYPE } from '../http/headers/ndjson-types.js'
import { LF } from '../runtime/text.js'
import type { UploadItem } from '../wire/report.js'
import { SourceLines, type RejectedFormat, type UploadSource } from './upload-source.js'

/** Size of the pieces of a file, in bytes. */
const PIECE_BYTES = 65_536

/** Returns the format in which the failed lines of an upload are written. */
export function rejectedFormat(source: UploadSource | undefined): RejectedFormat {
  if (source?.rejected) return source.rejected
  return {
    extension: 'ndjson', type: NDJSON_TYPE,
    write: (body, failed) => (
      inPieces(failedLines(source ? new SourceLines(source).of(body) : body, failed))
    ),
  }
}

/** Yields the failed lines of a body as they were sent. */
async function* failedLines(
  body: AsyncIterable<Uint8Array>, failed: AsyncIterable<UploadItem>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const items = failed[Symbol.asyncIterator]()
  const next = async (): Promise<number | undefined> => {
    const item = await items.next()
    return item.done === true ? undefined : item.value.line
  }
  let line = 1
  let wanted = await next()
  for await (const chunk of body) {
    for (let at = 0; at < chunk.byteLength && wanted !== undefined;) {
      const feed = chunk.indexOf(LF, at)
      const end = feed === -1 ? chunk.byteLength : feed + 1
      if (line === wanted) {
        yield chunk.subarray(at, end)
        if (feed !== -1) wanted = await next()
      }
      if (feed !== -1) line++
      at = end
    }
    if (wanted === undefined) return
  }
}

/** Gathers small pieces. */
export async function* inPieces(
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of source) {
    // A piece may be part of a buffer that is used again.
    pieces.push(Buffer.from(piece))
    size += piece.byteLength
    if (size < PIECE_BYTES) continue
    yield Buffer.concat(pieces)
    pieces = []
    size = 0
  }
  if (size > 0) yield Buffer.concat(pieces)
}
