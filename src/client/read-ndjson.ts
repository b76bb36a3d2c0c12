import { toIterable, type ByteSource } from './chunks.js'
import { ClientError } from './errors.js'
import { describeFault, RecordReader, type LineFault } from './lines.js'
import { checkNames } from './option-names.js'

/** How NDJSON is read. */
export interface ReadNdjsonOptions {
  /** A longer line is a fault, and is not held in memory. In bytes; default 1 MiB. */
  readonly maxLineBytes?: number
  /**
   * Is told of a bad line, which is skipped then. Without it a bad line is thrown, as a
   * `ClientError` with its code.
   */
  readonly onFault?: (fault: LineFault) => void
}

const KNOWN = { maxLineBytes: 0, onFault: 0 } satisfies Record<keyof ReadNdjsonOptions, 0>

/**
 * The records of an NDJSON body, one at a time, as they come: from an answer of `fetch`, its
 * `body`, or anything that gives bytes. To stop early, leave the loop: the connection is let go of.
 *
 * Rejects with a `ClientError`: `http_404` and the like for an answer that is none, `network_error`
 * when the connection breaks, and, without `onFault`, `line_malformed`, `line_not_object`,
 * `line_not_utf8` or `line_too_long`.
 */
export async function* readNdjson<T extends object = Record<string, unknown>>(
  source: Response | ByteSource, options: ReadNdjsonOptions = {},
): AsyncGenerator<T, void, undefined> {
  checkNames('readNdjson', options, KNOWN)
  const { maxLineBytes = 1_048_576, onFault } = options
  if (!(maxLineBytes >= 1)) throw new TypeError('readNdjson: maxLineBytes must be 1 or more')
  const body = bodyOf(source)
  if (!body) return
  const reader = new RecordReader(maxLineBytes)
  const take = (found: { readonly record: object } | LineFault): T | undefined => {
    if ('record' in found) return found.record as T
    if (!onFault) throw new ClientError(found.code, describeFault(found))
    onFault(found)
    return undefined
  }
  for await (const chunk of guarded(toIterable(body))) {
    for (const found of reader.read(chunk)) {
      const record = take(found)
      if (record) yield record
    }
  }
  const last = reader.end()
  const record = last && take(last)
  if (record) yield record
}

function bodyOf(source: Response | ByteSource): ByteSource | null {
  if (!('status' in source)) return source
  if (source.ok) return source.body
  source.body?.cancel().catch(() => undefined)
  throw new ClientError(`http_${source.status}`, `The server answered with ${source.status}.`, { status: source.status })
}

/** What `fetch` throws into a body that breaks off differs from one runtime to the next. */
async function* guarded(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const chunks = source[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await chunks.next().catch((cause: unknown) => {
        // An abort is the caller's own, and what we have made an error of is one.
        if (!(cause instanceof TypeError)) throw cause
        throw new ClientError('network_error', 'The connection broke.', { cause })
      })
      if (next.done) return
      yield next.value
    }
  } finally {
    await chunks.return?.()
  }
}
