import { isExact } from '../http/body/exact-json.js'
import { isTooDeep, MAX_JSON_DEPTH } from '../http/body/json.js'

/**
 * Reads records from bodies that are not NDJSON, such as `streamJson` of `longhaul/stream-json`.
 */
export interface UploadSource {
  /** Media types of the bodies. Others get a 415. */
  readonly mediaTypes: readonly string[]
  /**
   * Yields the records of a decoded body, in order. The same bytes must give the same records,
   * because a task that continues reads them again.
   */
  read(body: AsyncIterable<Uint8Array>): AsyncIterable<unknown>
}

/** Yields the records of a source as lines of NDJSON, from the byte `from` on. */
export async function* toLines(
  source: UploadSource, body: AsyncIterable<Uint8Array>, from = 0,
): AsyncGenerator<Uint8Array, void, undefined> {
  let skipped = 0
  for await (const record of source.read(body)) {
    const line = Buffer.from(`${lineOf(record)}\n`)
    if (skipped < from) skipped += line.byteLength
    else yield line
  }
}

/** A line that the reader rejects as too deep. */
const TOO_DEEP = '{"":'.repeat(MAX_JSON_DEPTH + 1) + '0' + '}'.repeat(MAX_JSON_DEPTH + 1)
/** A line that the reader rejects for its key. */
const UNSAFE = '{"__proto__":{}}'
/** In place of Infinity, which JSON writes as null. Half of a surrogate pair is rejected as well. */
const INFINITE = '\ud800Infinity'

/**
 * Returns a record as a line. What JSON cannot represent becomes a line that the reader rejects,
 * and reports as such.
 */
function lineOf(record: unknown): string {
  if (isTooDeep(record)) return TOO_DEEP
  if (hasUnsafePrototype(record)) return UNSAFE
  if (isExact(record)) return String(JSON.stringify(record))
  const text = JSON.stringify(record, (_, value: unknown) => (
    typeof value === 'number' && !Number.isFinite(value) ? INFINITE : value
  ))
  return text.replaceAll(JSON.stringify(INFINITE), '1e999')
}

/** Returns true if a parser has assigned `__proto__`, so that JSON would leave its value out. */
function hasUnsafePrototype(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && !Object.hasOwn(prototype as object, 'constructor')) return true
  return Object.values(value).some(hasUnsafePrototype)
}
