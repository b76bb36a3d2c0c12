import { httpError, type HttpError } from '../http/errors.js'
import { Turns } from '../runtime/timers.js'
import { toPointer } from '../schema/pointer.js'
import { ArrayEnvelope } from './array-envelope.js'
import { ByteWindow, TextPosition, type ArrayPosition } from './array-position.js'
import { ElementReader, type ElementBatch, type ReaderLimits } from './element-reader.js'

export interface ElementOptions {
  /** Keys that lead from the body to the array: names of properties, or indexes of elements. */
  readonly path?: readonly string[]
  /** Rejects properties and elements beside the path with `invalid_input`. */
  readonly alone?: boolean
  /** Maximum size of an element in bytes, with the white space around it. Default: 1 MiB. */
  readonly maxElementBytes?: number
  /** Maximum number of elements; one more is a `body_too_large`. Default: unlimited. */
  readonly maxElements?: number
  /** Number of bytes that are parsed at once. Default: 64 KiB. */
  readonly batchBytes?: number
  /** Position of a batch, from an earlier reader with the same path. Reading continues there. */
  readonly from?: ArrayPosition | undefined
  /** Validates and counts the elements, and yields none. Default: false. */
  readonly countOnly?: boolean
}

const BATCH_BYTES = 65_536

/**
 * Reads a JSON array as it arrives, in bounded memory: the body itself, or an array at a `path` in
 * it. Yields the elements in their order, those of about 64 KiB at a time. Yields to the event loop
 * at least every 10 ms or so. The same bytes give the same elements and the same error, however
 * they are divided into chunks. Closes the source if the reader stops early.
 *
 * It accepts what `JSON.parse` accepts, without keys such as `__proto__`, and within its limits. If
 * an element has a key twice, the last one counts. An error is thrown after all elements before it
 * were yielded. It is an `HttpError` with a pointer to the element and the property `position` (an
 * `ErrorPosition`).
 *
 * Rejects with `malformed_json`, `missing_body`, `unsafe_key`, `invalid_input` (400: not an array;
 * a property of the path is missing or repeated), `body_too_large` (413), and with the error of the
 * source.
 */
export async function* readElements(
  source: AsyncIterable<Uint8Array>, options: ElementOptions = {},
): AsyncGenerator<ElementBatch, void, undefined> {
  const reader = new ArrayReader(options)
  const size = options.batchBytes ?? BATCH_BYTES
  const turns = new Turns()
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength; at += size) {
      const batch = reader.read(chunk.byteLength <= size ? chunk : chunk.subarray(at, at + size))
      if (batch !== undefined) yield batch
      if (reader.error !== undefined) throw reader.error
      if (turns.due) await turns.next()
    }
  }
  const rest = reader.end()
  if (rest !== undefined) yield rest
  if (reader.error !== undefined) throw reader.error
}

/** Reads the elements of a JSON array from chunks of bytes. */
class ArrayReader {
  /** Set when the reading cannot continue. Throw it after the elements of the last batch. */
  error: HttpError | undefined
  private readonly limits: ReaderLimits
  private readonly window: ByteWindow
  private readonly position = new TextPosition()
  private readonly envelope: ArrayEnvelope
  private readonly pointer: string
  private elements: ElementReader | undefined
  private inElements = false
  /** Number of bytes that were appended since the last parse. */
  private unparsedBytes = 0
  private begun = false
  /** Place at which the next batch begins; `undefined` before the array. */
  private place: ArrayPosition | undefined
  private readonly firstByte: number

  constructor(options: ElementOptions) {
    const {
      path = [], alone = false, maxElementBytes = 1_048_576, maxElements = Infinity,
      batchBytes = BATCH_BYTES, from, countOnly = false,
    } = options
    this.limits = { maxElementBytes, maxElements, batchBytes, countOnly }
    this.window = new ByteWindow(maxElementBytes + 2 * batchBytes + 2)
    const { window, position } = this
    this.envelope = new ArrayEnvelope(window, position, { path, maxElementBytes, alone })
    this.pointer = toPointer(path)
    this.firstByte = from?.byte ?? 0
    if (from !== undefined) this.continueAt(from)
  }

  /**
   * Returns the elements that end in this chunk and in earlier ones; `undefined` if there are none,
   * or too few bytes to parse yet.
   */
  read(chunk: Uint8Array): ElementBatch | undefined {
    if (chunk.byteLength === 0 || this.error !== undefined) return undefined
    const moved = this.window.append(chunk)
    this.envelope.moveScanner(moved)
    this.elements?.moveScanner(moved)
    this.begun = true
    this.unparsedBytes += chunk.byteLength
    return this.unparsedBytes < this.limits.batchBytes ? undefined : this.parse(false)
  }

  /** Returns the remaining elements. Call it once, after the last chunk. */
  end(): ElementBatch | undefined {
    if (this.error !== undefined) return undefined
    if (this.begun) return this.parse(true)
    this.error = httpError('missing_body')
    return undefined
  }

  private parse(ended: boolean): ElementBatch | undefined {
    this.unparsedBytes = 0
    while (this.step(ended));
    this.error = this.envelope.error ?? this.elements?.error
    if (ended && this.error === undefined && !this.envelope.over) {
      throw new Error('readElements: the bytes ended before the array did')
    }
    return this.take()
  }

  private take(): ElementBatch | undefined {
    const { place, elements } = this
    const batch = elements?.take()
    if (batch === undefined || place === undefined) return undefined
    if (this.inElements) this.place = this.currentPlace()
    const bytes = this.firstByte + this.window.consumedBytes - place.byte
    return { ...batch, place, bytes }
  }

  /** Returns true if the buffered bytes allow another step. */
  private step(ended: boolean): boolean {
    const { envelope, elements } = this
    if (this.inElements && elements !== undefined) {
      this.inElements = !elements.read(ended)
      if (!this.inElements) envelope.leaveArray(elements.count)
      return !this.inElements
    }
    const step = envelope.step(ended)
    if (step === 'array') this.enterArray()
    return step !== 'more' && envelope.error === undefined
  }

  private enterArray(): ElementReader {
    const { window, position, limits, pointer, envelope: { beforeValue: before } } = this
    this.elements = new ElementReader(window, position, limits, { pointer, before })
    this.inElements = true
    this.place = this.currentPlace()
    return this.elements
  }

  private continueAt(place: ArrayPosition): void {
    this.begun = true
    this.position.continueAt(place.text)
    this.envelope.continueAt(place.opened)
    this.enterArray().continueAt(place.item)
    this.place = place
  }

  private currentPlace(): ArrayPosition {
    const { firstByte, window, elements, position, envelope } = this
    return {
      byte: firstByte + window.consumedBytes, item: elements?.count ?? 0,
      text: position.state, opened: envelope.state,
    }
  }
}
