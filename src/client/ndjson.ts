import { checkNames, checkWhole, ClientError, isObject } from './errors.js'

/** A source of bytes. */
export type ByteSource = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/** Records in any iterable. */
export type Records = Iterable<object> | AsyncIterable<object>

export type LineFaultCode = 'line_malformed' | 'line_not_object' | 'line_not_utf8' | 'line_too_long'

/** One bad line. */
export interface LineFault {
  /** Number of the line, from 1. Blank lines count. */
  readonly line: number
  readonly code: LineFaultCode
}

/** Options of `readNdjson`. */
export interface ReadNdjsonOptions {
  /** Maximum length of a line in bytes. A longer line is skipped as a fault. Default: 1 MiB. */
  readonly maxLineBytes?: number
  /** Called for each bad line, which is skipped. Without it, a bad line is a `ClientError`. */
  readonly onFault?: (fault: LineFault) => void
}

const LF = 10
const CHUNK_UNITS = 65_536
const MESSAGES: Readonly<Record<LineFaultCode, string>> = {
  line_malformed: 'is not valid JSON',
  line_not_object: 'is not a JSON object',
  line_not_utf8: 'is not valid UTF-8',
  line_too_long: 'is too long',
}

/**
 * Yields the records of an NDJSON body as they arrive. Leaving the loop releases the connection.
 * @throws {ClientError} `http_404` and the like; `network_error`; without `onFault`:
 * `line_malformed`, `line_not_object`, `line_not_utf8` or `line_too_long`.
 * @example
 * const response = await fetch('https://feed.example/users')
 * for await (const user of readNdjson<{ id: number }>(response)) console.log(user.id)
 */
export async function* readNdjson<T extends object = Record<string, unknown>>(
  source: Response | ByteSource, options: ReadNdjsonOptions = {},
): AsyncGenerator<T, void, undefined> {
  checkNames('readNdjson', options, ['maxLineBytes', 'onFault'])
  const { maxLineBytes = 1_048_576, onFault } = options
  checkWhole('readNdjson', { maxLineBytes })
  const body = bodyOf(source)
  if (!body) return
  const lines = new LineReader(maxLineBytes, ({ line, code }) => {
    if (!onFault) throw new ClientError(code, `Line ${line} ${MESSAGES[code]}.`)
    onFault({ line, code })
  })
  for await (const chunk of guarded(body)) yield* lines.read(chunk) as Iterable<T>
  const last = lines.end()
  if (last) yield last as T
}

function bodyOf(source: Response | ByteSource): ByteSource | null {
  if (!('status' in source)) return source
  if (source.ok) return source.body
  source.body?.cancel().catch(() => undefined)
  const { status } = source
  throw new ClientError(`http_${status}`, `The server responded with ${status}.`, { status })
}

/** Turns the errors of a broken body, which differ between runtimes, into a `ClientError`. */
async function* guarded(source: ByteSource): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* toIterable(source)
  } catch (cause) {
    // An abort and a `ClientError` pass unchanged.
    if (!(cause instanceof TypeError)) throw cause
    throw new ClientError('network_error', 'The connection broke.', { cause })
  }
}

export async function* toIterable(source: ByteSource): AsyncGenerator<Uint8Array, void, undefined> {
  if (!('getReader' in source)) {
    yield* source
    return
  }
  const reader = source.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    reader.cancel().catch(() => undefined)
  }
}

export class LineReader {
  private readonly decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  private pieces: Uint8Array[] = []
  private length = 0
  private line = 1

  constructor(
    private readonly maxLineBytes: number, private readonly onFault: (fault: LineFault) => void,
  ) {}

  * read(chunk: Uint8Array): Generator<object, void, undefined> {
    let start = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      this.add(chunk.subarray(start, end))
      start = end + 1
      const record = this.end()
      if (record) yield record
    }
    if (start < chunk.length) this.add(chunk.slice(start))
  }

  end(): object | undefined {
    const { pieces, length, line } = this
    this.pieces = []
    this.length = 0
    this.line++
    // The fault of a long line was reported when it became too long.
    if (length === 0 || length > this.maxLineBytes) return undefined
    const found = this.parse(joined(pieces, length), line)
    if (typeof found !== 'string') return found
    this.onFault({ line, code: found })
    return undefined
  }

  private add(piece: Uint8Array): void {
    if (this.length > this.maxLineBytes) return
    this.length += piece.length
    if (this.length <= this.maxLineBytes) {
      if (piece.length > 0) this.pieces.push(piece)
      // Joining bounds the overhead of many small pieces.
      if (this.pieces.length >= 1024) this.pieces = [joined(this.pieces, this.length)]
    } else {
      this.pieces = []
      this.onFault({ line: this.line, code: 'line_too_long' })
    }
  }

  /** Returns the record of a line, its fault, or `undefined` if the line is blank. */
  private parse(bytes: Uint8Array, line: number): object | LineFaultCode | undefined {
    let text: string
    try {
      text = this.decoder.decode(bytes)
    } catch {
      return 'line_not_utf8'
    }
    if (line === 1 && text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    if (!/[^ \t\r]/.test(text)) return undefined
    try {
      const record: unknown = JSON.parse(text)
      return isObject(record) && !Array.isArray(record) ? record : 'line_not_object'
    } catch {
      return 'line_malformed'
    }
  }
}

function joined(pieces: readonly Uint8Array[], length: number): Uint8Array {
  if (pieces.length === 1) return pieces[0] as Uint8Array
  const whole = new Uint8Array(length)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

/**
 * Returns records as a stream of NDJSON, a body for `fetch` with `duplex: 'half'`. Records are read
 * on demand. If the source throws, or a record is not a JSON object, the stream fails.
 * @example
 * const body = writeNdjson([{ id: 1 }, { id: 2 }])
 * console.log(await new Response(body).text())
 */
export function writeNdjson(records: Records): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let source: Iterator<object> | AsyncIterator<object> | undefined
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      source ??= Symbol.asyncIterator in records
        ? records[Symbol.asyncIterator]() : records[Symbol.iterator]()
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

function lineOf(record: unknown): string {
  // The type of `stringify` omits `undefined`, which `toJSON` can cause.
  const text = isObject(record) ? JSON.stringify(record) as string | undefined : undefined
  if (text?.startsWith('{') !== true) {
    throw new TypeError('writeNdjson: each record must be an object whose JSON is an object')
  }
  return text
}
