import { isObject } from './json-object.js'

/** Records in any iterable. */
export type Records = Iterable<object> | AsyncIterable<object>

/** Size of one chunk, in UTF-16 units. */
const CHUNK_UNITS = 65_536

/**
 * Returns records as a stream of NDJSON, a body for `fetch` with `duplex: 'half'`. Records are read
 * on demand, in chunks of about 64 KiB. If the source throws, or a record is not a JSON object, the
 * stream fails.
 *
 * @example
 * const body = writeNdjson([{ id: 1 }, { id: 2 }])
 * console.log(await new Response(body).text())
 */
export function writeNdjson(records: Records): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let source: Iterator<object> | AsyncIterator<object> | undefined
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      source ??= iterate(records)
      let text = ''
      while (text.length < CHUNK_UNITS) {
        const next = source.next()
        // Awaiting each record of an array would cost more than writing it.
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
  if (Symbol.asyncIterator in records) return records[Symbol.asyncIterator]()
  return records[Symbol.iterator]()
}

function lineOf(record: unknown): string {
  // The type of `stringify` omits `undefined`, which `toJSON` can cause.
  const text = isObject(record) ? JSON.stringify(record) as string | undefined : undefined
  if (text?.startsWith('{') !== true) {
    throw new TypeError('writeNdjson: each record must be an object whose JSON is an object')
  }
  return text
}
