import { isExact } from '../http/body/exact-json.js'
import { isTooDeep, MAX_JSON_DEPTH } from '../http/body/json.js'
import type { RecordFault } from '../records/outcome.js'
import { isError } from '../repositories/returned.js'
import { rejectEmptied } from '../tasks/definition/json-values.js'
import type { UploadItem } from '../wire/report.js'

/**
 * Reads records from bodies that are not NDJSON, such as `streamJson` of `longhaul/stream-json`.
 */
export interface UploadSource {
  /** Media types of the bodies. Others get a 415. */
  readonly mediaTypes: readonly string[]
  /**
   * Yields the records of a decoded body, in order: plain objects that JSON can carry. Other JSON
   * is a failed line, and so is what `noRecord` returns. The same bytes must give the same records,
   * because a task that continues reads them again.
   *
   * An `HttpError` that it throws or yields ends the upload, and the client gets its status and
   * message with the report of what was written. Throw one for a body that is malformed. Any other
   * error is a masked 500. If `body` fails, the upload ends with the error of `body`.
   */
  read(body: AsyncIterable<Uint8Array>): AsyncIterable<unknown>
  /** Writes the failed lines as a file. Default: their records as NDJSON. */
  readonly rejected?: RejectedFormat
}

/** Format of the file with the failed lines of a source. */
export interface RejectedFormat {
  /** Extension of the file, such as `csv`. */
  readonly extension: string
  /** Media type of the file. */
  readonly type: string
  /**
   * Yields the file.
   * @param body - the decoded body
   * @param failed - items of the failed lines, in order
   */
  write(
    body: AsyncIterable<Uint8Array>, failed: AsyncIterable<UploadItem>,
  ): AsyncIterable<Uint8Array>
}

/** A line of a source that is not valid. */
export interface SourceFault extends RecordFault {
  /** The beginning of the line. At most 80 UTF-16 units of it are shown. Default: none. */
  readonly excerpt?: string
}

const NO_RECORD = Symbol.for('longhaul.NoRecord')

/** A line of a source that has no record. */
export interface NoRecord {
  readonly [NO_RECORD]: true
  readonly fault: SourceFault | undefined
}

/**
 * Creates what a source yields for a line without a record. With a fault the line is a failed line
 * of the report. Without a fault, the line only counts, like a blank line.
 * @example
 * import { noRecord, type UploadSource } from 'longhaul/ndjson'
 *
 * declare function rowsOf(body: AsyncIterable<Uint8Array>): AsyncIterable<string[]>
 *
 * const rows: UploadSource = {
 *   mediaTypes: ['text/tab-separated-values'],
 *   async* read(body) {
 *     for await (const [id, name] of rowsOf(body)) {
 *       const fault = { code: 'name_missing', message: 'The row has no name.' }
 *       yield name === undefined ? noRecord(fault) : { id, name }
 *     }
 *   },
 * }
 */
export function noRecord(fault?: SourceFault): NoRecord {
  return { [NO_RECORD]: true, fault }
}

/**
 * The records of a source as lines of NDJSON.
 *
 * The records become text that is parsed again. So every record has the checks, limits in bytes,
 * excerpts and positions of a line, whoever made it, and `write` gets plain JSON values.
 */
export class SourceLines {
  /** Fault of the last line; `undefined` if that line has a record, or only counts. */
  fault: SourceFault | undefined

  constructor(private readonly source: UploadSource) {}

  /** Yields the lines of a body, from the byte `from` on. */
  async* of(
    body: AsyncIterable<Uint8Array>, from = 0,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let skipped = 0
    const cause = new BodyFailure()
    try {
      for await (const record of this.source.read(cause.of(body))) {
        const isNone = isNoRecord(record)
        this.fault = isNone ? record.fault : undefined
        const line = Buffer.from(`${isNone ? emptyLine(record) : lineOf(record)}\n`)
        if (skipped < from) skipped += line.byteLength
        else yield line
      }
    } catch (error) {
      cause.rethrow()
      throw error
    }
    cause.rethrow()
  }
}

function isNoRecord(value: unknown): value is NoRecord {
  return typeof value === 'object' && value !== null && NO_RECORD in value
}

/**
 * A line that the reader rejects. The report then has the fault of the source, not the reason of
 * the reader.
 */
const FAULTY = '!'

function emptyLine({ fault }: NoRecord): string {
  return fault === undefined ? '' : FAULTY
}

/**
 * Error of a body that a source reads. The source may throw another error, or end as if it had read
 * everything.
 */
class BodyFailure {
  private failure: { readonly error: unknown } | undefined

  async* of(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* body
    } catch (error) {
      this.failure = { error }
      throw error
    }
  }

  rethrow(): void {
    if (this.failure) throw this.failure.error
  }
}

/** A line that the reader rejects as too deep. */
const TOO_DEEP = '{"":'.repeat(MAX_JSON_DEPTH + 1) + '0' + '}'.repeat(MAX_JSON_DEPTH + 1)
/** A line that the reader rejects for its key. */
const UNSAFE = '{"__proto__":{}}'
/**
 * Text that replaces Infinity, because JSON writes Infinity as null. The reader rejects the text,
 * because it has half of a surrogate pair.
 */
const INFINITE = '\ud800Infinity'

/**
 * Returns a record as a line. A value that JSON cannot represent becomes a line that the reader
 * rejects for this reason.
 */
function lineOf(record: unknown): string {
  if (isError(record)) throw record
  if (ArrayBuffer.isView(record)) throw notJson('it is bytes')
  if (isTooDeep(record)) return TOO_DEEP
  if (hasUnsafePrototype(record)) return UNSAFE
  if (isExact(record)) return textOf(record)
  const text = JSON.stringify(record, (_, value: unknown) => (
    typeof value === 'number' && !Number.isFinite(value) ? INFINITE : value
  ))
  return text.replaceAll(JSON.stringify(INFINITE), '1e999')
}

/** Returns JSON; `null` for a value that JSON leaves out. */
function textOf(record: unknown): string {
  const text = (JSON.stringify(record) as string | undefined) ?? 'null'
  try {
    rejectEmptied(record, text)
  } catch (error) {
    throw notJson((error as Error).message)
  }
  return text
}

function notJson(why: string): TypeError {
  return new TypeError(`ndjsonUpload: source has yielded a record that is not JSON: ${why}`)
}

/** Returns true if a parser has assigned `__proto__`, so that JSON would leave its value out. */
function hasUnsafePrototype(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && !Object.hasOwn(prototype as object, 'constructor')) return true
  return Object.values(value).some(hasUnsafePrototype)
}
