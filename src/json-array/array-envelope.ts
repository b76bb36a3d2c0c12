import type { ErrorCode, HttpError } from '../http/errors.js'
import { toPointer } from '../schema/pointer.js'
import { errorAt, syntaxError, UNKNOWN_MEMBER, type ErrorPlace } from './array-error.js'
import type { ByteWindow } from './byte-window.js'
import { ElementScanner } from './element-scanner.js'
import { hasUnsafeKeys, tryParse } from './json-checks.js'
import { skipWhiteSpace, type TextPosition } from './text-position.js'

const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const COMMA = 0x2c
const BYTE_ORDER_MARK = Buffer.from('\uFEFF')
/** First characters of JSON values. */
const VALUE_STARTS = '{["-0123456789tfn'
/** Name of a member, up to the first character of its value. */
const MEMBER_HEAD = /^("(?:[^"\\]|\\.)*")[ \t\n\r]*:[ \t\n\r]*([^ \t\n\r])/s
/** Maximum length of such a head, which is searched again whenever more bytes arrive. */
const MAX_HEAD_BYTES = 65_536

/** Result of a step: more bytes are needed, another step is possible, or the array begins. */
export type EnvelopeStep = 'more' | 'on' | 'array'

/** Options of an envelope. */
export interface EnvelopeOptions {
  readonly member: string | undefined
  readonly maxElementBytes: number
  /** Other members than `member` are refused. */
  readonly alone: boolean
}

/** Reads the text around the array: white space, or the other members of its object. */
export class ArrayEnvelope {
  error: HttpError | undefined
  /** The whole body was read; white space may follow. */
  over = false
  /** Number of elements that were read, for the place of a later error. */
  private count = 0
  /** Text that leads a JSON parser to the current state. */
  private before = ''
  private begun = false
  /** The array was read. */
  private seen = false
  private readonly pointer: string
  private readonly scanner = new ElementScanner()
  /** The scanner is inside a member. */
  private inMember = false

  constructor(
    private readonly window: ByteWindow, private readonly position: TextPosition,
    private readonly options: EnvelopeOptions,
  ) {
    const { member } = options
    this.pointer = toPointer(member === undefined ? [] : [member])
  }

  /** Text that leads a parser to the array. */
  get beforeArray(): string {
    return this.options.member === undefined ? '' : '{"":'
  }

  /** Moves the scanner with the bytes of the window. */
  moveScanner(by: number): void {
    this.scanner.at += by
  }

  /** Continues after the closing bracket of the array. */
  leaveArray(count: number): void {
    this.count = count
    this.before = `${this.beforeArray}[]`
    this.over = this.options.member === undefined
  }

  step(ended: boolean): EnvelopeStep {
    if (this.inMember) return this.readMember(ended)
    if (!this.begun && !this.skipByteOrderMark(ended)) return 'more'
    skipWhiteSpace(this.window, this.position)
    if (this.window.length === 0) return ended && !this.over ? this.refuseSyntax('') : 'more'
    if (this.over) return this.refuseSyntax(this.nextCharacter())
    if (this.before === '') return this.readOpening()
    if (this.before.endsWith(']')) return this.readAfterArray()
    return this.readHead(ended)
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

  /** Reads the opening bracket of the body. */
  private readOpening(): EnvelopeStep {
    const first = this.nextCharacter()
    const inObject = this.options.member !== undefined
    if (first !== (inObject ? '{' : '[')) {
      if (!VALUE_STARTS.includes(first)) return this.refuseSyntax(first)
      return this.refuse('invalid_input', '', `must be an ${inObject ? 'object' : 'array'}`)
    }
    this.consume(1)
    this.before = inObject ? '{' : '['
    return inObject ? 'on' : 'array'
  }

  private readAfterArray(): EnvelopeStep {
    const byte = this.window.bytes[this.window.start]
    if (byte !== COMMA && byte !== CLOSE_OBJECT) return this.refuseSyntax(this.nextCharacter())
    this.endMember(byte)
    return 'on'
  }

  /** Reads the name of a member, and the first character of its value. */
  private readHead(ended: boolean): EnvelopeStep {
    const { window, options: { member, alone } } = this
    const isEmpty = this.before === '{' && window.bytes[window.start] === CLOSE_OBJECT
    if (isEmpty) return this.refuseMissing()
    const end = Math.min(window.end, window.start + MAX_HEAD_BYTES)
    const text = window.bytes.toString('latin1', window.start, end)
    const match = MEMBER_HEAD.exec(text)
    if (match === null) return this.refuseHead(text, ended)
    const [head, key, first] = match as unknown as [string, string, string]
    const name = tryParse(Buffer.from(key, 'latin1').toString())
    if (name !== member) {
      const isSafe = typeof name === 'string' && !hasUnsafeKeys(`{${key}:1}`, { [name]: 1 })
      if (alone && isSafe) return this.refuse('invalid_input', toPointer([name]), UNKNOWN_MEMBER)
      this.scanner.restart(window.start)
      this.inMember = true
      return 'on'
    }
    if (this.seen) return this.refuse('invalid_input', this.pointer, 'must stand there only once')
    this.seen = true
    if (first !== '[') {
      if (!VALUE_STARTS.includes(first)) {
        return this.refuseSyntax(Buffer.from(head, 'latin1').toString())
      }
      return this.refuse('invalid_input', this.pointer, 'must be an array')
    }
    this.consume(head.length)
    return 'array'
  }

  /** Refuses what is not the head of a member, unless more bytes may complete it. */
  private refuseHead(head: string, ended: boolean): EnvelopeStep {
    const text = Buffer.from(head, 'latin1').toString()
    const complete = ended && head.length === this.window.length
    this.error = syntaxError(this.place(''), this.before, text, complete)
    if (this.error !== undefined || head.length < MAX_HEAD_BYTES) return 'more'
    const reason = `begins a name of more than ${MAX_HEAD_BYTES} bytes`
    return this.refuse('body_too_large', '', reason)
  }

  /** Buffers, checks and drops a member that is not the array. */
  private readMember(ended: boolean): EnvelopeStep {
    const { window, options: { maxElementBytes } } = this
    const stop = this.scanner.next(window.bytes, window.end)
    const end = stop === -1 ? window.end : stop
    if (end - window.start > maxElementBytes) return this.refuseTooLarge()
    if (stop === -1) return ended ? this.refuseSyntaxTo(window.end) : 'more'
    const close = window.bytes[stop] as number
    const text = window.textBetween(OPEN_OBJECT, window.start, stop, CLOSE_OBJECT)
    const value = text === undefined ? undefined : tryParse(text)
    const isEnd = close === COMMA || close === CLOSE_OBJECT
    if (text === undefined || value === undefined || !isEnd) return this.refuseSyntaxTo(stop + 1)
    if (hasUnsafeKeys(text, value)) {
      return this.refuse('unsafe_key', '', 'begins a member with a key that is not allowed')
    }
    this.consume(stop - window.start)
    this.inMember = false
    this.endMember(close)
    return 'on'
  }

  private endMember(byte: number): void {
    this.consume(1)
    if (byte === COMMA) this.before = '{"":0,'
    else if (this.seen) {
      this.before = '{}'
      this.over = true
    } else this.refuseMissing()
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

  private refuseMissing(): EnvelopeStep {
    return this.refuse('invalid_input', this.pointer, 'must be an array, and is missing')
  }

  private refuseTooLarge(): EnvelopeStep {
    const { window: { start, bytes }, options: { maxElementBytes } } = this
    const text = bytes.toString('utf8', start, start + maxElementBytes)
    this.error = syntaxError(this.place(''), this.before, text, false)
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
    this.error = syntaxError(this.place(''), this.before, text, true)
    return 'more'
  }

  private refuse(code: ErrorCode, pointer: string, reason: string): EnvelopeStep {
    this.error = errorAt(code, this.place(pointer), 'The body can not be read', reason)
    return 'more'
  }

  private place(pointer: string): ErrorPlace {
    return { item: this.count, pointer, position: this.position }
  }
}
