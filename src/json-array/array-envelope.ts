import type { ErrorCode, HttpError } from '../http/errors.js'
import { COMMA } from '../runtime/text.js'
import { isArrayIndex, toPointer } from '../schema/pointer.js'
import {
  errorAt, skipWhiteSpace, syntaxError, UNKNOWN_MEMBER, type ArrayPosition, type ByteWindow,
  type ErrorPlace, type TextPosition,
} from './array-position.js'
import { ElementScanner, hasUnsafeKeys, tryParse } from './element-reader.js'

const BYTE_ORDER_MARK = Buffer.from('\uFEFF')
/** First characters of JSON values. */
const VALUE_STARTS = '{["-0123456789tfn'
/** Name of a property, up to the first character of its value. */
const MEMBER_HEAD = /^("(?:[^"\\]|\\.)*"[ \t\n\r]*:[ \t\n\r]*)[^ \t\n\r]/s
/** Maximum length of such a head, which is searched again whenever more bytes arrive. */
const MAX_HEAD_BYTES = 65_536

/** Result of a step: more bytes are needed, another step is possible, or the array begins. */
export type EnvelopeStep = 'more' | 'on' | 'array'

export interface EnvelopeOptions {
  /** Keys that lead from the body to the array; empty if the body is the array. */
  readonly path: readonly string[]
  readonly maxElementBytes: number
  /** True if properties and elements beside the path are rejected. */
  readonly alone: boolean
}

/** Expected next: a value on the path, a property or element, a comma or bracket, or the end. */
type Phase = 'value' | 'child' | 'other' | 'after' | 'end'

/**
 * Reads the text around the array: white space, and the objects and arrays that contain it, with
 * their other properties.
 */
export class ArrayEnvelope {
  error: HttpError | undefined
  /** Number of elements that were read, for the place of a later error. */
  private count = 0
  private begun = false
  private phase: Phase = 'value'
  /** Containers that are open, outermost first. */
  private readonly opened: OpenContainer[] = []
  private readonly scanner = new ElementScanner()

  constructor(
    private readonly window: ByteWindow, private readonly position: TextPosition,
    private readonly options: EnvelopeOptions,
  ) {}

  get over(): boolean {
    return this.phase === 'end'
  }

  /** Text that leads a parser to the next value on the path, such as the array. */
  get beforeValue(): string {
    return this.opened.map((each) => each.leadToValue()).join('')
  }

  get state(): ArrayPosition['opened'] {
    return this.opened.map(({ isObject, commas }) => [isObject ? 1 : 0, commas])
  }

  /** Continues inside the array, at the state of an earlier reader. */
  continueAt(state: ArrayPosition['opened']): void {
    this.begun = true
    for (const [isObject, commas] of state) {
      this.opened.push(new OpenContainer(isObject === 1, commas, true))
    }
  }

  /** Moves the scanner with the bytes of the window. */
  moveScanner(by: number): void {
    this.scanner.at += by
  }

  /** Continues after the closing bracket of the array. */
  leaveArray(count: number): void {
    this.count = count
    this.leaveValue()
  }

  step(ended: boolean): EnvelopeStep {
    if (this.phase === 'other') return this.readOther(ended)
    if (!this.begun && !this.skipByteOrderMark(ended)) return 'more'
    skipWhiteSpace(this.window, this.position)
    if (this.window.length === 0) return ended && !this.over ? this.refuseSyntax('') : 'more'
    const container = this.opened.at(-1)
    if (this.phase === 'value') return this.readValue()
    if (this.phase === 'end' || !container) return this.refuseSyntax(this.nextCharacter())
    return this.phase === 'after' ? this.readAfter(container) : this.readChild(container, ended)
  }

  /** Returns false if more bytes are needed. */
  private skipByteOrderMark(ended: boolean): boolean {
    const { window } = this
    const { length } = BYTE_ORDER_MARK
    if (window.length < length && !ended) return false
    const end = Math.min(window.end, window.start + length)
    if (window.bytes.subarray(window.start, end).equals(BYTE_ORDER_MARK)) window.start += length
    this.begun = true
    return true
  }

  private readValue(): EnvelopeStep {
    const { opened, options: { path } } = this
    const first = this.nextCharacter()
    const key = path[opened.length]
    const fits = key === undefined
      ? first === '['
      : first === '{' || (first === '[' && isArrayIndex(key))
    if (!fits) {
      if (!VALUE_STARTS.includes(first)) return this.refuseSyntax(first)
      return this.refuse('invalid_input', this.pointerTo(opened.length), this.expected())
    }
    this.consume(1)
    if (key === undefined) return 'array'
    opened.push(new OpenContainer(first === '{'))
    this.phase = 'child'
    return 'on'
  }

  private readChild(container: OpenContainer, ended: boolean): EnvelopeStep {
    const { window, opened, options: { path, alone } } = this
    const { isObject, close, commas, found } = container
    if (commas === 0 && window.bytes[window.start] === close) return this.refuseMissing()
    const key = path[opened.length - 1]
    const head = isObject ? this.memberHead() : ''
    if (head === undefined) return this.refuseHead(ended)
    const first = this.nextCharacter()
    if (!isObject && !VALUE_STARTS.includes(first)) return this.refuseSyntax(first)
    const name = isObject ? nameIn(head) : String(commas)
    if (name !== key) {
      if (alone && isSafeName(name)) {
        const pointer = toPointer([...path.slice(0, opened.length - 1), name])
        return this.refuse('invalid_input', pointer, UNKNOWN_MEMBER)
      }
      this.scanner.restart(window.start)
      this.phase = 'other'
      return 'on'
    }
    if (found) {
      return this.refuse(
        'invalid_input', this.pointerTo(opened.length), 'must stand there only once',
      )
    }
    container.found = true
    this.consume(head.length)
    this.phase = 'value'
    return 'on'
  }

  /**
   * Returns the bytes up to the value of the next property, as Latin-1 text; `undefined` if they
   * are not complete.
   */
  private memberHead(): string | undefined {
    const { bytes, start, end } = this.window
    const text = bytes.toString('latin1', start, Math.min(end, start + MAX_HEAD_BYTES))
    return MEMBER_HEAD.exec(text)?.[1]
  }

  /** Throws for bytes that are not the head of a property, unless more bytes may complete it. */
  private refuseHead(ended: boolean): EnvelopeStep {
    const { bytes, start, length } = this.window
    const size = Math.min(length, MAX_HEAD_BYTES)
    const text = bytes.toString('utf8', start, start + size)
    this.error = syntaxError(this.place(''), this.before(), text, ended && size === length)
    if (this.error !== undefined || size < MAX_HEAD_BYTES) return 'more'
    const reason = `begins a name of more than ${MAX_HEAD_BYTES} bytes`
    return this.refuse('body_too_large', '', reason)
  }

  /** Buffers, checks and drops a property or element that is not on the path. */
  private readOther(ended: boolean): EnvelopeStep {
    const { window, options: { maxElementBytes } } = this
    const container = this.opened.at(-1) as OpenContainer
    const stop = this.scanner.next(window.bytes, window.end)
    const end = stop === -1 ? window.end : stop
    if (end - window.start > maxElementBytes) return this.refuseTooLarge()
    if (stop === -1) return ended ? this.refuseSyntaxTo(window.end) : 'more'
    const next = window.bytes[stop] as number
    const text = window.textBetween(container.open, window.start, stop, container.close)
    const value = text === undefined ? undefined : tryParse(text)
    const isEnd = next === COMMA || next === container.close
    if (text === undefined || value === undefined || !isEnd) return this.refuseSyntaxTo(stop + 1)
    if (hasUnsafeKeys(text, value)) {
      return this.refuse('unsafe_key', '', 'begins a member with a key that is not allowed')
    }
    this.consume(stop - window.start)
    this.phase = 'after'
    return 'on'
  }

  /** Reads the comma or bracket after a property or element. */
  private readAfter(container: OpenContainer): EnvelopeStep {
    const byte = this.window.bytes[this.window.start]
    if (byte !== COMMA && byte !== container.close) return this.refuseSyntax(this.nextCharacter())
    this.consume(1)
    if (byte === COMMA) {
      container.commas++
      this.phase = 'child'
      return 'on'
    }
    if (!container.found) return this.refuseMissing()
    this.opened.pop()
    this.leaveValue()
    return 'on'
  }

  /** Continues after a value on the path. */
  private leaveValue(): void {
    this.phase = this.opened.length === 0 ? 'end' : 'after'
  }

  /** Consumes bytes that are known to be UTF-8. */
  private consume(bytes: number): void {
    const { window } = this
    const text = window.bytes.toString('utf8', window.start, window.start + bytes)
    this.position.advance(text, 0, text.length)
    window.start += bytes
  }

  private nextCharacter(): string {
    return this.window.bytes.toString('latin1', this.window.start, this.window.start + 1)
  }

  private before(): string {
    if (this.phase === 'end') return '{}'
    const inner = this.opened.at(-1)
    if (this.phase === 'value' || inner === undefined) return this.beforeValue
    const outer = this.opened.slice(0, -1).map((each) => each.leadToValue()).join('')
    return outer + (this.phase === 'after' ? inner.leadAfterChild() : inner.leadToChild())
  }

  /** Returns the pointer to the value after so many steps of the path. */
  private pointerTo(steps: number): string {
    return toPointer(this.options.path.slice(0, steps))
  }

  private expected(): string {
    const key = this.options.path[this.opened.length]
    if (key === undefined) return 'must be an array'
    return isArrayIndex(key) ? 'must be an object or an array' : 'must be an object'
  }

  private refuseMissing(): EnvelopeStep {
    const pointer = this.pointerTo(this.opened.length)
    return this.refuse('invalid_input', pointer, `${this.expected()}, and is missing`)
  }

  private refuseTooLarge(): EnvelopeStep {
    const { window: { start, bytes }, options: { maxElementBytes } } = this
    const text = bytes.toString('utf8', start, start + maxElementBytes)
    this.error = syntaxError(this.place(''), this.before(), text, false)
    if (this.error) return 'more'
    const reason = `begins a member of more than ${maxElementBytes} bytes`
    return this.refuse('body_too_large', '', reason)
  }

  private refuseSyntaxTo(to: number): EnvelopeStep {
    const text = this.window.text(this.window.start, to)
    if (text !== undefined) return this.refuseSyntax(text)
    return this.refuse('malformed_json', '', 'begins a member that is not UTF-8')
  }

  private refuseSyntax(text: string): EnvelopeStep {
    this.error = syntaxError(this.place(''), this.before(), text, true)
    return 'more'
  }

  private refuse(code: ErrorCode, pointer: string, reason: string): EnvelopeStep {
    this.error = errorAt(code, this.place(pointer), 'The body cannot be read', reason)
    return 'more'
  }

  private place(pointer: string): ErrorPlace {
    return { item: this.count, pointer, position: this.position }
  }
}

function nameIn(head: string): unknown {
  return tryParse(Buffer.from(head.slice(0, head.lastIndexOf(':')), 'latin1').toString())
}

/** Returns true for a name that may be repeated in an error, and is not itself rejected. */
function isSafeName(name: unknown): name is string {
  return typeof name === 'string' && !hasUnsafeKeys(`{${JSON.stringify(name)}:1}`, { [name]: 1 })
}

/** An object or array that contains the array to read, and is not closed yet. */
export class OpenContainer {
  /** Opening bracket. */
  readonly open: number
  /** Closing bracket. */
  readonly close: number

  constructor(readonly isObject: boolean, public commas = 0, public found = false) {
    this.open = isObject ? 0x7b : 0x5b
    this.close = isObject ? 0x7d : 0x5d
  }

  leadToValue(): string {
    if (this.isObject) return '{"":'
    return this.commas > 0 ? '[0,' : '['
  }

  leadToChild(): string {
    if (!this.isObject) return this.leadToValue()
    return this.commas > 0 ? '{"":0,' : '{'
  }

  /** Returns a text that leads to the comma or bracket after a property or element. */
  leadAfterChild(): string {
    return this.isObject ? '{"":{}' : '[{}'
  }
}
