/** Records that can be iterated over once, or more often. */
export type Records = Iterable<object> | AsyncIterable<object>

/** What is gathered into one piece, in UTF-16 units. */
const PIECE_UNITS = 65_536

/**
 * Records as NDJSON, made as they are read: a body for `fetch`, with `duplex: 'half'`. Bytes come
 * in pieces of some 64 KiB. A record that JSON can't write, and what the source throws, are errors
 * of the stream.
 */
export function writeNdjson(records: Records): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let source: Iterator<object> | AsyncIterator<object> | undefined
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      source ??= iterate(records)
      let text = ''
      while (text.length < PIECE_UNITS) {
        const next = source.next()
        // A turn for each record of an array would cost more than writing it.
        const result: IteratorResult<object, unknown> = 'then' in next ? await next : next
        if (result.done) {
          if (text !== '') controller.enqueue(encoder.encode(text))
          controller.close()
          return
        }
        text += `${lineOf(result.value)}\n`
      }
      controller.enqueue(encoder.encode(text))
    },
    async cancel() {
      await source?.return?.()
    },
  }, { highWaterMark: 0 })
}

function iterate(records: Records): Iterator<object> | AsyncIterator<object> {
  return Symbol.asyncIterator in records ? records[Symbol.asyncIterator]() : records[Symbol.iterator]()
}

function lineOf(record: unknown): string {
  const text = typeof record === 'object' && record !== null && !Array.isArray(record) ? JSON.stringify(record) as string | undefined : undefined
  if (text?.startsWith('{') !== true) throw new TypeError('writeNdjson: each record must be an object that JSON writes as one')
  return text
}
