import { hasUnsafeKey } from '../http/body/json.js'
import type { HttpError } from '../http/errors.js'
import { BACKSLASH, CLOSE_BRACKET, COMMA, OPEN_BRACKET, QUOTE } from '../runtime/text.js'
import { childPointer } from '../schema/pointer.js'
import { countValues } from './count-values.js'
import {
  errorAt, skipWhiteSpace, syntaxError, type ArrayPosition, type ByteWindow, type ErrorPlace,
  type TextPosition,
} from './array-position.js'

/** Some elements of an array, in their order. */
export interface ElementBatch {
  /** Index of the first element in the array, from 0. */
  readonly start: number
  /** Number of elements. */
  readonly count: number
  /** The elements, as `JSON.parse` returns them. Empty if they are only counted. */
  readonly items: unknown[]
  /** True if certainly no string has half of a surrogate pair. */
  readonly wellFormed: boolean
  /** Place at which the first element begins. */
  readonly place: ArrayPosition
  /** Size of the text of the elements, in bytes. */
  readonly bytes: number
}

export interface ReaderLimits {
  readonly maxElementBytes: number
  readonly maxElements: number
  readonly batchBytes: number
  /** True if the elements are checked and counted, but not returned. */
  readonly countOnly: boolean
}

export interface ArrayPlace {
  readonly pointer: string
  /** Text that leads a parser to the array. */
  readonly before: string
}

const CUT = Buffer.from('},')
/** Number of blocks that are scanned after a wrong guess. It doubles with each wrong guess. */
const FIRST_WAIT = 4
const LONGEST_WAIT = 64

/**
 * Reads the elements of one array, from after its opening bracket to its closing one.
 *
 * A block is cut at a comma, put in brackets and parsed at once. This is correct for any bytes. Let
 * R be the text from the beginning of an element to a comma. A JSON parser reads from left to
 * right: its state after a character does not depend on later text. Assume that `[R]` is an array
 * of one or more elements. If `[R]` parses, the parser is outside of any string before the last
 * bracket, after an element of the outermost array, because this one bracket ends the text. It is
 * in the same state if a comma follows, as in the real text. So R consists of whole elements, and
 * the comma separates two elements. If the comma is inside an element, or R is not JSON, `[R]` does
 * not parse, and the block is scanned.
 *
 * So the cut may be guessed: it is the last `},`. A blank R parses without being an element. It is
 * allowed only before the closing bracket of an empty array.
 */
export class ElementReader {
  /** Number of elements of the array that were read, by earlier readers too. */
  count = 0
  error: HttpError | undefined
  private items: unknown[] = []
  private wellFormed = true
  /** Number of elements that were taken. */
  private taken = 0
  private readonly scanner = new ElementScanner()
  private wait = 0
  private nextWait = FIRST_WAIT

  constructor(
    private readonly window: ByteWindow, private readonly position: TextPosition,
    private readonly limits: ReaderLimits, private readonly array: ArrayPlace,
  ) {
    this.scanner.restart(window.start)
  }

  /** Continues after the elements that an earlier reader has read. */
  continueAt(count: number): void {
    this.count = count
    this.taken = count
  }

  /** Moves the scanner with the bytes of the window. */
  moveScanner(by: number): void {
    this.scanner.at += by
  }

  /** Returns the elements that were read since the last call. */
  take(): Omit<ElementBatch, 'place' | 'bytes'> | undefined {
    const { items, wellFormed, count, taken: start } = this
    if (count === start) return undefined
    this.items = []
    this.wellFormed = true
    this.taken = count
    return { start, count: count - start, items, wellFormed }
  }

  /** Reads the complete elements of the window. Returns true if the array has ended. */
  read(ended: boolean): boolean {
    const guessed = this.readGuessed()
    return this.error === undefined && (ended || !guessed) && this.readScanned(ended)
  }

  /** Reads up to the last `},`. Returns false if that is not the end of an element. */
  private readGuessed(): boolean {
    const { window, scanner, limits } = this
    const { bytes, start, end } = window
    if (scanner.at - start > limits.batchBytes) return false
    if (this.wait > 0) {
      this.wait--
      return false
    }
    const cut = bytes.subarray(0, end).lastIndexOf(CUT) + 1
    if (cut > start && cut - start <= limits.maxElementBytes && this.consume(cut)) {
      scanner.restart(window.start)
      this.nextWait = FIRST_WAIT
      return true
    }
    this.wait = this.nextWait
    this.nextWait = Math.min(LONGEST_WAIT, this.wait * 2)
    return false
  }

  /** Scans from comma to comma, and parses all elements that end in the window at once. */
  private readScanned(ended: boolean): boolean {
    const { window, scanner, limits: { maxElementBytes } } = this
    const { bytes, end } = window
    let element = window.start
    let stop: number
    for (;;) {
      stop = scanner.next(bytes, end)
      if ((stop === -1 ? end : stop) - element > maxElementBytes || bytes[stop] !== COMMA) break
      element = stop + 1
    }
    const tooLarge = (stop === -1 ? end : stop) - element > maxElementBytes
    const closed = !tooLarge && bytes[stop] === CLOSE_BRACKET
    const cut = closed ? stop : element - 1
    if (cut >= window.start && !this.consume(cut)) this.consumeEach(cut)
    if (this.error !== undefined) return false
    if (tooLarge) this.error = this.tooLarge()
    else if (!closed && (stop !== -1 || ended)) {
      this.error = this.syntaxError(stop === -1 ? end : stop + 1, true)
    }
    return closed
  }

  /** Parses and consumes the bytes before `cut`. Returns false if they are not valid elements. */
  private consume(cut: number): boolean {
    const { window, position, limits: { maxElements, countOnly } } = this
    const text = window.textBetween(OPEN_BRACKET, window.start, cut, CLOSE_BRACKET)
    if (text === undefined) return false
    const isSuspect = mayHaveUnsafeKey(text)
    const counted = countOnly && !isSuspect ? countValues(window.bytes, window.start, cut) : -1
    const items = counted === -1 ? tryParse(text) as unknown[] | undefined : []
    if (items === undefined || (isSuspect && hasUnsafeKey(items))) return false
    const count = Math.max(counted, items.length)
    if (this.count + count > maxElements) return false
    if (count === 0 && (this.count > 0 || window.bytes[cut] === COMMA)) return false
    this.count += count
    if (!countOnly) this.keep(text, items)
    position.advance(text, 1, text.length - 1)
    position.advance(',', 0, 1)
    window.start = cut + 1
    return true
  }

  private keep(text: string, items: unknown[]): void {
    this.wellFormed &&= hasWellFormedStrings(text)
    if (this.items.length === 0) this.items = items
    else for (const item of items) this.items.push(item)
  }

  /** Consumes the elements before an error that is before `cut`, or at it. */
  private consumeEach(cut: number): void {
    const { window } = this
    const scanner = new ElementScanner()
    scanner.restart(window.start)
    while (window.start <= cut) {
      const stop = scanner.next(window.bytes, cut + 1)
      if (!this.consume(stop)) {
        this.error = this.errorOf(stop)
        return
      }
    }
  }

  /** Returns the reason why an element was not consumed. */
  private errorOf(stop: number): HttpError {
    const error = this.syntaxError(stop + 1, false)
    if (error !== undefined) return error
    skipWhiteSpace(this.window, this.position)
    const { maxElements } = this.limits
    if (this.count < maxElements) {
      const message = 'The body has a key that is not allowed'
      return errorAt('unsafe_key', this.place(), message, 'begins the item that has it')
    }
    const message = `The body has more than ${maxElements} items`
    return errorAt('body_too_large', this.place(), message, 'begins one too many')
  }

  /** Returns the syntax error of the text up to `to`. @param complete - see `syntaxError` */
  private syntaxError(to: number, complete: boolean): HttpError | undefined {
    const text = this.window.text(this.window.start, to)
    if (text !== undefined) return syntaxError(this.place(), this.before(), text, complete)
    skipWhiteSpace(this.window, this.position)
    const reason = 'begins an item that is not UTF-8'
    return errorAt('malformed_json', this.place(), 'The body is not valid JSON', reason)
  }

  private tooLarge(): HttpError {
    const { window, limits: { maxElementBytes } } = this
    const { start, bytes } = window
    // A missing quote or bracket may make an element appear that large.
    const text = bytes.toString('utf8', start, start + maxElementBytes)
    const error = syntaxError(this.place(), this.before(), text, false)
    if (error !== undefined) return error
    skipWhiteSpace(window, this.position)
    const reason = `begins an item of more than ${maxElementBytes} bytes`
    return errorAt('body_too_large', this.place(), 'The body has an item that is too large', reason)
  }

  private place(): ErrorPlace {
    const { count, position, array } = this
    return { item: count, pointer: childPointer(array.pointer, count), position }
  }

  private before(): string {
    return `${this.array.before}${this.count > 0 ? '[0,' : '['}`
  }
}

const OPEN = 1
const CLOSE = 2
const SEPARATOR = 3
const STRING = 4
const KINDS = new Uint8Array(256)
for (const char of '{[') KINDS[char.charCodeAt(0)] = OPEN
for (const char of '}]') KINDS[char.charCodeAt(0)] = CLOSE
KINDS[COMMA] = SEPARATOR
KINDS[QUOTE] = STRING

/** Finds the ends of array elements or object properties. */
export class ElementScanner {
  /** Index of the next byte to read. */
  at = 0
  private depth = 0
  private inString = false

  /** Restarts at the beginning of an element. */
  restart(at: number): void {
    this.at = at
    this.depth = 0
    this.inString = false
  }

  /**
   * Returns the index of the comma or closing bracket that ends the current element; -1 if it is
   * not before `to`.
   */
  next(bytes: Uint8Array, to: number): number {
    let { at, depth } = this
    let stop = -1
    if (this.inString) at = this.skipString(bytes, at, to)
    while (at < to) {
      const kind = KINDS[bytes[at++] as number] as number
      if (kind === 0) continue
      if (kind === STRING) at = this.skipString(bytes, at, to)
      else if (kind === OPEN) depth++
      else if (depth === 0) {
        stop = at - 1
        break
      } else if (kind === CLOSE) depth--
    }
    this.at = at
    this.depth = depth
    return stop
  }

  /** Returns the index after the closing quote. */
  private skipString(bytes: Uint8Array, from: number, to: number): number {
    let at = from
    while (at < to) {
      const byte = bytes[at++] as number
      if (byte === QUOTE) {
        this.inString = false
        return at
      }
      if (byte === BACKSLASH) at++
    }
    this.inString = true
    return at
  }
}

/** Parses JSON. Returns `undefined` if the text is not JSON. */
export function tryParse(text: string): unknown {
  const { stackTraceLimit } = Error
  // A parse that throws is several times as fast without a stack trace, which is not used.
  Error.stackTraceLimit = 0
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** A letter as an escape. A key that `parseJson` rejects contains `proto`, or such a letter. */
const ESCAPED_LETTER = /\\u00[567]/

export function hasUnsafeKeys(text: string, value: unknown): boolean {
  return mayHaveUnsafeKey(text) && hasUnsafeKey(value)
}

function mayHaveUnsafeKey(text: string): boolean {
  return text.includes('proto') || (text.includes('\\u00') && ESCAPED_LETTER.test(text))
}

const HALF_PAIR = /\\u[dD][89a-fA-F]/

/** Returns true if certainly no string of a JSON text has half of a surrogate pair. */
export function hasWellFormedStrings(text: string): boolean {
  return !(text.includes('\\u') && HALF_PAIR.test(text))
}
