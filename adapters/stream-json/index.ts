import { pipeline, Readable, type Duplex } from 'node:stream'
import { httpError } from '../../src/http/errors.js'
import type { UploadSource } from '../../src/ndjson/upload-source.js'
import { bytes, func, readOptions, value, type OptionTable } from '../../src/runtime/options.js'

/** Options of `streamJson`. */
interface StreamJsonOptions {
  /** Media types of the bodies. Other bodies get a 415. Default: `['application/json']`. */
  readonly mediaTypes?: readonly string[]
  /**
   * Returns the record of an item that the pipeline emits. Default: the `value` of the item. With
   * `streamObject`, `({ key, value }) => ({ ...value, id: key })` keeps the key.
   *
   * An error that it throws ends the upload: an `HttpError` as it is, any other one as a masked
   * 500.
   */
  readonly record?: (item: { readonly key: string | number, readonly value: never }) => unknown
  /**
   * Maximum number of bytes of the body from one record to the next. A body with more gets a 413.
   * Default: 16_777_216 (16 MiB).
   *
   * So it is also the size of a record in memory. Bytes that the pipeline skips count.
   */
  readonly maxRecordBytes?: number
}

const OPTIONS = {
  mediaTypes: value<readonly string[]>('a list of media types', Array.isArray),
  record: func(),
  maxRecordBytes: bytes({ min: 1, default: 16_777_216 }),
} satisfies OptionTable<StreamJsonOptions>

/**
 * Makes a pipeline of the package stream-json a source of records for `ndjsonUpload`. So an upload
 * can be a JSON document of any shape: an array below a member, an object whose values are records,
 * or several documents one after the other. It is slower than NDJSON. The body must be UTF-8. A
 * record with an integer beyond 2^53 - 1, a number out of range or half of a surrogate pair is
 * rejected as `inexact_value`. Digits that a fraction loses in the parser cannot be seen.
 *
 * A task that continues reads the body from its start, and writes from the record after the last
 * position on.
 * @param open - returns the streams of a new pipeline, in their order: the first takes bytes, the
 * last emits `{ key, value }`
 * @example
 * import { ndjsonUpload } from 'longhaul/ndjson'
 * import { streamJson } from 'longhaul/stream-json'
 * import parser from 'stream-json/parser.js'
 * import { pick } from 'stream-json/filters/pick.js'
 * import { streamArray } from 'stream-json/streamers/stream-array.js'
 *
 * // { "meta": …, "data": { "users": [ … ] } }
 * export const upload = ndjsonUpload({
 *   source: streamJson(() => [
 *     parser.asStream(), pick.asStream({ filter: 'data.users' }), streamArray.asStream(),
 *   ]),
 *   write: async (users) => { console.log(`${users.length} users`) },
 * })
 * @throws {TypeError} `open` is no function, or an option is unknown.
 */
export function streamJson(
  open: () => readonly Duplex[], options: StreamJsonOptions = {},
): UploadSource {
  if (typeof open !== 'function') {
    throw new TypeError('streamJson: pass a function that returns a new pipeline, such as () => [parser.asStream(), streamArray.asStream()]')
  }
  const { mediaTypes = ['application/json'], record = valueOf, maxRecordBytes } = readOptions('streamJson', options, OPTIONS)
  return { mediaTypes, read: (body) => recordsOf(body, open(), record, maxRecordBytes) }
}

const valueOf = ({ value: record }: { readonly value: unknown }): unknown => record

async function* recordsOf(
  body: AsyncIterable<Uint8Array>, stages: readonly Duplex[],
  record: NonNullable<StreamJsonOptions['record']>, maxRecordBytes: number,
): AsyncGenerator<unknown, void, undefined> {
  let unread = 0
  let failure: unknown
  const decoder = new TextDecoder('utf-8', { fatal: true })
  // The parser would replace bytes that are not UTF-8 without a word.
  const checkUtf8 = (piece: Uint8Array | undefined, stream: boolean): void => {
    try {
      decoder.decode(piece, { stream })
    } catch {
      throw httpError('malformed_json', { message: 'The body is not valid JSON: it is not UTF-8.' })
    }
  }
  async function* counted(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for await (const piece of body) {
        unread += piece.byteLength
        checkUtf8(piece, true)
        if (unread > maxRecordBytes) {
          throw httpError('body_too_large', {
            message: `There are more than ${maxRecordBytes} bytes from one record to the next.`,
          })
        }
        yield piece
      }
      checkUtf8(undefined, false)
    } catch (error) {
      failure = error
      throw error
    }
  }
  const last = stages.at(-1)
  if (last === undefined) throw new TypeError('streamJson: the pipeline has no streams')
  pipeline([Readable.from(counted(), { objectMode: false }), ...stages], () => undefined)
  try {
    for await (const item of last) {
      unread = 0
      let made: unknown
      try {
        made = record(item as never)
      } catch (error) {
        failure = error
        throw error
      }
      yield made
    }
  } catch (error) {
    throw failure ?? malformed(error)
  }
}

/** Beginnings of the messages of stream-json about a body. */
const OF_PARSER = /^(?:Parser|Verifier|Top-level object|filter: JSON nesting) /

/**
 * Returns the 400 for an error of the parser. Errors of other stages of a pipeline stay as they
 * are.
 */
function malformed(error: unknown): unknown {
  if (!(error instanceof Error) || !OF_PARSER.test(error.message)) return error
  return httpError('malformed_json', { message: `The body is not valid JSON: ${error.message}` })
}
