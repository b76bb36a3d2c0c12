import { toIterable, type ByteSource } from './chunks.js'
import { ClientError } from './errors.js'
import { describeFault, RecordReader, type Line, type LineFault } from './lines.js'
import { checkNames } from './option-names.js'

/** Options of `readNdjson`. */
export interface ReadNdjsonOptions {
  /**
   * Maximum length of a line in bytes. A longer line is a fault and is not kept in memory.
   * @default 1 MiB
   */
  readonly maxLineBytes?: number
  /**
   * Called for each bad line, which is then skipped. Without it, a bad line is thrown as a
   * `ClientError`.
   */
  readonly onFault?: (fault: LineFault) => void
}

const KNOWN = { maxLineBytes: 0, onFault: 0 } satisfies Record<keyof ReadNdjsonOptions, 0>

/**
 * Yields the records of an NDJSON body as they arrive. The source is an answer of `fetch`, its
 * `body`, or another source of bytes. To stop early, leave the loop; that releases the connection.
 *
 * @throws {ClientError} `http_404` and the like: the answer is an error. `network_error`: the
 * connection broke. Without `onFault`: `line_malformed`, `line_not_object`, `line_not_utf8` or
 * `line_too_long`.
 *
 * @example
 * const response = await fetch('https://feed.example/users')
 * for await (const user of readNdjson<{ id: number }>(response)) console.log(user.id)
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
  const take = (line: Line): T | undefined => {
    if ('record' in line) return line.record as T
    if (!onFault) throw new ClientError(line.code, describeFault(line))
    onFault(line)
    return undefined
  }
  for await (const chunk of guarded(toIterable(body))) {
    for (const line of reader.read(chunk)) {
      const record = take(line)
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
  const { status } = source
  throw new ClientError(`http_${status}`, `The server answered with ${status}.`, { status })
}

/** Turns the errors of a broken body into a `ClientError`. They differ between runtimes. */
async function* guarded(
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const chunks = source[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await chunks.next().catch((cause: unknown) => {
        // An abort and a `ClientError` pass unchanged.
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
