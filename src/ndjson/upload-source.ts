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
    // What JSON cannot represent becomes a line that is not valid, and is reported as such.
    const line = Buffer.from(`${String(JSON.stringify(record))}\n`)
    if (skipped < from) skipped += line.byteLength
    else yield line
  }
}
